// The table and the JSON of --profile: this rank's time by layer.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "kernels/profile.h"

namespace evenstep::train {

/// Mean seconds a step, and each layer's speed as a share of `peak_flops` (kernels::Profile).
nlohmann::ordered_json profile_json(const kernels::Profile& profile, std::int64_t steps,
                                    double peak_flops);

void print_profile(const nlohmann::ordered_json& json);

}  // namespace evenstep::train
