#include "runtime/mpi_tuning.h"

#include "runtime/mpi_setting.h"

namespace evenstep {

void choose_nonblocking_sum() {
  constexpr int by_default = 0;
  constexpr int rabenseifner = 3;
  const MpiTools tools;
  if (!tools.there()) return;
  MpiSetting algorithm("coll_libnbc_iallreduce_algorithm");
  if (algorithm.there() && algorithm.value() == by_default) algorithm.set(rabenseifner);
}

}  // namespace evenstep
