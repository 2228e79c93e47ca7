#include "training/profile_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace evenstep::train {
namespace {

using nlohmann::ordered_json;

ordered_json row_json(const kernels::Profile::Row& row, const kernels::Profile& profile,
                      std::int64_t steps, double peak_flops) {
  const auto per_step = [&](std::int64_t ns) {
    return 1e-9 * static_cast<double>(ns) / static_cast<double>(std::max<std::int64_t>(1, steps));
  };
  const double flops = static_cast<double>(row.flops()) * static_cast<double>(profile.samples());
  const double seconds = 1e-9 * static_cast<double>(std::max<std::int64_t>(1, row.ns()));
  return {
      {"layer", row.layer},
      {"forward", per_step(row.forward_ns)},
      {"backward", per_step(row.backward_ns)},
      {"share_of_time", static_cast<double>(row.ns()) /
                            static_cast<double>(std::max<std::int64_t>(1, profile.total().ns()))},
      {"share_of_peak", flops / seconds / peak_flops}};
}

}  // namespace

ordered_json profile_json(const kernels::Profile& profile, std::int64_t steps, double peak_flops) {
  ordered_json layers = ordered_json::array();
  for (const auto& row : profile.rows())
    layers.push_back(row_json(row, profile, steps, peak_flops));
  return {{"samples", profile.samples()},
          {"peak_flops", peak_flops},
          {"layers", layers},
          {"total", row_json(profile.total(), profile, steps, peak_flops)}};
}

void print_profile(const ordered_json& json) {
  fmt::print("\n{:<16} {:>10} {:>11} {:>8} {:>9}\n", "layer, rank 0", "forward ms", "backward ms",
             "of time", "of peak");
  const auto print = [](const ordered_json& row) {
    fmt::print("{:<16} {:>10.3f} {:>11.3f} {:>7.1f}% {:>8.1f}%\n", row["layer"].get<std::string>(),
               1e3 * row["forward"].get<double>(), 1e3 * row["backward"].get<double>(),
               1e2 * row["share_of_time"].get<double>(), 1e2 * row["share_of_peak"].get<double>());
  };
  for (const auto& row : json["layers"]) print(row);
  print(json["total"]);
  fmt::print("mean of a step, {} samples; the peak is a large oneDNN product's: {:.0f} GFLOP/s\n",
             json["samples"].get<std::int64_t>(), 1e-9 * json["peak_flops"].get<double>());
}

}  // namespace evenstep::train
