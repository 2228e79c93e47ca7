#include "training/step_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

namespace evenstep::train {
namespace {

constexpr double seconds_per_ns = 1e-9;
constexpr std::size_t spans = phases + 1;
// In the order in which they happen between two exits from the collective.
constexpr const char* span_names[spans] = {"update", "load", "forward", "backward", "wait"};
constexpr Phase span_phases[] = {Phase::update, Phase::load, Phase::forward, Phase::backward};
constexpr std::int64_t flush_interval_steps = 50;
constexpr std::int64_t most_steps_reserved = 1 << 20;  // 40 MB

// One step of all ranks starts where the last one ended: when rank 0 left the collective.
void write_events(OutputFile& file, std::span<const std::int64_t> spans_ns, int rank,
                  std::span<const std::int64_t> step_starts_ns, bool& first) {
  for (std::size_t step = 0; step < step_starts_ns.size(); ++step) {
    std::int64_t start = step_starts_ns[step];
    for (std::size_t s = 0; s < spans; ++s) {
      const std::int64_t length = spans_ns[step * spans + s];
      file.write(fmt::format(
          "{}{{\"name\":\"{}\",\"ph\":\"X\",\"pid\":0,\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},"
          "\"args\":{{\"step\":{}}}}}",
          first ? "" : ",\n", span_names[s], rank, static_cast<double>(start) * 1e-3,
          static_cast<double>(length) * 1e-3, step));
      first = false;
      start += length;
    }
  }
}

std::vector<std::int64_t> unpack(const std::string& bytes) {
  std::vector<std::int64_t> values(bytes.size() / sizeof(std::int64_t));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(std::int64_t));
  return values;
}

}  // namespace

void StepLog::add(const Session& session, const StepResult& result, std::int64_t step) {
  if (!file_.is_open()) return;
  const auto reports = session.reports();
  if (pending_.number >= 0) {
    std::vector<double> wait_seconds;
    for (const RankReport& report : reports)
      wait_seconds.push_back(seconds_per_ns * static_cast<double>(report.wait_ns));
    write_pending(wait_seconds);
  }
  pending_.number = step;
  pending_.shares.clear();
  pending_.own_seconds.clear();
  seen_.resize(reports.size());
  pending_.cpu_available = seen_;
  seen_.clear();
  for (const RankReport& report : reports) {
    pending_.shares.push_back(report.samples);
    pending_.own_seconds.push_back(seconds_per_ns * static_cast<double>(report.own_ns));
    seen_.push_back(report.cpu_cores);
  }
  pending_.step_seconds =
      seconds_per_ns * static_cast<double>(session.own_ns() + session.last_wait_ns());
  pending_.loss = result.loss;
  pending_.decision = name(result.decision);
}

void StepLog::write_pending(const std::vector<double>& wait_seconds) {
  const nlohmann::ordered_json line = {{"step", pending_.number},
                                       {"shares", pending_.shares},
                                       {"own_seconds", pending_.own_seconds},
                                       {"wait_seconds", wait_seconds},
                                       {"cpu_available", pending_.cpu_available},
                                       {"step_seconds", pending_.step_seconds},
                                       {"loss", pending_.loss},
                                       {"decision", pending_.decision}};
  file_.write(line.dump() + "\n");
  // From the first line on, the log of a run that fails is kept.
  if (pending_.number % flush_interval_steps == 0) file_.commit();
}

void StepLog::finish(std::span<const std::int64_t> wait_ns) {
  if (!file_.is_open()) return;
  std::vector<double> wait_seconds;
  for (std::int64_t wait : wait_ns)
    wait_seconds.push_back(seconds_per_ns * static_cast<double>(wait));
  if (pending_.number >= 0) write_pending(wait_seconds);
  file_.commit();
}

Timeline::Timeline(bool wanted, std::int64_t expected_steps) : wanted_(wanted) {
  const auto steps = static_cast<std::size_t>(std::min(expected_steps, most_steps_reserved));
  if (wanted) spans_ns_.reserve(steps * spans);
}

void Timeline::add(const Session& session) {
  if (!wanted_) return;
  for (Phase phase : span_phases)
    spans_ns_.push_back(session.phase_ns()[static_cast<std::size_t>(phase)]);
  spans_ns_.push_back(session.last_wait_ns());
}

void Timeline::write(Communicator& communicator, OutputFile& file) const {
  if (!wanted_) return;
  const std::string mine(reinterpret_cast<const char*>(spans_ns_.data()),
                         spans_ns_.size() * sizeof(std::int64_t));
  const auto all = communicator.gather(mine);
  if (communicator.rank() != 0) return;
  std::vector<std::int64_t> starts_ns;
  std::int64_t start = 0;
  for (std::size_t step = 0; step < spans_ns_.size() / spans; ++step) {
    starts_ns.push_back(start);
    for (std::size_t s = 0; s < spans; ++s) start += spans_ns_[step * spans + s];
  }
  bool first = true;
  file.write("{\"traceEvents\":[\n");
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    write_events(file, unpack(all[rank]), static_cast<int>(rank), starts_ns, first);
  file.write("\n]}\n");
  file.commit();
}

}  // namespace evenstep::train
