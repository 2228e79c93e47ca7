#include "lb/rank_model.h"

#include <algorithm>

namespace evenstep::lb {
namespace {

constexpr double pool_memory = 0.999;  // a rank's reading; all ranks' count
constexpr double least_readings = 30;
constexpr double better = 0.9;
constexpr double full = 65536;
constexpr double ps_per_unit_ns = 1000.0 * SizeTable::units_per_sample;

double squared(double off) { return std::min(off * off, 1.0); }

}  // namespace

void Pool::compare(double plain_off, double seen_off) {
  plain_error_ = pool_memory * plain_error_ + squared(plain_off);
  seen_error_ = pool_memory * seen_error_ + squared(seen_off);
  readings_ = pool_memory * readings_ + 1;
  if (readings_ < least_readings) return;
  trust_seen_ = seen_error_ < (trust_seen_ ? 1.0 : better) * plain_error_;
}

CostModel::News RankModel::observe(const Record& record, std::int64_t units, Pool& pool) {
  const bool was_trusted = use_seen(pool);
  const double plain_off = plain_.forecast_error(record.own_ns, units);
  const auto news = plain_.observe(record.own_ns, units, pool.plain);
  if (cpu_ == 0) return news;
  const auto normal = static_cast<Nanoseconds>(static_cast<double>(record.own_ns) * (cpu_ / full));
  if (normal == 0) return news;
  const double seen_off = seen_.forecast_error(normal, units);
  const bool both = plain_.observations() > 2 && seen_.observations() > 1;
  const auto seen_news = seen_.observe(normal, units, pool.seen);
  if (both) pool.compare(plain_off, seen_off);
  return was_trusted ? seen_news : news;
}

bool RankModel::use_seen(const Pool& pool) const {
  return pool.trust_seen() && cpu_ > 0 && seen_.observations() > 1;
}

Cost RankModel::cost(const Pool& pool) const {
  if (!use_seen(pool)) return plain_.cost(pool.plain);
  return times(seen_.cost(pool.seen), full / cpu_);
}

bool RankModel::is_surprised_by(Nanoseconds own_ns, std::int64_t units, const Pool& pool) const {
  if (observations() < 2) return false;  // sized by nothing yet: its turn will come
  const Cost believed = cost(pool);
  const double forecast =
      static_cast<double>(believed.fixed_ns) +
      static_cast<double>(believed.per_sample_ps) * static_cast<double>(units) / ps_per_unit_ns;
  const double off = static_cast<double>(own_ns) / forecast - 1;
  const double gate = trusted(pool).gate();
  return off < -gate || off > gate;
}

}  // namespace evenstep::lb
