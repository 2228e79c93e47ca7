#include "runtime/mpi_tuning.h"

#include <mpi.h>

#include <cstddef>  // MPICH writes NULL in a macro

namespace evenstep {
namespace {

constexpr int by_default = 0;
constexpr int rabenseifner = 3;

void choose(int variable) {
  MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
  int count = 0;
  if (MPI_T_cvar_handle_alloc(variable, nullptr, &handle, &count) != MPI_SUCCESS) return;
  int algorithm = by_default;
  if (count == 1 && MPI_T_cvar_read(handle, &algorithm) == MPI_SUCCESS && algorithm == by_default)
    MPI_T_cvar_write(handle, &rabenseifner);
  MPI_T_cvar_handle_free(&handle);
}

}  // namespace

void choose_nonblocking_sum() {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (MPI_T_init_thread(level, &level) != MPI_SUCCESS) return;  // Open MPI makes it all of MPI's
  int variable = 0;
  if (MPI_T_cvar_get_index("coll_libnbc_iallreduce_algorithm", &variable) == MPI_SUCCESS)
    choose(variable);
  MPI_T_finalize();
}

}  // namespace evenstep
