// MPI's calls are counted by MPI's own profiling interface: these definitions stand before the
// library's. What they count is what the runtime calls in a step.
#include "bench/calls.h"

#include <mpi.h>

#include "common/system_calls.h"

namespace {

struct MpiCalls {
  std::int64_t sums = 0;
  std::int64_t others = 0;  // tests and waits
};
MpiCalls mpi_calls;

template <typename Call>
int counted(std::int64_t& counter, Call&& call) {
  ++counter;
  evenstep::system_calls::set_aside(true);
  const int code = call();
  evenstep::system_calls::set_aside(false);
  return code;
}

}  // namespace

int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  return counted(mpi_calls.sums, [&] { return PMPI_Allreduce(from, to, count, type, op, comm); });
}
int MPI_Iallreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request* request) {
  return counted(mpi_calls.sums,
                 [&] { return PMPI_Iallreduce(from, to, count, type, op, comm, request); });
}
int MPI_Testall(int count, MPI_Request requests[], int* flag, MPI_Status statuses[]) {
  return counted(mpi_calls.others, [&] { return PMPI_Testall(count, requests, flag, statuses); });
}
int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  return counted(mpi_calls.others, [&] { return PMPI_Waitall(count, requests, statuses); });
}

namespace evenstep::bench {

Json count_calls(int count, const std::function<void(int steps)>& steps) {
  const auto a_step = [&](std::int64_t calls) { return static_cast<double>(calls) / count; };
  const MpiCalls before = mpi_calls;
  allocations = {.counting = true};
  steps(count);
  allocations.counting = false;
  Json result = {{"allocations", a_step(allocations.own)},
                 {"allocations_in_onednn", a_step(allocations.in_onednn)},
                 {"all_reduces", a_step(mpi_calls.sums - before.sums)},
                 {"mpi_tests_and_waits", a_step(mpi_calls.others - before.others)}};
  const bool counts = system_calls::start();
  steps(count);
  const system_calls::Counts calls = system_calls::stop();
  const auto told = [&](std::int64_t number) { return counts ? Json(a_step(number)) : Json(); };
  result["system_calls"] = told(calls.own);
  result["system_calls_waiting"] = told(calls.waiting);
  result["system_calls_in_mpi"] = told(calls.set_aside);
  return result;
}

}  // namespace evenstep::bench
