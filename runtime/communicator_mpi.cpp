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
#include <nlohmann/json.hpp>
#include <set>

#include "evenstep/mpi.h"
#include "runtime/probe.h"

namespace evenstep {
namespace {

// Counts are cut below 2^31: not every MPI has the calls that take larger ones.
constexpr std::size_t largest_count = std::size_t{1} << 30;
// A wake-up costs a few microseconds of a core that others compute on. Who has waited for long
// waits for a straggler, and can be woken a little later: seldom polls made four ranks on two cores
// 4 to 6 % faster.
constexpr timespec poll_interval{0, 50'000};
constexpr timespec late_poll_interval{0, 200'000};
constexpr int early_polls = 20;

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
  MpiCommunicator(MPI_Comm parent, const MpiOptions& options) : host_(host_name()) {
    MPI_Comm_dup(parent, &comm_);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    int world = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    if (world == 1) refuse_singletons();
    agree_on_errors(*this, [] {
      int level = MPI_THREAD_SINGLE;
      MPI_Query_thread(&level);
      if (level < MPI_THREAD_FUNNELED)
        throw Error(
            "this MPI library was started without thread support; start it with "
            "MPI_Init_thread and MPI_THREAD_FUNNELED");
    });
    settle(options);
  }
  ~MpiCommunicator() override { MPI_Comm_free(&comm_); }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const std::string& host() const override { return host_; }
  std::int64_t sum_calls() const override { return sum_calls_; }
  Wait wait_strategy() const { return wait_; }
  int threads() const { return threads_; }

  void start_sum(std::span<float> values) override {
    each_piece(values, [this](float* piece, int count) {
      MPI_Request& request = requests_.emplace_back(MPI_REQUEST_NULL);
      check(MPI_Iallreduce(MPI_IN_PLACE, piece, count, MPI_FLOAT, MPI_SUM, comm_, &request),
            "MPI_Iallreduce", count);
    });
  }

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
    if (wait_ == Wait::spin && !requests_.empty()) {
      const auto count = static_cast<int>(requests_.size());
      check(MPI_Waitall(count, requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall", count);
      requests_.clear();
    }
    for (int polls = 0; !progress(); ++polls) {
      if (wait_ == Wait::yield) sched_yield();
      if (wait_ == Wait::sleep)
        nanosleep(polls < early_polls ? &poll_interval : &late_poll_interval, nullptr);
    }
  }

  void sum(std::span<float> values) override {
    if (wait_ != Wait::spin) return Communicator::sum(values);
    each_piece(values, [this](float* piece, int count) {
      check(MPI_Allreduce(MPI_IN_PLACE, piece, count, MPI_FLOAT, MPI_SUM, comm_), "MPI_Allreduce",
            count);
    });
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
  template <typename Call>
  void each_piece(std::span<float> values, Call&& call) {
    for (std::size_t first = 0; first < values.size(); first += largest_count) {
      const std::size_t count = std::min(largest_count, values.size() - first);
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
  static nlohmann::json my_setup(const std::string& host, const MpiOptions& options) {
    return {{"host", host},
            {"wait", options.wait},
            {"threads", options.threads},
            {"cores", allowed_cores()},
            {"quota", cpu_quota().has_value()}};
  }

  // The cores of a node's ranks together, and the ranks.
  struct Node {
    std::set<int> cores;
    int ranks = 0;
    int threads = 0;

    int default_threads() const { return std::max(1, static_cast<int>(cores.size()) / ranks); }
  };

  // Scarce cores on any node make all ranks sleep, since the answer must be the same everywhere.
  void settle(const MpiOptions& options) {
    std::vector<nlohmann::json> ranks;
    for (const std::string& text : gather(my_setup(host_, options).dump()))
      ranks.push_back(nlohmann::json::parse(text));
    std::map<std::string, Node> nodes;
    for (const auto& rank : ranks) {
      Node& node = nodes[rank["host"]];
      node.cores.insert(rank["cores"].begin(), rank["cores"].end());
      ++node.ranks;
    }
    bool scarce = false;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      refuse_other_wait(r, ranks[r]["wait"], ranks[0]["wait"]);
      Node& node = nodes[ranks[r]["host"]];
      const int asked = ranks[r]["threads"];
      node.threads += asked > 0 ? asked : node.default_threads();
      scarce = scarce || ranks[r]["quota"] || node.threads > static_cast<int>(node.cores.size());
    }
    threads_ = options.threads > 0 ? options.threads : nodes[host_].default_threads();
    wait_ = choose_wait(options.wait, scarce);
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
  Wait wait_ = Wait::spin;
  int threads_ = 1;
  std::int64_t sum_calls_ = 0;
  std::vector<MPI_Request> requests_;  // of the sums under way
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

int launcher_rank() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"})
    if (std::getenv(variable) != nullptr) return environment_number(variable, 0);
  return 0;
}

}  // namespace evenstep
