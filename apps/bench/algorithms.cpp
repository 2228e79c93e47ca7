#include "bench/algorithms.h"

#include <vector>

#include "runtime/mpi_setting.h"

namespace evenstep::bench {
namespace {

/// Names of a setting's values.
std::vector<std::string> values_of(const MpiSetting& setting) {
  MPI_T_enum values = MPI_T_ENUM_NULL;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  int length = 0;
  int text_length = 0;
  int verbosity = 0;
  int bind = 0;
  int scope = 0;
  MPI_T_cvar_get_info(setting.index(), nullptr, &length, &verbosity, &type, &values, nullptr,
                      &text_length, &bind, &scope);
  std::vector<std::string> names;
  int count = 0;
  if (values == MPI_T_ENUM_NULL ||
      MPI_T_enum_get_info(values, &count, nullptr, &length) != MPI_SUCCESS)
    return names;
  for (int i = 0; i < count; ++i) {
    char name[128];
    int value = 0;
    length = sizeof name;
    MPI_T_enum_get_item(values, i, &value, name, &length);
    names.emplace_back(name);
  }
  return names;
}

void force_each(const std::function<void(const std::string& name)>& measure) {
  MpiSetting dynamic("coll_tuned_use_dynamic_rules");
  MpiSetting algorithm("coll_tuned_allreduce_algorithm");
  if (!dynamic.there() || !algorithm.there() || !dynamic.set(1)) return;
  const std::vector<std::string> names = values_of(algorithm);
  for (std::size_t i = 1; i < names.size(); ++i)  // 0 is none forced
    if (algorithm.set(static_cast<int>(i))) measure(names[i]);
  algorithm.set(algorithm.value());
  dynamic.set(0);
}

}  // namespace

void for_each_algorithm(const std::function<void(const std::string& name)>& measure) {
  measure("MPI's choice");
  const MpiTools tools;
  if (tools.there()) force_each(measure);
}

}  // namespace evenstep::bench
