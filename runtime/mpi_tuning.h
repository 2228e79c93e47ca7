// What of the MPI library's own settings matters to sums that overlap.
#pragma once

namespace evenstep {

/// Open MPI's nonblocking all-reduce (5.0 and before) sums by a binomial tree and broadcasts the
/// result where it is in place or has fewer than 4 ranks: two ranks send the whole message one
/// after the other, each while the other's half of the link idles. Has it reduce and scatter, then
/// gather (Rabenseifner 2004), which sends as few bytes as can be, unless the user chose an
/// algorithm (OMPI_MCA_coll_libnbc_iallreduce_algorithm). Other libraries are left alone. After
/// MPI_Init; local.
void choose_nonblocking_sum();

}  // namespace evenstep
