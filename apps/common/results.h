// What is told of simulated and replayed runs (design, section 6; scripts and users depend on the
// names).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lb/simulator.h"

namespace evenstep {

/// Sizers in the order asked for, and what each achieved.
struct Results {
  std::vector<std::string> sizers;
  std::vector<lb::SimulationResult> achieved;
};

/// By sizer name.
nlohmann::ordered_json to_json(const Results& results);

/// The summary but for `results`.
nlohmann::ordered_json describe_run(const std::string& source, int ranks,
                                    const lb::SimulationOptions& options);

void print_run(const std::string& source, int ranks, const lb::SimulationOptions& options);
void print_table(const Results& results);

}  // namespace evenstep
