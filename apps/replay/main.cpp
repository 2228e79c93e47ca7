// evenstep-replay: a trace through the real runtime. Each rank sleeps as long as the trace says
// that its share takes, so that many ranks fit on few cores. The course, noise included, is the
// simulator's own, and so is the oracle.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/command_line.h"
#include "common/mpi_program.h"
#include "common/output_file.h"
#include "common/results.h"
#include "evenstep/session.h"
#include "replay/options.h"

namespace evenstep::replay {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double seconds_per_ns = 1e-9;

class ScaledTrace final : public lb::Trace {
 public:
  ScaledTrace(std::unique_ptr<lb::Trace> source, double scale)
      : source_(std::move(source)), scale_(scale) {}
  int ranks() const override { return source_->ranks(); }
  void next(std::span<lb::RankState> states) override {
    source_->next(states);
    for (auto& [cost, cpu, memory] : states)
      for (std::int64_t* time : {&cost.fixed_ns, &cost.per_sample_ps, &cost.floor_ns})
        *time = std::llround(static_cast<double>(*time) * scale_);
  }

 private:
  std::unique_ptr<lb::Trace> source_;
  double scale_;
};

// Every rank reads or makes the whole trace: no rank has to be told.
Source open_scaled(const Communicator& communicator, const Options& options) {
  CourseOptions course = options.course;
  if (course.ranks == 0) course.ranks = communicator.size();
  if (course.ranks != communicator.size())
    throw UsageError(fmt::format("--ranks is {}, the job has {} ranks; leave --ranks out",
                                 course.ranks, communicator.size()));
  Source source = open_source(course);
  source.trace = std::make_unique<ScaledTrace>(std::move(source.trace), options.time_scale);
  return source;
}

SessionOptions session_options(const Options& options, const lb::SimulationOptions& settled,
                               const lb::Cost& cost) {
  SessionOptions session;
  session.global_batch = settled.batch;
  session.gradients = 1;
  session.balance = options.balance;
  session.predictor = settled.predictor;
  session.lag = settled.lag;
  session.granule = settled.granule;
  session.forecast = {cost.fixed_ns, cost.per_sample_ps, cost.floor_ns};
  session.must_agree = options.given;
  return session;
}

class Replay {
 public:
  Replay(Communicator& communicator, const Options& options, Source& source,
         const lb::SimulationOptions& settled)
      : rank_(static_cast<std::size_t>(communicator.rank())),
        steps_(settled.steps),
        course_(*source.trace, settled),
        session_(communicator, session_options(options, settled, course_.states()[rank_].cost)),
        cold_sizes_(settled.cold),
        score_(settled) {}

  lb::SimulationResult run() {
    warm_up();
    for (std::int64_t step = 0; step < steps_; ++step) {
      if (step > 0) course_.advance();
      const Share share = session_.begin_step();
      sleep(course_.own_ns(rank_, share.count) * cold_sizes_.factor(share.count));
      end_step(share, course_.next_states()[rank_]);
      account();
    }
    return score_.result(session_.resizes());
  }

 private:
  // A session's first step counts as cold, and the trace has no such thing.
  void warm_up() {
    started_ = Clock::now();
    const Share share = session_.begin_step();
    sleep(course_.own_ns_before_noise(rank_, share.count));
    end_step(share, course_.states()[rank_]);
  }

  // What the rank did since the last collective is part of its own time.
  void sleep(double own_ns) const {
    std::this_thread::sleep_until(started_ +
                                  std::chrono::nanoseconds(static_cast<std::int64_t>(own_ns)));
  }

  void end_step(const Share& share, const lb::RankState& next) {
    session_.see(next.cpu_seen, next.memory_seen);
    session_.gradients()[0] = 0;
    session_.end_step({.weight = static_cast<double>(share.count)});
    started_ = Clock::now();
  }

  void account() {
    shares_.clear();
    own_ns_.clear();
    for (const RankReport& report : session_.reports()) {
      shares_.push_back(report.samples);
      own_ns_.push_back(static_cast<double>(report.own_ns));
    }
    const std::int64_t step_ns = session_.own_ns() + session_.last_wait_ns();
    score_.add(course_, shares_, own_ns_, seconds_per_ns * static_cast<double>(step_ns));
  }

  std::size_t rank_;
  std::int64_t steps_;
  lb::Course course_;
  Session session_;
  lb::ColdSizes cold_sizes_;
  lb::Score score_;
  Clock::time_point started_;
  std::vector<lb::Samples> shares_;
  std::vector<double> own_ns_;
};

void run(Communicator& communicator, const Options& options) {
  Source source;
  lb::SimulationOptions settled;
  OutputFile file;
  agree_on_errors(communicator, [&] {
    source = open_scaled(communicator, options);
    settled = settle(options.course, source);
    if (communicator.rank() == 0)
      file = OutputFile(options.course.summary, OutputFile::Kind::whole);
  });
  Replay replay(communicator, options, source, settled);
  const Results results{{options.balance}, {replay.run()}};
  if (communicator.rank() != 0) return;
  print_run(source.name, communicator.size(), settled);
  print_table(results);
  nlohmann::ordered_json summary = describe_run(source.name, communicator.size(), settled);
  summary["time_scale"] = options.time_scale;
  summary["results"] = to_json(results);
  file.write(summary.dump(2) + "\n");
  file.commit();
}

}  // namespace
}  // namespace evenstep::replay

int main(int argc, char** argv) {
  return evenstep::run_mpi_program(argc, argv, evenstep::replay::parse_options,
                                   evenstep::replay::run);
}
