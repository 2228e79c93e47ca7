#include <fmt/format.h>
#include <mpi.h>

#include <cstdlib>

#include "bench/bench.h"

namespace evenstep::bench {
namespace {

constexpr double seconds_a_size = 0.3;
constexpr std::size_t least_bytes = 256;

struct Kind {
  const char* name;
  MPI_Datatype type;
  std::size_t bytes;
};

// In turn, so that what else the machine does meets all alike. Rank 0 says how often.
template <typename... Calls>
std::vector<double> medians(Communicator& communicator, Calls&&... calls) {
  const double once = seconds_of([&] { (calls(), ...); });
  const int wanted = std::clamp(static_cast<int>(seconds_a_size / once), 5, 200);
  const int repeats = std::stoi(communicator.gather(std::to_string(wanted))[0]);
  std::vector<std::vector<double>> times(sizeof...(calls));
  for (int i = 0; i < repeats; ++i) {
    std::size_t which = 0;
    (times[which++].push_back(seconds_of(calls)), ...);
  }
  std::vector<double> results;
  results.reserve(times.size());
  for (const auto& of_call : times) results.push_back(median(of_call));
  return results;
}

}  // namespace

Json measure_all_reduce(Communicator& communicator, const Options& options) {
  const auto most = static_cast<std::size_t>(options.most_mb * 1e6);
  std::vector<float> ours(most / sizeof(float) + 1, 0.0F);
  std::vector<double> plain(most / sizeof(double) + 1, 0.0);
  const Kind kinds[] = {{"f32", MPI_FLOAT, 4}, {"f64", MPI_DOUBLE, 8}, {"i64", MPI_INT64_T, 8}};
  const bool speaks = communicator.rank() == 0;
  const char* algorithm = std::getenv("OMPI_MCA_coll_tuned_allreduce_algorithm");
  Json results = {{"algorithm", algorithm != nullptr ? algorithm : "MPI's choice"},
                  {"sizes", Json::array()}};
  if (speaks)
    fmt::print("all-reduce, microseconds    ours f32   MPI f32   MPI f64   MPI i64   ours GB/s\n");
  for (std::size_t bytes = least_bytes; bytes <= most; bytes *= 4) {
    const auto plain_call = [&](const Kind& kind) {
      return [&, kind] {
        MPI_Allreduce(MPI_IN_PLACE, plain.data(), static_cast<int>(bytes / kind.bytes), kind.type,
                      MPI_SUM, MPI_COMM_WORLD);
      };
    };
    const std::span<float> values(ours.data(), bytes / sizeof(float));
    const auto times = medians(
        communicator, [&] { communicator.sum(values); }, plain_call(kinds[0]), plain_call(kinds[1]),
        plain_call(kinds[2]));
    const double bandwidth = static_cast<double>(bytes) / times[0];
    results["sizes"].push_back({{"bytes", bytes},
                                {"ours_f32", times[0]},
                                {"mpi_f32", times[1]},
                                {"mpi_f64", times[2]},
                                {"mpi_i64", times[3]},
                                {"bytes_per_second", bandwidth}});
    if (speaks)
      fmt::print("{:>12} bytes {:>19.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>11.2f}\n", bytes,
                 1e6 * times[0], 1e6 * times[1], 1e6 * times[2], 1e6 * times[3], 1e-9 * bandwidth);
  }
  return results;
}

}  // namespace evenstep::bench
