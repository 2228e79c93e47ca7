// Counts what a test program allocates with operator new, on all its threads, where allocations.cpp
// is linked to it.
#pragma once

#include <atomic>

extern std::atomic<long> allocations;
extern std::atomic<bool> counting;  // true at start
