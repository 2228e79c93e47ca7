// The tail of constant size: virtual ranks, each of which sees only what the tail carries.
#include "lb/tail.h"

#include <doctest/doctest.h>

#include <functional>
#include <numeric>

#include "lb/balancer.h"
#include "tests/lb/random.h"

namespace evenstep::lb {
namespace {

// What one rank holds of all. In the first two steps everyone is introduced, as in a job.
struct Replica {
  Tail tail;
  Balancer balancer;
  std::vector<Record> known;
};

Replica make_replica(int ranks, TailForm form, Samples batch) {
  const std::vector<Record> start(static_cast<std::size_t>(ranks));
  return {Tail(form, ranks, 1), Balancer({.batch = batch, .table = {}}, start), start};
}

class World {
 public:
  World(int ranks, TailForm form, double noise, std::uint64_t seed)
      : one_(make_replica(ranks, form, samples_a_rank * ranks)),
        other_{one_.tail, Balancer({.batch = samples_a_rank * ranks, .table = {}}, one_.known),
               one_.known},
        noise_(noise),
        random_(seed),
        cost(static_cast<std::size_t>(ranks), 1e6) {}

  // One step of all ranks. The replicas get sums that were added up in different orders.
  void step() {
    const std::vector<Samples> shares(one_.balancer.partition().begin(),
                                      one_.balancer.partition().end());
    std::vector<float> upward(one_.tail.size());
    std::vector<float> halves(one_.tail.size());
    std::vector<float> second(one_.tail.size());
    std::vector<float> mine(one_.tail.size());
    std::vector<Record> introductions;
    const double one = 1;
    for (std::size_t r = 0; r < shares.size(); ++r) {
      const Record record = record_of(r, shares[r]);
      const bool is_news = one_.balancer.is_news(r, record, one_.known[r]);
      told_news_ += is_news ? 1 : 0;
      one_.tail.write<float>(mine, static_cast<int>(r), record, is_news, {&one, 1});
      if (step_ < 2) introductions.push_back(record);
      add(mine, upward);
      add(mine, r % 2 == 0 ? halves : second);
    }
    add(second, halves);
    ++step_;
    const Decision decision = take(one_, upward, shares, introductions);
    REQUIRE(take(other_, halves, shares, introductions) == decision);
    REQUIRE(std::ranges::equal(one_.balancer.partition(), other_.balancer.partition()));
    REQUIRE(one_.known == other_.known);
  }
  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
  }

  // Whether all ranks have heard from `rank` since `since`.
  bool heard(int rank, int since) const {
    return static_cast<int>(one_.known[static_cast<std::size_t>(rank)].step) > since;
  }
  int steps_until_heard(const std::vector<int>& ranks) {
    const int since = step_;
    const auto all = [&] {
      return std::ranges::all_of(ranks, [&](int rank) { return heard(rank, since); });
    };
    while (!all()) step();
    return step_ - since;
  }
  const Replica& replica() const { return one_; }
  int steps() const { return step_; }
  double load_balance() const {
    double sum = 0;
    double longest = 0;
    for (std::size_t r = 0; r < cost.size(); ++r) {
      const double time = cost[r] * static_cast<double>(one_.balancer.partition()[r]);
      sum += time;
      longest = std::max(longest, time);
    }
    return sum / static_cast<double>(cost.size()) / longest;
  }
  std::int64_t told_news() const { return told_news_; }

  static constexpr Samples samples_a_rank = 64;

 private:
  Record record_of(std::size_t rank, Samples share) {
    Record record;
    record.step = static_cast<std::uint32_t>(step_ + 1);
    record.samples = share;
    record.own_ns =
        static_cast<Nanoseconds>(cost[rank] * static_cast<double>(share) * random_.noise(noise_));
    return record;
  }
  static void add(const std::vector<float>& values, std::vector<float>& into) {
    for (std::size_t i = 0; i < values.size(); ++i) into[i] += values[i];
  }
  static Decision take(Replica& replica, const std::vector<float>& sums,
                       const std::vector<Samples>& shares,
                       const std::vector<Record>& introductions) {
    double ranks = 0;
    const News news = replica.tail.read<float>(sums, {&ranks, 1}, replica.known);
    REQUIRE(news.agree);
    REQUIRE(news.unreadable == -1);
    REQUIRE(ranks == static_cast<double>(shares.size()));
    for (std::size_t r = 0; r < shares.size(); ++r)
      if (replica.known[r].has(flag_stale)) replica.known[r].samples = shares[r];
    if (!introductions.empty()) replica.known = introductions;
    const Decision decision = replica.balancer.observe(replica.known, news.much_to_come);
    const auto partition = replica.balancer.partition();
    REQUIRE(std::reduce(partition.begin(), partition.end()) ==
            samples_a_rank * static_cast<Samples>(shares.size()));
    return decision;
  }

  Replica one_;
  Replica other_;
  double noise_;
  Random random_;
  int step_ = 0;
  std::int64_t told_news_ = 0;

 public:
  std::vector<double> cost;  // ns a sample, by rank
};

std::vector<int> some_ranks(int count, int of, Random& random) {
  std::vector<int> all(static_cast<std::size_t>(of));
  std::iota(all.begin(), all.end(), 0);
  std::ranges::shuffle(all, random.engine());
  all.resize(static_cast<std::size_t>(count));
  return all;
}

// How many ranks of a tail alone get through, without a balancer: those of `changed` have news
// until they were heard.
int steps_until_known(Tail& tail, const std::vector<int>& changed) {
  std::vector<Record> known(static_cast<std::size_t>(tail.ranks()));
  std::vector<bool> waits(known.size());
  for (const int rank : changed) waits[static_cast<std::size_t>(rank)] = true;
  std::vector<float> mine(tail.size());
  std::vector<float> sum(tail.size());
  for (int steps = 1;; ++steps) {
    std::ranges::fill(sum, 0.0F);
    for (std::size_t r = 0; r < known.size(); ++r) {
      tail.write<float>(mine, static_cast<int>(r), {.own_ns = static_cast<Nanoseconds>(r)},
                        waits[r], {});
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += mine[i];
    }
    const News news = tail.read<float>(sum, {}, known);
    REQUIRE(news.agree);
    bool all = true;
    for (const int rank : changed) {
      const auto r = static_cast<std::size_t>(rank);
      waits[r] = waits[r] && known[r].has(flag_stale);
      all = all && !waits[r];
      if (!known[r].has(flag_stale)) REQUIRE(known[r].own_ns == rank);
    }
    if (all) return steps;
  }
}

TEST_CASE("the form goes by the number of ranks, unless pinned") {
  CHECK(tail_form("auto", 256) == TailForm::slots);
  CHECK(tail_form("auto", 257) == TailForm::rotating);
  CHECK(tail_form("rotating", 5) == TailForm::rotating);
  CHECK(tail_form("slots", 5000) == TailForm::slots);
  CHECK_THROWS_AS(tail_form("ring", 5), std::invalid_argument);
  CHECK_THROWS_AS(tail_form("auto", most_ranks_of_tail + 1), std::invalid_argument);
  const std::size_t size = Tail(TailForm::rotating, 400, 0).size();
  CHECK(size < Tail(TailForm::slots, 300, 0).size());
  CHECK(Tail(TailForm::rotating, 100'000, 0).size() == size);
}

TEST_CASE_TEMPLATE("everyone's turn comes round, and a record stands until the next", Real, float,
                   double) {
  for (const int ranks : {1, 2, 3, 5, 64, 301, 1000}) {
    Tail tail(TailForm::rotating, ranks, 2);
    std::vector<Record> known(static_cast<std::size_t>(ranks));
    std::vector<int> last_heard(known.size(), 0);
    const int longest_turn = std::max(2, (ranks + 191) / 192);
    for (int step = 1; step < 20; ++step) {
      std::vector<Real> sum(tail.size());
      for (int r = 0; r < ranks; ++r) {
        std::vector<Real> mine(tail.size(), Real{7});
        const std::vector<double> own{1.0, static_cast<double>(r)};
        const Record record{.step = static_cast<std::uint32_t>(step),
                            .flags = r == 0 ? flag_stop_requested : 0U,
                            .own_ns = 1'000'000'000LL * r + step};
        tail.write<Real>(mine, r, record, false, own);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += mine[i];
      }
      std::vector<double> sums(2);
      const News news = tail.read<Real>(sum, sums, known);
      REQUIRE(news.agree);
      REQUIRE(news.count(flag_stop_requested) == 1);  // also where its turn has not come
      REQUIRE(news.count(flag_not_finite) == 0);
      REQUIRE(sums[0] == ranks);
      REQUIRE(sums[1] == ranks * (ranks - 1) / 2);
      for (std::size_t r = 0; r < known.size(); ++r) {
        if (!known[r].has(flag_stale)) last_heard[r] = step;
        REQUIRE(step - last_heard[r] < longest_turn);
        if (last_heard[r] == 0) continue;
        REQUIRE(known[r].step == static_cast<std::uint32_t>(last_heard[r]));
        REQUIRE(known[r].own_ns == 1'000'000'000LL * static_cast<int>(r) + last_heard[r]);
      }
    }
  }
}

TEST_CASE("a rank that differs is seen at once, turn or not") {
  for (const int ranks : {5, 64, 1000})
    for (const int odd : {0, ranks / 2, ranks - 1}) {
      Tail tail(TailForm::rotating, ranks, 0);
      std::vector<Record> known(static_cast<std::size_t>(ranks));
      std::vector<float> mine(tail.size());
      int seen = 0;
      for (int step = 0; step < 40; ++step) {
        std::vector<float> sum(tail.size());
        for (int r = 0; r < ranks; ++r) {
          const Record record{.step = static_cast<std::uint32_t>(step),
                              .partition_hash = r == odd ? 12U : 13U};
          tail.write<float>(mine, r, record, false, {});
          for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += mine[i];
        }
        seen += tail.read<float>(sum, {}, known).agree ? 0 : 1;
      }
      // With few ranks the digest's sum can be a multiple of their number by chance.
      CHECK(seen >= (ranks > 64 ? 40 : 36));
    }
}

TEST_CASE("news of few ranks of 10,000 is known within 2 steps") {
  EVENSTEP_INFO_SEED();
  Random random(test_seed());
  constexpr int ranks = 10'000;
  Tail tail(TailForm::rotating, ranks, 0);
  const auto mean_steps = [&](int changed, int trials, int most) {
    int total = 0;
    int late = 0;
    for (int i = 0; i < trials; ++i) {
      const int steps = steps_until_known(tail, some_ranks(changed, ranks, random));
      total += steps;
      late += steps > most ? 1 : 0;
      steps_until_known(tail, {});  // nobody waits
    }
    CHECK(late <= trials / 10);
    return static_cast<double>(total) / trials;
  };
  MESSAGE("steps until all know of 4, 16, 64, 256 changed ranks of 10,000: ", mean_steps(4, 40, 2),
          ", ", mean_steps(16, 10, 3), ", ", mean_steps(64, 10, 8), ", ", mean_steps(256, 5, 20));
}

struct Pattern {
  const char* name;
  std::function<void(World&, Random&)> change;  // before each step
};

// All ranks change at a step of their own, and what they become is theirs alone.
const std::vector<Pattern> patterns = {
    {"none", [](World&, Random&) {}},
    {"one rank",
     [](World& world, Random&) {
       if (world.steps() % 60 == 30) world.cost[world.cost.size() / 3] *= 2;
     }},
    {"a rack",
     [](World& world, Random&) {
       if (world.steps() != 30) return;
       for (std::size_t r = world.cost.size() / 2; r < world.cost.size() / 2 + 40; ++r)
         if (r < world.cost.size()) world.cost[r] *= 1.6;
     }},
    {"all at once",
     [](World& world, Random& random) {
       if (world.steps() == 30)
         for (double& cost : world.cost) cost *= random.real(0.4, 2.5);
     }},
    {"flapping",
     [](World& world, Random&) {
       for (std::size_t r = 0; r < world.cost.size(); r += 7)
         world.cost[r] = world.steps() / 3 % 2 == 0 ? 1e6 : 3e6;
     }},
};

TEST_CASE("replicas decide the same, whatever changes") {
  EVENSTEP_INFO_SEED();
  Random random(test_seed());
  for (const Pattern& pattern : patterns)
    for (const int ranks : {2, 5, 300, 2000}) {
      INFO(pattern.name, ", ", ranks, " ranks");
      World world(ranks, TailForm::rotating, 0.03,
                  static_cast<std::uint64_t>(random.whole(1, 1000)));
      for (int step = 0; step < 100; ++step) {
        pattern.change(world, random);
        world.step();
      }
      if (std::string_view(pattern.name) == "all at once") CHECK(world.load_balance() > 0.8);
      if (std::string_view(pattern.name) == "none" && ranks > 5)
        CHECK(world.replica().balancer.resizes() == 0);
    }
}

TEST_CASE("100,000 ranks: the same decisions, and news of a few within 2 steps") {
  EVENSTEP_INFO_SEED();
  Random random(test_seed());
  World world(100'000, TailForm::rotating, 0.01, static_cast<std::uint64_t>(random.whole(1, 1000)));
  world.run(4);
  const std::vector<int> slow = some_ranks(4, 100'000, random);
  for (const int rank : slow) world.cost[static_cast<std::size_t>(rank)] *= 2;
  CHECK(world.steps_until_heard(slow) <= 3);
  world.run(3);
  CHECK(world.load_balance() > 0.9);
  for (double& cost : world.cost) cost *= random.real(0.5, 2);
  world.run(5);  // far more news than slots: still the same on all ranks
}

TEST_CASE("a slowed rank of 2,000 is sized down in a few steps, not at its turn") {
  EVENSTEP_INFO_SEED();
  Random random(test_seed());
  World world(2000, TailForm::rotating, 0.03, static_cast<std::uint64_t>(random.whole(1, 1000)));
  world.run(60);  // every rank was heard of several times
  const std::vector<int> slow = some_ranks(4, 2000, random);
  for (const int rank : slow) world.cost[static_cast<std::size_t>(rank)] *= 2;
  CHECK(world.load_balance() < 0.6);
  CHECK(world.steps_until_heard(slow) <= 3);
  world.run(4);
  CHECK(world.load_balance() > 0.8);
}

}  // namespace
}  // namespace evenstep::lb
