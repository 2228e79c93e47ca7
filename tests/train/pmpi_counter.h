// Counts every call that a program makes to MPI, through the standard's profiling interface. Loaded
// before the MPI library (LD_PRELOAD); at MPI_Finalize each rank writes a JSON object of calls by
// name to the file EVENSTEP_PMPI_COUNTS.RANK. MPI_Query_thread tells EVENSTEP_PMPI_THREAD_LEVEL
// where that is set, as an MPI library without thread support would. The wrappers are made by
// make_pmpi_counter.py.
#pragma once

#include <mpi.h>

/// The counter of a function. Not thread safe: programs call MPI from one thread.
long& calls_of(const char* name);
