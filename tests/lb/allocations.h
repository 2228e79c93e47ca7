// Counts what a test program allocates, where allocations.cpp is linked to it.
#pragma once

extern long allocations;
