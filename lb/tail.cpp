#include "lb/tail.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "lb/hash.h"

namespace evenstep::lb {
namespace {

constexpr int most_rotating = 192;
constexpr int contended_part = 3;  // a third as many contention slots as rotating ones
constexpr int digest_digits = 4;
constexpr int digest_bits = 6;  // a digit: 2^6 times 2^18 ranks is 2^24
constexpr int head_digits = flag_bits + digest_digits;
constexpr int contention_digits = 2 + record_digits;  // count, rank, record
constexpr int part_that_is_much = 20;
constexpr int few = 4;  // so many slots a waiting rank: each takes two

std::uint32_t hash_of(int rank, std::int64_t turn, int purpose) {
  Hash24 hash;
  hash.add(static_cast<std::uint64_t>(rank));
  hash.add(static_cast<std::uint64_t>(turn));
  hash.add(static_cast<std::uint64_t>(purpose));
  return hash.value();
}

std::uint32_t digest(const Record& record) {
  Hash24 hash;
  hash.add(record.step);
  hash.add(record.partition_hash);
  hash.add(record.parameter_hash);
  return hash.value();
}

template <typename Real>
void write_head(std::span<Real> head, const Record& record) {
  for (int bit = 0; bit < flag_bits; ++bit)
    head[static_cast<std::size_t>(bit)] = static_cast<Real>(record.flags >> bit & 1);
  const std::uint32_t mine = digest(record);
  for (int i = 0; i < digest_digits; ++i)
    head[static_cast<std::size_t>(flag_bits + i)] =
        static_cast<Real>(mine >> (i * digest_bits) & ((1U << digest_bits) - 1));
}

// -1 where it is no count.
template <typename Real>
std::int64_t count_of(Real number) {
  if (!(number >= 0 && number <= Real{1 << 24})) return -1;
  const auto count = static_cast<std::int64_t>(number);
  return static_cast<Real>(count) == number ? count : -1;
}

template <typename Real>
News read_head(std::span<const Real> head, int ranks) {
  News news;
  for (std::size_t bit = 0; bit < news.flags.size(); ++bit)
    news.flags[bit] = std::max<std::int64_t>(count_of(head[bit]), 0);
  for (int i = 0; i < digest_digits; ++i) {
    const std::int64_t sum = count_of(head[static_cast<std::size_t>(flag_bits + i)]);
    news.agree = news.agree && sum >= 0 && sum % ranks == 0;
  }
  return news;
}

void count_flags(const Record& record, News& news) {
  for (std::size_t bit = 0; bit < news.flags.size(); ++bit)
    news.flags[bit] += record.flags >> bit & 1;
}

constexpr std::array<std::string_view, 3> names = {"auto", "slots", "rotating"};

}  // namespace

std::span<const std::string_view> tail_names() { return names; }

TailForm tail_form(std::string_view name, int ranks) {
  if (ranks > most_ranks_of_tail)
    throw std::invalid_argument(fmt::format("{} ranks are too many, at most {} can be balanced",
                                            ranks, most_ranks_of_tail));
  if (name == "slots") return TailForm::slots;
  if (name == "rotating") return TailForm::rotating;
  if (name == "auto") return ranks > most_slots ? TailForm::rotating : TailForm::slots;
  throw std::invalid_argument(
      fmt::format("unknown tail '{}'; choose one of auto, slots, rotating", name));
}

// Where few ranks rotate, everyone's turn comes in every other step: else there would be no news.
Tail::Tail(TailForm form, int ranks, int sums) : form_(form), ranks_(ranks), sums_(sums) {
  if (form == TailForm::slots) return;
  rotating_ = std::min(most_rotating, (ranks + 1) / 2);
  contended_ = (rotating_ + contended_part - 1) / contended_part;
}

std::size_t Tail::size() const {
  return form_ == TailForm::slots ? rotating_at(ranks_) : contention_at(contended_);
}

// In slots form all ranks' slots.
std::size_t Tail::rotating_at(int slot) const {
  const int head = form_ == TailForm::slots ? 0 : head_digits;
  return static_cast<std::size_t>(sums_ + head) + static_cast<std::size_t>(slot) * record_digits;
}

std::size_t Tail::contention_at(int slot) const {
  return rotating_at(rotating_) + static_cast<std::size_t>(slot) * contention_digits;
}

int Tail::rank_in_turn(int slot) const {
  return static_cast<int>((turn_ * rotating_ + slot) % ranks_);
}

bool Tail::is_turn(int rank) const {
  const auto first = turn_ * rotating_ % ranks_;
  return (rank - first + ranks_) % ranks_ < rotating_;
}

// With more waiting than there are slots, as many as slots try.
bool Tail::contends(int rank) const {
  const auto drawn = static_cast<std::int64_t>(hash_of(rank, turn_, 0));
  return waiting_ <= contended_ || drawn * waiting_ < std::int64_t{contended_} << 24;
}

int Tail::copies() const { return contended_ > 1 && waiting_ * few <= contended_ ? 2 : 1; }

int Tail::contention_slot(int rank, int copy) const {
  const auto slots = static_cast<std::uint32_t>(contended_);
  const std::uint32_t first = hash_of(rank, turn_, 1) % slots;
  if (copy == 0) return static_cast<int>(first);
  return static_cast<int>((first + 1 + hash_of(rank, turn_, 2) % (slots - 1)) % slots);
}

template <typename Real>
void Tail::write(std::span<Real> tail, int rank, const Record& record, bool is_news,
                 std::span<const double> sums) const {
  std::ranges::fill(tail, Real{0});
  std::ranges::transform(sums, tail.begin(), [](double sum) { return static_cast<Real>(sum); });
  if (form_ == TailForm::slots)
    encode(record, tail.subspan(rotating_at(rank), record_digits));
  else
    write_rotating(tail, rank, record, is_news);
}

template <typename Real>
void Tail::write_rotating(std::span<Real> tail, int rank, const Record& record,
                          bool is_news) const {
  write_head(tail.subspan(static_cast<std::size_t>(sums_), head_digits), record);
  if (is_turn(rank)) {
    const auto first = static_cast<int>(turn_ * rotating_ % ranks_);
    encode(record, tail.subspan(rotating_at((rank - first + ranks_) % ranks_), record_digits));
    return;
  }
  if (!is_news || !contends(rank)) return;
  for (int copy = 0; copy < copies(); ++copy) {
    const auto slot = tail.subspan(contention_at(contention_slot(rank, copy)), contention_digits);
    slot[0] = 1;
    slot[1] = static_cast<Real>(rank);
    encode(record, slot.subspan(2));
  }
}

template <typename Real>
News Tail::read(std::span<const Real> tail, std::span<double> sums, std::span<Record> records) {
  std::copy_n(tail.begin(), sums_, sums.begin());
  return form_ == TailForm::slots ? read_slots(tail, records) : read_rotating(tail, records);
}

template <typename Real>
News Tail::read_slots(std::span<const Real> tail, std::span<Record> records) const {
  News news;
  for (int rank = ranks_ - 1; rank >= 0; --rank) {
    const auto record = decode(tail.subspan(rotating_at(rank), record_digits));
    records[static_cast<std::size_t>(rank)] = record.value_or(Record{});
    if (!record) news.unreadable = rank;
  }
  const std::uint32_t first = digest(records[0]);
  for (const Record& record : records) {
    count_flags(record, news);
    news.agree = news.agree && digest(record) == first;
  }
  return news;
}

template <typename Real>
News Tail::read_rotating(std::span<const Real> tail, std::span<Record> records) {
  News news = read_head(tail.subspan(static_cast<std::size_t>(sums_), head_digits), ranks_);
  for (Record& record : records) record.flags |= flag_stale;
  for (int slot = rotating_ - 1; slot >= 0; --slot) {
    const int rank = rank_in_turn(slot);
    const auto record = decode(tail.subspan(rotating_at(slot), record_digits));
    if (record)
      records[static_cast<std::size_t>(rank)] = *record;
    else
      news.unreadable = news.unreadable < 0 ? rank : std::min(news.unreadable, rank);
  }
  read_contended(tail, records, news);
  const std::uint32_t first = digest(records[static_cast<std::size_t>(rank_in_turn(0))]);
  for (const Record& record : records)
    if (!record.has(flag_stale)) news.agree = news.agree && digest(record) == first;
  ++turn_;
  return news;
}

template <typename Real>
void Tail::read_contended(std::span<const Real> tail, std::span<Record> records, News& news) {
  std::int64_t attempts = 0;
  std::int64_t through = 0;
  for (int slot = 0; slot < contended_; ++slot) {
    const auto digits = tail.subspan(contention_at(slot), contention_digits);
    const std::int64_t count = count_of(digits[0]);
    attempts += std::max<std::int64_t>(count, 0);
    if (count == 0 || count > 1) continue;
    const std::int64_t rank = count_of(digits[1]);
    const auto record = decode(digits.subspan(2));
    if (count < 0 || rank < 0 || rank >= ranks_ || !record) {
      news.agree = false;
      continue;
    }
    Record& known = records[static_cast<std::size_t>(rank)];
    if (known.has(flag_stale)) ++through;
    known = *record;
  }
  // Those who tried stand for as many times more as were told to.
  const std::int64_t tried = attempts / copies();
  const std::int64_t all = waiting_ > contended_ ? tried * waiting_ / contended_ : tried;
  waiting_ = std::max<std::int64_t>(all - through, 0);
  news.much_to_come = is_much_to_come();
}

// Not for longer than it takes to hear from everyone twice: some jobs never come to rest.
bool Tail::is_much_to_come() {
  const bool much = waiting_ > std::max(contended_, ranks_ / part_that_is_much);
  much_waits_ = much ? much_waits_ + 1 : 0;
  return much && much_waits_ <= 2 * (ranks_ / rotating_ + 1);
}

template void Tail::write(std::span<float>, int, const Record&, bool,
                          std::span<const double>) const;
template void Tail::write(std::span<double>, int, const Record&, bool,
                          std::span<const double>) const;
template News Tail::read(std::span<const float>, std::span<double>, std::span<Record>);
template News Tail::read(std::span<const double>, std::span<double>, std::span<Record>);

}  // namespace evenstep::lb
