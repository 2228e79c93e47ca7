#include "common/trace_file.h"

#include <fmt/format.h>

#include <algorithm>

namespace evenstep {
namespace {

enum Column : std::size_t { step_column, rank_column, cost_column, cpu_column = 5, memory_column };

constexpr std::int64_t largest_step = 999'999'999;  // as many steps as --steps can be
constexpr std::int64_t largest_rank = (std::int64_t{1} << 24) - 1;
constexpr double most_cores = 1e6;
constexpr double most_mebibytes = 1e12;

// Exact, and without zeros at the end.
std::string decimal(std::int64_t value, int digits) {
  std::int64_t one = 1;
  for (int i = 0; i < digits; ++i) one *= 10;
  if (value % one == 0) return fmt::format("{}", value / one);
  std::string text = fmt::format("{}.{:0{}}", value / one, value % one, digits);
  text.erase(text.find_last_not_of('0') + 1);
  return text;
}

std::string seen(double value) { return value < 0 ? "" : fmt::format("{}", value); }

std::string to_row(std::int64_t step, std::size_t rank, const lb::RankState& state) {
  const lb::Cost& cost = state.cost;
  return fmt::format("{},{},{},{},{},{},{}\n", step, rank, decimal(cost.fixed_ns, 9),
                     decimal(cost.per_sample_ps, 12),
                     cost.floor_ns == 0 ? "" : decimal(cost.floor_ns, 9), seen(state.cpu_seen),
                     seen(state.memory_seen));
}

bool same(const lb::RankState& a, const lb::RankState& b) {
  return a.cost.fixed_ns == b.cost.fixed_ns && a.cost.per_sample_ps == b.cost.per_sample_ps &&
         a.cost.floor_ns == b.cost.floor_ns && a.cpu_seen == b.cpu_seen &&
         a.memory_seen == b.memory_seen;
}

}  // namespace

TraceFile::TraceFile(const std::string& path) : path_(path) {
  start();
  while (pending_) take_row();
  last_step_ = *std::ranges::max_element(row_steps_);
  start();
}

void TraceFile::start() {
  csv_.emplace(path_, trace_header);
  step_ = 0;
  read_row();
  if (!pending_) csv_->fail("no row below the header");
  read_first_step();
}

void TraceFile::read_row() {
  const std::int64_t before = pending_ ? pending_->step : 0;
  pending_.reset();
  if (!csv_->next()) return;
  Row row;
  row.step = csv_->whole(step_column, largest_step);
  row.rank = static_cast<std::size_t>(csv_->whole(rank_column, largest_rank));
  row.state.cost = csv_->cost(cost_column);
  if (!csv_->is_empty(cpu_column)) row.state.cpu_seen = csv_->real(cpu_column, most_cores);
  if (!csv_->is_empty(memory_column))
    row.state.memory_seen = csv_->real(memory_column, most_mebibytes);
  if (row.step < before)
    csv_->fail(
        fmt::format("step {} comes after step {}; order the rows by step", row.step, before));
  pending_ = row;
}

// It tells how many ranks there are.
void TraceFile::read_first_step() {
  std::vector<Row> rows;
  for (; pending_ && pending_->step == 0; read_row()) rows.push_back(*pending_);
  states_.assign(rows.size(), {});
  row_steps_.assign(rows.size(), -1);
  for (const Row& row : rows) {
    if (row.rank >= rows.size()) continue;  // so another one is missing
    states_[row.rank] = row.state;
    row_steps_[row.rank] = 0;
  }
  const auto missing = std::ranges::find(row_steps_, -1) - row_steps_.begin();
  if (rows.empty() || missing != ranks())
    csv_->fail(fmt::format("step 0 has {} rows and none of rank {}; give each rank one row there",
                           rows.size(), missing));
}

void TraceFile::take_row() {
  if (pending_->rank >= states_.size())
    csv_->fail(fmt::format("rank {} has no row at step 0, where there are ranks 0 to {}",
                           pending_->rank, ranks() - 1));
  if (row_steps_[pending_->rank] == pending_->step)
    csv_->fail(fmt::format("rank {} has two rows for step {}", pending_->rank, pending_->step));
  row_steps_[pending_->rank] = pending_->step;
  states_[pending_->rank] = pending_->state;
  read_row();
}

void TraceFile::next(std::span<lb::RankState> states) {
  while (pending_ && pending_->step <= step_) take_row();
  std::ranges::copy(states_, states.begin());
  ++step_;
}

TraceWriter::TraceWriter(std::unique_ptr<lb::Trace> source, const std::string& path,
                         std::int64_t steps)
    : source_(std::move(source)), file_(path, OutputFile::Kind::whole), steps_(steps) {
  file_.write(fmt::format("{}\n", trace_header));
}

void TraceWriter::next(std::span<lb::RankState> states) {
  source_->next(states);
  if (step_ < steps_) write(states);
  ++step_;
  if (step_ == steps_) file_.commit();
}

void TraceWriter::write(std::span<const lb::RankState> states) {
  for (std::size_t r = 0; r < states.size(); ++r)
    if (step_ == 0 || !same(states[r], before_[r])) file_.write(to_row(step_, r, states[r]));
  before_.assign(states.begin(), states.end());
}

}  // namespace evenstep
