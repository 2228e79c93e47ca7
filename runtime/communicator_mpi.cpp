// MPI's sums under three ways of waiting. Blocking MPI_Allreduce is fastest where each rank has its
// cores to itself. Where it has not, waiting must leave them to those who compute: MPI_Iallreduce
// and polls, with the core given up in between.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "evenstep/clock.h"
#include "evenstep/mpi.h"
#include "runtime/half_precision.h"
#include "runtime/mpi_tuning.h"
#include "runtime/probe.h"
#include "runtime/progress_thread.h"

namespace evenstep {
namespace {

// A wake-up costs a few microseconds of a core that others compute on. Who has waited for long
// waits for a straggler, and can be woken a little later: seldom polls made four ranks on two cores
// 4 to 6 % faster.
constexpr timespec poll_interval{0, 50'000};
constexpr timespec late_poll_interval{0, 200'000};
constexpr int early_polls = 20;
constexpr std::int64_t late_ns = 2'000'000;

int environment_number(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::atoi(text) : otherwise;
}

// How many processes the launcher started beside this one, as far as its environment tells. mpirun
// may itself run under srun: its own word comes first.
int launched_processes() {
  const int by_mpirun = environment_number("OMPI_COMM_WORLD_SIZE", 0);
  if (by_mpirun > 0) return by_mpirun;
  const int by_hydra = environment_number("PMI_SIZE", 0);
  if (by_hydra > 0) return by_hydra;
  return environment_number("SLURM_STEP_NUM_TASKS", 1);
}

template <typename Half>  // NOLINTNEXTLINE(readability-non-const-parameter): MPI_User_function
void add_halves(void* from, void* to, int* count, MPI_Datatype* /*type*/) {
  const auto size = static_cast<std::size_t>(*count);
  add<Half>({static_cast<const Half*>(from), size}, {static_cast<Half*>(to), size});
}

void refuse_singletons() {
  const int launched = launched_processes();
  if (launched <= 1) return;
  throw UsageError(
      fmt::format("MPI sees 1 process, but the launcher started {}: each would train alone. "
                  "Start them with `srun --mpi=pmix` or with mpirun of the MPI that this program "
                  "was built with",
                  launched));
}

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(MPI_Comm parent, const MpiOptions& options)
      : host_(host_name()), largest_count_(options.largest_count) {
    MPI_Comm_dup(parent, &comm_);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    int world = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    if (world == 1) refuse_singletons();
    MPI_Op_create(add_halves<Bf16>, 1, &bf16_sum_);
    MPI_Op_create(add_halves<F16>, 1, &f16_sum_);
    choose_nonblocking_sum();
    MPI_Query_thread(&thread_level_);
    settle(options);
  }
  ~MpiCommunicator() override {
    thread_.reset();
    MPI_Op_free(&bf16_sum_);
    MPI_Op_free(&f16_sum_);
    MPI_Comm_free(&comm_);
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const std::string& host() const override { return host_; }
  std::int64_t sum_calls() const override { return sum_calls_; }
  Wait wait_strategy() const { return wait_; }
  int threads() const { return threads_; }

  void start_sum(std::span<float> values) override { start(values, MPI_FLOAT, MPI_SUM); }
  void start_sum(std::span<Bf16> values) override { start(values, MPI_UINT16_T, bf16_sum_); }
  void start_sum(std::span<F16> values) override { start(values, MPI_UINT16_T, f16_sum_); }

  bool progress() override {
    int done = 1;
    if (!requests_.empty())
      check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done,
                        MPI_STATUSES_IGNORE),
            "MPI_Testall", static_cast<int>(requests_.size()));
    if (done != 0) requests_.clear();
    return done != 0;
  }

  void wait() override {
    if (thread_) thread_->rest();
    if (wait_ == Wait::spin && !requests_.empty()) {
      const auto count = static_cast<int>(requests_.size());
      check(MPI_Waitall(count, requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall", count);
      requests_.clear();
    }
    for (int polls = 0; !progress(); ++polls) {
      if (wait_ == Wait::yield) sched_yield();
      if (wait_ == Wait::sleep) sleep(polls < early_polls ? poll_interval : late_poll_interval);
    }
  }
  std::int64_t throttled_ns() const override { return throttled_ns_; }

  void sum(std::span<float> values) override { sum_blocking(values, MPI_FLOAT, MPI_SUM); }
  void sum(std::span<Bf16> values) override { sum_blocking(values, MPI_UINT16_T, bf16_sum_); }
  void sum(std::span<F16> values) override { sum_blocking(values, MPI_UINT16_T, f16_sum_); }

  ProgressThread progress_thread() const override { return progress_thread_; }
  bool spare_core() const { return spare_core_; }
  void progress_in_background() override {
    if (progress_thread_ == ProgressThread::no) return;
    if (!thread_) thread_ = std::make_unique<MpiProgressThread>(comm_, wait_ == Wait::sleep);
    thread_->run();
  }

  std::vector<std::string> gather(const std::string& mine) override {
    const auto ranks = static_cast<std::size_t>(size_);
    const auto longest = static_cast<std::size_t>(std::numeric_limits<int>::max());
    const int length = static_cast<int>(std::min(mine.size(), longest));  // refused below
    std::vector<int> lengths(ranks);
    check(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm_), "MPI_Allgather",
          1);
    std::vector<int> starts(ranks);
    std::int64_t total = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      starts[r] = static_cast<int>(total);
      total += lengths[r];
    }
    if (total >= std::numeric_limits<int>::max())
      throw AgreedError(fmt::format("{} bytes are too many to gather from {} ranks", total, size_));
    std::string all(static_cast<std::size_t>(total), '\0');
    check(MPI_Allgatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(), starts.data(),
                         MPI_CHAR, comm_),
          "MPI_Allgatherv", length);
    std::vector<std::string> parts(ranks);
    for (std::size_t r = 0; r < ranks; ++r)
      parts[r] =
          all.substr(static_cast<std::size_t>(starts[r]), static_cast<std::size_t>(lengths[r]));
    return parts;
  }

  void abort(int exit_code) override { MPI_Abort(comm_, exit_code); }

 private:
  // Who has a quota and wakes so late has mostly used it up.
  void sleep(const timespec& interval) {
    const std::int64_t start_ns = steady_clock().now_ns();
    nanosleep(&interval, nullptr);
    const std::int64_t slept_ns = steady_clock().now_ns() - start_ns;
    if (has_quota_ && slept_ns > late_ns) throttled_ns_ += slept_ns;
  }

  template <typename Value>
  void start(std::span<Value> values, MPI_Datatype type, MPI_Op op) {
    each_piece(values, [&](Value* piece, int count) {
      MPI_Request& request = requests_.emplace_back(MPI_REQUEST_NULL);
      check(MPI_Iallreduce(MPI_IN_PLACE, piece, count, type, op, comm_, &request), "MPI_Iallreduce",
            count);
    });
  }

  template <typename Value>
  void sum_blocking(std::span<Value> values, MPI_Datatype type, MPI_Op op) {
    if (wait_ != Wait::spin) return Communicator::sum(values);
    each_piece(values, [&](Value* piece, int count) {
      check(MPI_Allreduce(MPI_IN_PLACE, piece, count, type, op, comm_), "MPI_Allreduce", count);
    });
  }

  template <typename Value, typename Call>
  void each_piece(std::span<Value> values, Call&& call) {
    for (std::size_t first = 0; first < values.size(); first += largest_count_) {
      const std::size_t count = std::min(largest_count_, values.size() - first);
      call(values.data() + first, static_cast<int>(count));
      ++sum_calls_;
    }
  }

  void check(int code, const char* call, int count) const {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    MPI_Error_string(code, text, &length);
    throw Error(fmt::format("rank {} on {}: {} of {} elements failed: {}", rank_, host_, call,
                            count, std::string(text, static_cast<std::size_t>(length))));
  }

  // What a rank brings to the choice of wait strategy and threads.
  nlohmann::json my_setup(const MpiOptions& options) const {
    return {{"host", host_},
            {"thread_level", thread_level_},
            {"wait", options.wait},
            {"threads", options.threads},
            {"cores", allowed_cores()},
            {"quota", cpu_quota().has_value()}};
  }

  // A node's ranks, and the cores that each may use.
  struct Node {
    std::vector<std::set<int>> cores;
    std::vector<int> asked_threads;

    int default_threads() const {
      std::set<int> all;
      for (const auto& set : cores) all.insert(set.begin(), set.end());
      return std::max(1, static_cast<int>(all.size() / cores.size()));
    }
    int threads(std::size_t rank) const {
      return asked_threads[rank] > 0 ? asked_threads[rank] : default_threads();
    }

    // Whether the ranks that are bound inside some rank's cores, or all of them, have more threads
    // than there are cores; `more`: threads a rank besides those that compute.
    bool is_crowded(int more) const {
      std::set<int> all;
      for (const auto& set : cores) all.insert(set.begin(), set.end());
      return is_crowded(all, more) ||
             std::ranges::any_of(cores, [&](const auto& set) { return is_crowded(set, more); });
    }
    bool is_crowded(const std::set<int>& place, int more) const {
      int needed = 0;
      for (std::size_t rank = 0; rank < cores.size(); ++rank)
        if (std::ranges::includes(place, cores[rank])) needed += threads(rank) + more;
      return needed > static_cast<int>(place.size());
    }
  };

  // Scarce cores on any node make all ranks sleep, since the answer must be the same everywhere.
  void settle(const MpiOptions& options) {
    std::vector<nlohmann::json> ranks;
    for (const std::string& text : gather(my_setup(options).dump()))
      ranks.push_back(nlohmann::json::parse(text));
    std::map<std::string, Node> nodes;
    bool has_quota = false;
    int least_level = MPI_THREAD_MULTIPLE;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      refuse_other_wait(r, ranks[r]["wait"], ranks[0]["wait"]);
      Node& node = nodes[ranks[r]["host"]];
      node.cores.emplace_back(ranks[r]["cores"].begin(), ranks[r]["cores"].end());
      node.asked_threads.push_back(ranks[r]["threads"]);
      has_quota = has_quota || ranks[r]["quota"];
      least_level = std::min<int>(least_level, ranks[r]["thread_level"]);
    }
    const auto any_crowded = [&](int more) {
      return std::ranges::any_of(nodes, [&](const auto& n) { return n.second.is_crowded(more); });
    };
    threads_ = options.threads > 0 ? options.threads : nodes[host_].default_threads();
    wait_ = choose_wait(options.wait, has_quota || any_crowded(0));
    spare_core_ = !has_quota && !any_crowded(1);
    if (least_level < MPI_THREAD_FUNNELED && rank_ == 0) say_no_threads();
    if (least_level >= MPI_THREAD_MULTIPLE)
      progress_thread_ = spare_core_ ? ProgressThread::spare : ProgressThread::yes;
  }

  // All calls of a step come from one thread anyhow.
  static void say_no_threads() {
    static bool said = false;
    if (!said)
      fmt::print(stderr,
                 "warning: MPI gives no thread support (MPI_THREAD_SINGLE); no thread will move "
                 "sums along\n");
    said = true;
  }

  static void refuse_other_wait(std::size_t rank, const std::string& wait,
                                const std::string& first) {
    if (wait != first)
      throw AgreedError(fmt::format("rank {} has --wait {}, rank 0 has --wait {}; start all ranks "
                                    "with the same options",
                                    rank, wait, first),
                        2);
  }

  static Wait choose_wait(std::string_view asked, bool scarce) {
    if (asked == "auto") return scarce ? Wait::sleep : Wait::spin;
    for (Wait wait : {Wait::spin, Wait::yield, Wait::sleep})
      if (asked == name(wait)) return wait;
    throw AgreedError(
        fmt::format("unknown wait '{}'; choose one of spin, yield, sleep, auto", asked), 2);
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  std::string host_;
  int rank_ = 0;
  int size_ = 1;
  int thread_level_ = MPI_THREAD_SINGLE;
  MPI_Op bf16_sum_ = MPI_OP_NULL;
  MPI_Op f16_sum_ = MPI_OP_NULL;
  std::size_t largest_count_;
  Wait wait_ = Wait::spin;
  bool spare_core_ = false;
  bool has_quota_ = cpu_quota().has_value();
  std::int64_t throttled_ns_ = 0;
  ProgressThread progress_thread_ = ProgressThread::no;
  int threads_ = 1;
  std::int64_t sum_calls_ = 0;
  std::vector<MPI_Request> requests_;  // of the sums under way
  std::unique_ptr<MpiProgressThread> thread_;
};

}  // namespace

const char* name(Wait wait) {
  switch (wait) {
    case Wait::spin:
      return "spin";
    case Wait::yield:
      return "yield";
    case Wait::sleep:
      return "sleep";
  }
  return "?";
}

std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm parent, const MpiOptions& options) {
  return std::make_unique<MpiCommunicator>(parent, options);
}

Wait wait_of(const Communicator& communicator) {
  return dynamic_cast<const MpiCommunicator&>(communicator).wait_strategy();
}

int threads_of(const Communicator& communicator) {
  return dynamic_cast<const MpiCommunicator&>(communicator).threads();
}

bool has_spare_core(const Communicator& communicator) {
  return dynamic_cast<const MpiCommunicator&>(communicator).spare_core();
}

int launcher_rank() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"})
    if (std::getenv(variable) != nullptr) return environment_number(variable, 0);
  return 0;
}

}  // namespace evenstep
