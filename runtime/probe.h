// What the operating system says about the cores that this process may use. Start only.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace evenstep {

/// Numbers of the cores that this process may run on, ascending.
std::vector<int> allowed_cores();

/// Cores' worth of CPU time that the process's control groups (v1 or v2) allow it, the least of all
/// levels; nothing if there is no limit.
std::optional<double> cpu_quota();

std::string host_name();

}  // namespace evenstep
