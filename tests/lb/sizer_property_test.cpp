// Whatever the ranks tell, every sizer's partition adds up to the batch and keeps to the limits.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "lb/balancer.h"
#include "lb/predictor.h"
#include "tests/allocations.h"
#include "tests/lb/random.h"

namespace evenstep::lb {
namespace {

struct Job {
  BalancerOptions options;
  std::vector<Record> start;
};

// At times fewer samples than ranks, at times with limits; never less room than samples.
Job random_job(Random& random, const std::string& sizer, const std::string& predictor) {
  Job job;
  const std::int64_t ranks = random.whole(1, 9);
  job.options.sizer = sizer;
  job.options.predictor = predictor;
  job.options.granule = random.chance(0.5) ? 1 : random.whole(2, 8);
  job.options.batch =
      random.chance(0.2) ? random.whole(1, 2 * ranks) : random.whole(job.options.granule, 3000);
  job.options.lag = static_cast<int>(random.whole(0, 1));
  const Samples room = 2 * (job.options.batch / ranks + 1) + 2 * job.options.granule;
  for (std::int64_t r = 0; r < ranks; ++r) {
    Record record;
    record.fixed_ns = random.any_size(1'000'000);
    record.per_sample_ps = 1 + random.any_size(1'000'000'000);
    record.floor_ns = random.any_size(1'000'000);
    if (random.chance(0.3)) record.least = random.whole(0, job.options.batch / ranks / 2);
    if (random.chance(0.3)) record.most = room;
    job.start.push_back(record);
  }
  return job;
}

void check_partition(const Job& job, std::span<const Samples> partition) {
  Samples sum = 0;
  Samples least = 0;
  int ragged = 0;
  const Samples granule = job.options.granule;
  for (const Record& record : job.start)
    least += (std::max(record.least, granule) + granule - 1) / granule * granule;
  for (std::size_t r = 0; r < partition.size(); ++r) {
    sum += partition[r];
    ragged += partition[r] % granule != 0 ? 1 : 0;
    CHECK(partition[r] >= 0);
    CHECK(partition[r] <= job.start[r].most);
    if (least <= job.options.batch - job.options.batch % granule)
      CHECK(partition[r] >= job.start[r].least);
  }
  CHECK(sum == job.options.batch);
  CHECK(ragged <= 1);
}

void fill_record(Random& random, Record& record) {
  const auto usual = static_cast<double>(record.samples) * 1e6;
  record.own_ns = static_cast<Nanoseconds>(usual * random.noise(0.3));
  if (random.chance(0.05)) record.own_ns = 0;
  if (random.chance(0.05)) record.own_ns = random.any_size(largest_field);
  record.flags = random.chance(0.05) ? std::uint32_t{flag_cold} : 0;
  record.cpu_available =
      random.chance(0.3) ? 0 : static_cast<std::uint32_t>(random.any_size((1 << 24) - 1));
  record.memory_available =
      random.chance(0.3) ? 0 : static_cast<std::uint32_t>(random.any_size((1 << 24) - 1));
}

void run_job(Random& random, const Job& job) {
  Balancer balancer(job.options, job.start);
  check_partition(job, balancer.partition());
  std::vector<Record> records = job.start;
  std::vector<Samples> before(balancer.partition().begin(), balancer.partition().end());
  for (int step = 0; step < 150; ++step) {
    std::vector<Samples> shares(balancer.partition().begin(), balancer.partition().end());
    if (job.options.lag == 1) shares.swap(before);
    if (random.chance(0.02)) balancer.cut(random.whole(0, job.options.batch), shares);
    for (std::size_t r = 0; r < records.size(); ++r) {
      records[r].step = static_cast<std::uint32_t>(step);
      records[r].samples = shares[r];
      fill_record(random, records[r]);
    }
    const long before_observe = allocations;
    balancer.observe(records);
    CHECK(allocations == before_observe);
    check_partition(job, balancer.partition());
  }
}

TEST_CASE("any records: the partition adds up to the batch, within limits, in granules") {
  EVENSTEP_INFO_SEED();
  Random random(test_seed());
  for (const std::string_view sizer : sizer_names())
    for (int run = 0; run < 60; ++run) {
      const auto& predictor = predictor_names()[static_cast<std::size_t>(run) % 4];
      INFO(sizer, " ", predictor, " run ", run);
      run_job(random, random_job(random, std::string(sizer), std::string(predictor)));
    }
}

TEST_CASE("two balancers fed the same records agree") {
  EVENSTEP_INFO_SEED();
  Random random(test_seed() + 1);
  for (const std::string_view sizer : sizer_names()) {
    INFO(sizer);
    const Job job = random_job(random, std::string(sizer), "narx");
    Balancer one(job.options, job.start);
    Balancer other(job.options, job.start);
    std::vector<Record> records = job.start;
    for (int step = 0; step < 300; ++step) {
      for (std::size_t r = 0; r < records.size(); ++r) {
        records[r].samples = one.partition()[r];
        fill_record(random, records[r]);
      }
      one.observe(records);
      other.observe(records);
      REQUIRE(std::ranges::equal(one.partition(), other.partition()));
    }
  }
}

TEST_CASE("all times zero: nothing moves") {
  for (const std::string_view sizer : sizer_names()) {
    INFO(sizer);
    std::vector<Record> records(4);
    for (Record& record : records) record.per_sample_ps = 1000;
    Balancer balancer({.sizer = std::string(sizer), .batch = 64, .table = {}}, records);
    for (Record& record : records) record.samples = 16;
    for (int step = 0; step < 200; ++step) balancer.observe(records);
    CHECK(balancer.resizes() == 0);
  }
}

}  // namespace
}  // namespace evenstep::lb
