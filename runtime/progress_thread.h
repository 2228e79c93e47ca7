// A thread that lets MPI make progress on this process's nonblocking calls while others compute.
#pragma once

#include <mpi.h>

#include <atomic>
#include <thread>

namespace evenstep {

class MpiProgressThread {
 public:
  /// Wants MPI_THREAD_MULTIPLE. `sleeps`: it leaves its core to others between two looks.
  MpiProgressThread(MPI_Comm comm, bool sleeps);
  ~MpiProgressThread();
  MpiProgressThread(const MpiProgressThread&) = delete;
  MpiProgressThread& operator=(const MpiProgressThread&) = delete;

  void run() {
    running_.store(true, std::memory_order_release);
    running_.notify_one();
  }
  void rest() { running_.store(false, std::memory_order_release); }

 private:
  void loop();

  bool sleeps_;
  MPI_Request never_ = MPI_REQUEST_NULL;  // testing it makes progress on all others
  std::atomic<bool> running_ = false;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

}  // namespace evenstep
