#include <fmt/format.h>
#include <mpi.h>

#include "bench/algorithms.h"
#include "bench/bench.h"
#include "evenstep/mpi.h"

namespace evenstep::bench {
namespace {

constexpr double seconds_a_size = 0.2;
constexpr std::size_t least_bytes = 256;
constexpr std::size_t times_larger = 4;

// In turn, so that what else the machine does meets all alike. Rank 0 says how often.
std::vector<double> medians(Communicator& communicator,
                            std::span<const std::function<void()>> calls) {
  const double once = seconds_of([&] {
    for (const auto& call : calls) call();
  });
  const int wanted = std::clamp(static_cast<int>(seconds_a_size / once), 5, 200);
  const int repeats = std::stoi(communicator.gather(std::to_string(wanted))[0]);
  std::vector<std::vector<double>> times(calls.size());
  for (int i = 0; i < repeats; ++i)
    for (std::size_t which = 0; which < calls.size(); ++which)
      times[which].push_back(seconds_of(calls[which]));
  std::vector<double> results;
  results.reserve(times.size());
  for (const auto& of_call : times) results.push_back(median(of_call));
  return results;
}

// Sums of one size by both sides, under one algorithm.
class Sides {
 public:
  Sides(Communicator& all, const Options& options) : all_(all) {
    const auto most = static_cast<std::size_t>(options.most_mb * 1e6);
    floats_.resize(most / sizeof(float) + 1);
    bf16_.resize(most / sizeof(Bf16) + 1);
    f16_.resize(most / sizeof(F16) + 1);
    plain_.resize(most / sizeof(double) + 1);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    ours_ = make_mpi_communicator(MPI_COMM_WORLD, {.wait = options.wait});
  }
  ~Sides() { MPI_Comm_free(&comm_); }
  Sides(const Sides&) = delete;
  Sides& operator=(const Sides&) = delete;

  static constexpr const char* names[] = {"ours_f32", "ours_bf16", "ours_f16",
                                          "mpi_f32",  "mpi_f64",   "mpi_i64"};

  std::vector<double> times(std::size_t bytes) {
    const auto plain = [this, bytes](MPI_Datatype type, std::size_t size) {
      return [this, bytes, type, size] {
        MPI_Allreduce(MPI_IN_PLACE, plain_.data(), static_cast<int>(bytes / size), type, MPI_SUM,
                      comm_);
      };
    };
    const std::function<void()> calls[] = {
        [&] { ours_->sum(std::span(floats_).first(bytes / sizeof(float))); },
        [&] { ours_->sum(std::span(bf16_).first(bytes / sizeof(Bf16))); },
        [&] { ours_->sum(std::span(f16_).first(bytes / sizeof(F16))); },
        plain(MPI_FLOAT, sizeof(float)),
        plain(MPI_DOUBLE, sizeof(double)),
        plain(MPI_INT64_T, sizeof(std::int64_t))};
    return medians(all_, calls);
  }

 private:
  Communicator& all_;
  std::vector<float> floats_;
  std::vector<Bf16> bf16_;
  std::vector<F16> f16_;
  std::vector<double> plain_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::unique_ptr<Communicator> ours_;
};

Json measure_sizes(Communicator& communicator, const Options& options) {
  Sides sides(communicator, options);
  Json sizes = Json::array();
  for (std::size_t bytes = least_bytes; static_cast<double>(bytes) <= 1e6 * options.most_mb;
       bytes *= times_larger) {
    const std::vector<double> times = sides.times(bytes);
    Json size = {{"bytes", bytes}};
    if (communicator.rank() == 0) fmt::print("{:>12}", bytes);
    for (std::size_t i = 0; i < times.size(); ++i) {
      size[Sides::names[i]] = times[i];
      if (communicator.rank() == 0) fmt::print(" {:>9.1f}", 1e6 * times[i]);
    }
    size["bytes_per_second"] = static_cast<double>(bytes) / times[0];
    if (communicator.rank() == 0)
      fmt::print(" {:>10.3f}\n", 1e-9 * static_cast<double>(bytes) / times[0]);
    sizes.push_back(size);
  }
  return sizes;
}

}  // namespace

Json measure_all_reduce(Communicator& communicator, const Options& options) {
  Json results = Json::array();
  for_each_algorithm([&](const std::string& algorithm) {
    if (communicator.rank() == 0) {
      fmt::print("all-reduce, {}, microseconds\n{:>12}", algorithm, "bytes");
      for (const char* name : Sides::names) fmt::print(" {:>9}", name);
      fmt::print(" {:>10}\n", "ours GB/s");
    }
    results.push_back({{"algorithm", algorithm}, {"sizes", measure_sizes(communicator, options)}});
  });
  return results;
}

}  // namespace evenstep::bench
