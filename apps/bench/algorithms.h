// The all-reduce algorithms of the MPI library, one after the other.
#pragma once

#include <functional>
#include <string>

namespace evenstep::bench {

/// Calls `measure` with "MPI's choice", then with the name of each algorithm that Open MPI (its
/// component coll/tuned) has, in force for communicators that `measure` makes. With another MPI,
/// or where that component is left out, there is only the first. The same on all ranks.
void for_each_algorithm(const std::function<void(const std::string& name)>& measure);

}  // namespace evenstep::bench
