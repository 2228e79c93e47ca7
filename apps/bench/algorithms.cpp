#include "bench/algorithms.h"

#include <mpi.h>

#include <vector>

namespace evenstep::bench {
namespace {

// One of MPI's own settings, by the tools interface (MPI standard, chapter 15).
class Setting {
 public:
  explicit Setting(const char* name) {
    int index = 0;
    if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS) return;
    int name_length = 0;
    int text_length = 0;
    int verbosity = 0;
    int bind = 0;
    int scope = 0;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_T_cvar_get_info(index, nullptr, &name_length, &verbosity, &type, &values_, nullptr,
                        &text_length, &bind, &scope);
    int count = 0;
    if (MPI_T_cvar_handle_alloc(index, nullptr, &handle_, &count) != MPI_SUCCESS) return;
    there_ = true;
  }
  ~Setting() {
    if (there_) MPI_T_cvar_handle_free(&handle_);
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

  bool there() const { return there_; }
  bool set(int value) { return MPI_T_cvar_write(handle_, &value) == MPI_SUCCESS; }
  int value() const {
    int value = 0;
    MPI_T_cvar_read(handle_, &value);
    return value;
  }
  /// Names of its values.
  std::vector<std::string> values() const {
    std::vector<std::string> names;
    int count = 0;
    int length = 0;
    if (values_ == MPI_T_ENUM_NULL ||
        MPI_T_enum_get_info(values_, &count, nullptr, &length) != MPI_SUCCESS)
      return names;
    for (int i = 0; i < count; ++i) {
      char name[128];
      int value = 0;
      length = sizeof name;
      MPI_T_enum_get_item(values_, i, &value, name, &length);
      names.emplace_back(name);
    }
    return names;
  }

 private:
  bool there_ = false;
  MPI_T_cvar_handle handle_ = nullptr;
  MPI_T_enum values_ = MPI_T_ENUM_NULL;
};

void force_each(const std::function<void(const std::string& name)>& measure) {
  Setting dynamic("coll_tuned_use_dynamic_rules");
  Setting algorithm("coll_tuned_allreduce_algorithm");
  if (!dynamic.there() || !algorithm.there() || !dynamic.set(1)) return;
  const int before = algorithm.value();
  const std::vector<std::string> names = algorithm.values();
  for (std::size_t i = 1; i < names.size(); ++i)  // 0 is none forced
    if (algorithm.set(static_cast<int>(i))) measure(names[i]);
  algorithm.set(before);
  dynamic.set(0);
}

}  // namespace

void for_each_algorithm(const std::function<void(const std::string& name)>& measure) {
  measure("MPI's choice");
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);  // Open MPI takes this call's for all of MPI
  if (MPI_T_init_thread(level, &level) != MPI_SUCCESS) return;
  force_each(measure);
  MPI_T_finalize();
}

}  // namespace evenstep::bench
