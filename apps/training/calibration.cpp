#include "training/calibration.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "common/median.h"
#include "evenstep/benchmark.h"
#include "runtime/cpu_time.h"

namespace evenstep::train {
namespace {

constexpr int size_repetitions = 9;
constexpr std::int64_t enough_ns = 3'000'000'000;  // large networks: long runs are exact enough
constexpr std::int64_t largest_table = 1 << 16;

std::int64_t cpu_ns(const std::function<void()>& run) {
  const std::int64_t start = process_cpu_ns();
  run();
  return process_cpu_ns() - start;
}

// CPU time, since all ranks measure at once: where they share cores, only short runs would be left
// in peace, and long ones look dear.
std::int64_t chunk_ns(kernels::Trainable& model, int size, kernels::Trainable::Pass pass,
                      std::span<float> gradients) {
  return cpu_ns([&] {
    model.forward(size);
    model.backward(size, pass, gradients, nullptr);
  });
}

// In millionths of what the largest size costs on the same rank. By size: a chunk in the middle of
// a share, which adds to its gradients. Then shares of one chunk of the smallest and of the largest
// size, since a share's end costs too. Medians over rounds of all, so that each follows another.
std::vector<std::int64_t> relative_chunk_costs(kernels::Trainable& model) {
  std::vector<float> gradients(static_cast<std::size_t>(model.parameter_count()));
  const auto sizes = model.menu().sizes();
  std::vector<std::vector<std::int64_t>> times(sizes.size() + 2);
  const std::int64_t start_ns = process_cpu_ns();
  for (int round = 0; round < size_repetitions; ++round) {
    if (round > 0 && process_cpu_ns() - start_ns > enough_ns) break;
    const auto measure = [&](std::size_t place, int size, kernels::Trainable::Pass pass) {
      times[place].push_back(chunk_ns(model, size, pass, gradients));
    };
    measure(sizes.size(), sizes.front(), {.first = true, .last = true});
    chunk_ns(model, sizes.front(), {.first = true, .last = false}, gradients);
    for (std::size_t s = 0; s < sizes.size(); ++s)
      measure(s, sizes[s], {.first = false, .last = false});
    measure(sizes.size() + 1, sizes.back(), {.first = true, .last = true});
  }
  std::vector<std::int64_t> costs;
  costs.reserve(times.size());
  const std::int64_t largest = std::max<std::int64_t>(1, median(times[sizes.size() - 1]));
  for (const auto& time : times) costs.push_back(median(time) * 1'000'000 / largest);
  return costs;
}

// Costs of shares of 0 .. `largest` samples from what relative_chunk_costs gives.
std::vector<std::int64_t> costs_of_shares(const kernels::ChunkMenu& menu,
                                          const std::vector<std::int64_t>& costs,
                                          std::int64_t largest) {
  const auto sizes = menu.sizes();
  std::vector<std::int64_t> cost_of_size(static_cast<std::size_t>(menu.usual()) + 1);
  for (std::size_t s = 0; s < sizes.size(); ++s)
    cost_of_size[static_cast<std::size_t>(sizes[s])] = costs[s];
  const std::int64_t least_end = std::max<std::int64_t>(0, costs[sizes.size()] - costs[0]);
  const std::int64_t most_end =
      std::max(least_end, costs[sizes.size() + 1] - costs[sizes.size() - 1]);
  const std::int64_t between = std::max(1, sizes.back() - sizes.front());
  std::vector<std::int64_t> result = {0};
  for (std::int64_t share = 1; share <= largest; ++share) {
    result.push_back(least_end + (most_end - least_end) * (share - 1) / between);
    menu.for_each_chunk(
        share, [&](int size) { result.back() += cost_of_size[static_cast<std::size_t>(size)]; });
  }
  return result;
}

}  // namespace

std::vector<std::int64_t> measure_size_cost(Communicator& communicator, kernels::Trainable& model,
                                            std::int64_t largest_share) {
  const nlohmann::json mine = relative_chunk_costs(model);
  std::vector<std::vector<std::int64_t>> by_rank(mine.size());
  for (const std::string& text : communicator.gather(mine.dump())) {
    const auto costs = nlohmann::json::parse(text);
    for (std::size_t i = 0; i < by_rank.size(); ++i) by_rank[i].push_back(costs[i]);
  }
  std::vector<std::int64_t> costs;
  costs.reserve(by_rank.size());
  for (const auto& of_ranks : by_rank) costs.push_back(median(of_ranks));
  return costs_of_shares(model.menu(), costs, std::min(largest_share, largest_table));
}

// `static` goes by the time of an even share, `lbbsp-gpu-2018` by times from one sample to twice
// that.
Forecast measure_forecast(Communicator& communicator, const std::string& balance,
                          std::int64_t global_batch, std::span<const std::int64_t> size_cost,
                          const std::function<void(std::int64_t share)>& run) {
  const std::int64_t even = std::max<std::int64_t>(1, global_batch / communicator.size());
  std::set<std::int64_t> sizes;
  if (balance == "static") sizes = {even};
  if (balance == "lbbsp-gpu-2018")
    sizes = {1,
             (even + 3) / 4,
             (even + 1) / 2,
             even,
             std::min(even * 3 / 2, global_batch),
             std::min(even * 2, global_batch)};
  if (sizes.empty()) return {};
  const std::vector<std::int64_t> ascending(sizes.begin(), sizes.end());
  const auto times_ns = benchmark(communicator, ascending, run);
  return fit_forecast(work_of(ascending, size_cost), times_ns);
}

}  // namespace evenstep::train
