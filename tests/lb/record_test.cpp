#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "lb/record.h"
#include "lb/tail.h"
#include "tests/lb/random.h"

namespace evenstep::lb {
namespace {

constexpr std::uint32_t largest_digit = (1U << 24) - 1;

Record random_record(Random& random) {
  const auto digit = [&] { return static_cast<std::uint32_t>(random.any_size(largest_digit)); };
  const auto field = [&] { return random.any_size(largest_field); };
  return {.step = digit(),
          .partition_hash = digit(),
          .parameter_hash = digit(),
          .flags = digit(),
          .samples = field(),
          .own_ns = field(),
          .wait_ns = field(),
          .fixed_ns = field(),
          .per_sample_ps = field(),
          .floor_ns = field(),
          .least = field(),
          .most = field(),
          .cpu_available = digit(),
          .memory_available = digit()};
}

Record record_of(std::uint32_t digit, std::int64_t field) {
  return {digit, digit, digit, digit, field, field, field,
          field, field, field, field, field, digit, digit};
}

template <typename Real>
std::array<Real, record_digits> encoded(const Record& record) {
  std::array<Real, record_digits> digits;
  encode(record, std::span<Real>(digits));
  return digits;
}

template <typename Real>
std::optional<Record> decoded(const std::array<Real, record_digits>& digits) {
  return decode(std::span<const Real>(digits));
}

bool in_range(const Record& record) {
  for (const std::uint32_t digit : {record.step, record.partition_hash, record.parameter_hash,
                                    record.flags, record.cpu_available, record.memory_available})
    if (digit > largest_digit) return false;
  for (const std::int64_t field :
       {record.samples, record.own_ns, record.wait_ns, record.fixed_ns, record.per_sample_ps,
        record.floor_ns, record.least, record.most})
    if (field < 0 || field > largest_field) return false;
  return true;
}

TEST_CASE_TEMPLATE("a record survives encoding", Real, float, double) {
  EVENSTEP_INFO_SEED();
  Random random(test_seed());
  for (int i = 0; i < 20000; ++i) {
    const Record record = random_record(random);
    REQUIRE(decoded(encoded<Real>(record)) == record);
  }
  for (const std::uint32_t digit : {0U, 1U, largest_digit - 1, largest_digit})
    for (const std::int64_t field :
         {std::int64_t{0}, std::int64_t{1}, std::int64_t{largest_digit},
          std::int64_t{largest_digit} + 1, largest_field - 1, largest_field})
      CHECK(decoded(encoded<Real>(record_of(digit, field))) == record_of(digit, field));
}

TEST_CASE_TEMPLATE("fields beyond their width are clamped", Real, float, double) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  CHECK(decoded(encoded<Real>(record_of(1U << 24, largest_field + 1))) ==
        record_of(largest_digit, largest_field));
  CHECK(decoded(encoded<Real>(record_of(~0U, most))) == record_of(largest_digit, largest_field));
  CHECK(decoded(encoded<Real>(record_of(0, -1))) == record_of(0, 0));
  CHECK(decoded(encoded<Real>(record_of(0, least))) == record_of(0, 0));
}

TEST_CASE_TEMPLATE("what is no digit is refused, wherever it stands", Real, float, double) {
  using Limits = std::numeric_limits<Real>;
  const auto good = encoded<Real>(record_of(7, 1234567890));
  for (const Real bad :
       {Real{0.5}, Real{-1}, Real{-0.25}, Real{1 << 24}, Real(1 << 24) + 2, Limits::infinity(),
        -Limits::infinity(), Limits::quiet_NaN(), Limits::signaling_NaN(), Limits::max(),
        Limits::lowest(), Limits::min(), Limits::denorm_min(), Real{8388607.5}})
    for (std::size_t i = 0; i < good.size(); ++i) {
      auto digits = good;
      digits[i] = bad;
      INFO("digit ", i, " is ", bad);
      CHECK_FALSE(decoded(digits));
    }
}

TEST_CASE_TEMPLATE("random bits decode to nothing or to fields in range", Real, float, double) {
  EVENSTEP_INFO_SEED();
  using Bits = std::conditional_t<sizeof(Real) == 4, std::uint32_t, std::uint64_t>;
  Random random(test_seed());
  int accepted = 0;
  for (int i = 0; i < 200000; ++i) {
    auto digits = encoded<Real>(random_record(random));
    const auto wild = random.chance(0.1) ? record_digits : random.whole(1, 3);
    for (int w = 0; w < wild; ++w) {
      auto& digit = digits[static_cast<std::size_t>(random.whole(0, record_digits - 1))];
      digit = random.chance(0.5) ? std::bit_cast<Real>(static_cast<Bits>(random.engine()()))
                                 : static_cast<Real>(random.whole(-2, 1 << 25));
    }
    const auto record = decoded(digits);
    if (!record) continue;
    ++accepted;
    REQUIRE(in_range(*record));
    REQUIRE(encoded<Real>(*record) == digits);
  }
  CHECK(accepted > 0);
}

// Adds up all ranks' tails as an all-reduce might: any two partial sums next, and the
// halves in orders of their own if `in_halves`, as a ring does with its chunks.
template <typename Real>
std::vector<Real> sum_in_random_order(std::vector<std::vector<Real>> parts, bool in_halves,
                                      Random& random) {
  std::vector<Real> result(parts[0].size());
  const auto sum_range = [&](std::size_t begin, std::size_t end) {
    auto left = parts;
    while (left.size() > 1) {
      std::ranges::shuffle(left, random.engine());
      const std::vector<Real> last = std::move(left.back());
      left.pop_back();
      auto& into = left[static_cast<std::size_t>(
          random.whole(0, static_cast<std::int64_t>(left.size()) - 1))];
      for (std::size_t i = begin; i < end; ++i) into[i] += last[i];
    }
    std::copy(left[0].begin() + static_cast<std::ptrdiff_t>(begin),
              left[0].begin() + static_cast<std::ptrdiff_t>(end),
              result.begin() + static_cast<std::ptrdiff_t>(begin));
  };
  const std::size_t middle = in_halves ? result.size() / 2 : result.size();
  sum_range(0, middle);
  sum_range(middle, result.size());
  return result;
}

TEST_CASE_TEMPLATE("a plain SUM gathers all records exactly, in every order", Real, float, double) {
  EVENSTEP_INFO_SEED();
  Random random(test_seed());
  for (const int ranks : {1, 2, 3, 5, 8, 17, 64}) {
    const int sums = static_cast<int>(random.whole(0, 4));
    Tail tail(TailForm::slots, ranks, sums);
    std::vector<Record> sent;
    std::vector<std::vector<Real>> parts;
    for (int r = 0; r < ranks; ++r) {
      sent.push_back(random_record(random));
      const std::vector<double> own(static_cast<std::size_t>(sums), r + 1);
      parts.emplace_back(tail.size(), Real{-99});
      tail.write(std::span<Real>(parts.back()), r, sent.back(), false, own);
    }
    for (int order = 0; order < 10; ++order) {
      const auto total = sum_in_random_order(parts, order % 2 == 1, random);
      std::vector<double> totals(static_cast<std::size_t>(sums));
      std::vector<Record> received(sent.size());
      REQUIRE(tail.read(std::span<const Real>(total), totals, received).unreadable == -1);
      REQUIRE(received == sent);
      for (double sum : totals) CHECK(sum == ranks * (ranks + 1) / 2);
    }
  }
}

TEST_CASE("the lowest rank with an unreadable slot is named, the others are read") {
  Tail tail(TailForm::slots, 4, 1);
  std::vector<float> total(tail.size(), 1.0F);
  total[static_cast<std::size_t>(1 + 2 * record_digits + 5)] = 0.5F;
  total[static_cast<std::size_t>(1 + 3 * record_digits)] = std::nanf("");
  std::vector<double> sums(1);
  std::vector<Record> records(4);
  CHECK(tail.read(std::span<const float>(total), sums, records).unreadable == 2);
  CHECK(sums[0] == 1);
  CHECK(records[0].step == 1);
  CHECK(records[1].own_ns == (1 << 24) + 1);
  CHECK(records[2] == Record{});
}

}  // namespace
}  // namespace evenstep::lb
