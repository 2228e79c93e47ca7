// Preprocessed, this is the list of MPI's functions that make_pmpi_counter.py reads.
#include <mpi.h>
