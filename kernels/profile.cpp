#include "kernels/profile.h"

#include <chrono>

namespace evenstep::kernels {
namespace {

std::int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Profile::Row Profile::total() const {
  Row total{.layer = "total"};
  for (const Row& row : rows_) {
    total.forward_flops += row.forward_flops;
    total.backward_flops += row.backward_flops;
    total.forward_ns += row.forward_ns;
    total.backward_ns += row.backward_ns;
  }
  return total;
}

void Profile::start() { start_ns_ = now_ns(); }

void Profile::lap(std::size_t row, Part part) {
  const std::int64_t now = now_ns();
  Row& to = rows_[row];
  (part == Part::forward ? to.forward_ns : to.backward_ns) += now - start_ns_;
  start_ns_ = now;
}

}  // namespace evenstep::kernels
