// evenstep-sim --solve: the best partition for given costs.
#pragma once

#include <cstdint>
#include <string>

namespace evenstep::sim {

/// Prints JSON to standard output. Throws Error for a malformed file (with file and line) and for
/// ranks that cannot take the batch.
void solve_file(const std::string& path, std::int64_t global_batch, std::int64_t granule);

}  // namespace evenstep::sim
