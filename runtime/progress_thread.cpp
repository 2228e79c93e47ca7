#include "runtime/progress_thread.h"

#include <sched.h>

#include <ctime>

namespace evenstep {
namespace {

constexpr timespec nap{0, 50'000};

}  // namespace

MpiProgressThread::MpiProgressThread(MPI_Comm comm, bool sleeps) : sleeps_(sleeps) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Irecv(nullptr, 0, MPI_BYTE, rank, 0, comm, &never_);
  thread_ = std::thread([this] { loop(); });
}

MpiProgressThread::~MpiProgressThread() {
  ends_ = true;
  run();
  thread_.join();
  MPI_Cancel(&never_);
  MPI_Wait(&never_, MPI_STATUS_IGNORE);
}

void MpiProgressThread::loop() {
  while (!ends_) {
    running_.wait(false);
    int done = 0;
    MPI_Test(&never_, &done, MPI_STATUS_IGNORE);
    if (sleeps_)
      nanosleep(&nap, nullptr);
    else
      sched_yield();
  }
}

}  // namespace evenstep
