#include "training/progress.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace evenstep::train {
namespace {

constexpr std::int64_t interval_ns = 200'000'000;
constexpr std::size_t most_shares_shown = 8;

bool standard_error_is_terminal() {
  const char* told = std::getenv("EVENSTEP_PROGRESS");
  if (told != nullptr) return std::string_view(told) == "1";
  return isatty(STDERR_FILENO) != 0;
}

std::string shares_text(std::span<const std::int64_t> partition) {
  const auto shown = partition.first(std::min(partition.size(), most_shares_shown));
  return fmt::format("{}{}", fmt::join(shown, "/"), shown.size() < partition.size() ? "/..." : "");
}

}  // namespace

Progress::Progress(bool is_rank_0, std::int64_t total_steps)
    : live_(is_rank_0 && standard_error_is_terminal()), total_steps_(total_steps) {}

Progress::~Progress() { clear(); }

void Progress::show(const Session& session, const StepResult& result,
                    const Statistics& statistics) {
  if (!live_) return;
  const std::int64_t now = steady_clock().now_ns();
  if (now < next_ns_) return;
  next_ns_ = now + interval_ns;
  fmt::print(stderr,
             "\r\033[Kstep {}/{}  loss {:.4f}  {:.1f} ms  {:.0f} samples/s  load balance {:.2f}  "
             "shares {}",
             statistics.steps(), total_steps_, result.loss, 1e3 * statistics.last_step_seconds(),
             statistics.samples_per_second(), statistics.last_load_balance(),
             shares_text(session.partition()));
  std::fflush(stderr);
  shown_ = true;
}

void Progress::clear() {
  if (!shown_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace evenstep::train
