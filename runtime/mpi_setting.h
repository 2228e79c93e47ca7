// MPI's own settings, by its tools interface (MPI standard, chapter 15). Internal: not installed.
#pragma once

#include <cstddef>  // MPICH writes NULL in a macro

#include <mpi.h>

namespace evenstep {

/// While it lives, settings can be reached, where MPI has any. After MPI_Init; local.
class MpiTools {
 public:
  MpiTools() {
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);  // Open MPI takes this call's for all of MPI
    there_ = MPI_T_init_thread(level, &level) == MPI_SUCCESS;
  }
  ~MpiTools() {
    if (there_) MPI_T_finalize();
  }
  MpiTools(const MpiTools&) = delete;
  MpiTools& operator=(const MpiTools&) = delete;

  bool there() const { return there_; }

 private:
  bool there_;
};

/// A whole number by its name.
class MpiSetting {
 public:
  explicit MpiSetting(const char* name) {
    int count = 0;
    if (MPI_T_cvar_get_index(name, &index_) != MPI_SUCCESS ||
        MPI_T_cvar_handle_alloc(index_, nullptr, &handle_, &count) != MPI_SUCCESS)
      return;
    allocated_ = true;
    there_ = count == 1 && MPI_T_cvar_read(handle_, &value_) == MPI_SUCCESS;
  }
  ~MpiSetting() {
    if (allocated_) MPI_T_cvar_handle_free(&handle_);
  }
  MpiSetting(const MpiSetting&) = delete;
  MpiSetting& operator=(const MpiSetting&) = delete;

  bool there() const { return there_; }
  int index() const { return index_; }
  /// What it was at construction.
  int value() const { return value_; }
  bool set(int value) { return MPI_T_cvar_write(handle_, &value) == MPI_SUCCESS; }

 private:
  int index_ = 0;
  MPI_T_cvar_handle handle_ = MPI_T_CVAR_HANDLE_NULL;
  bool allocated_ = false;
  bool there_ = false;
  int value_ = 0;
};

}  // namespace evenstep
