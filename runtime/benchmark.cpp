#include "evenstep/benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "lb/cost.h"

namespace evenstep {
namespace {

constexpr int least_runs = 5;
constexpr int most_runs = 50;
constexpr double most_ns = 2e9;
constexpr double relative_error = 0.025;

// Quantiles of Student's t for a two-sided confidence of 98 %, by degrees of freedom from 4.
double student_t_98(int degrees) {
  constexpr double table[] = {3.747, 3.365, 3.143, 2.998, 2.896, 2.821, 2.764, 2.718, 2.681,
                              2.650, 2.624, 2.602, 2.583, 2.567, 2.552, 2.539, 2.528};
  const int last = 4 + static_cast<int>(std::size(table)) - 1;
  return degrees <= last ? table[degrees - 4] : 2.528;  // a little wide beyond 20: never too sure
}

class Mean {
 public:
  void add(double time_ns) {
    ++runs_;
    sum_ += time_ns;
    sum_of_squares_ += time_ns * time_ns;
  }
  double value() const { return sum_ / runs_; }
  bool is_known() const {
    if (runs_ < least_runs) return false;
    if (runs_ == most_runs || sum_ >= most_ns) return true;
    const double variance = std::max(0.0, (sum_of_squares_ - sum_ * value()) / (runs_ - 1));
    return student_t_98(runs_ - 1) * std::sqrt(variance / runs_) <= relative_error * value();
  }

 private:
  int runs_ = 0;
  double sum_ = 0;
  double sum_of_squares_ = 0;
};

struct Point {
  double work;
  double time;
};

// Minimises sum(((fixed + slope w - t) / t)^2), with no fixed cost below 0.
struct Line {
  double fixed = 0;
  double slope = 0;

  explicit Line(std::span<const Point> points) {
    double s1 = 0;
    double sw = 0;
    double sww = 0;
    double st = 0;
    double swt = 0;
    for (const auto& [w, t] : points) {
      const double weight = 1 / (t * t);
      s1 += weight;
      sw += weight * w;
      sww += weight * w * w;
      st += weight * t;
      swt += weight * w * t;
    }
    const double determinant = s1 * sww - sw * sw;
    if (points.size() > 1 && determinant > 0) {
      slope = (s1 * swt - sw * st) / determinant;
      fixed = (st - slope * sw) / s1;
    }
    if (points.size() == 1 || fixed < 0) {
      fixed = 0;
      slope = swt / sww;
    } else if (slope < 0) {
      slope = 0;
      fixed = st / s1;
    }
  }
};

struct Profile {
  Line line;
  double floor;

  double error(std::span<const Point> points) const {
    double sum = 0;
    for (const auto& [w, t] : points) {
      const double off = std::max(floor, line.fixed + line.slope * w) / t - 1;
      sum += off * off;
    }
    return sum;
  }
};

double flat_level(std::span<const Point> points) {
  double inverse = 0;
  double inverse_squared = 0;
  for (const Point& point : points) {
    inverse += 1 / point.time;
    inverse_squared += 1 / (point.time * point.time);
  }
  return points.empty() ? 0 : inverse / inverse_squared;
}

std::vector<Point> checked(std::span<const double> work, std::span<const std::int64_t> times_ns) {
  if (work.empty() || work.size() != times_ns.size())
    throw UsageError(fmt::format("a fit of {} sizes and {} times; give as many times as sizes",
                                 work.size(), times_ns.size()));
  std::vector<Point> points;
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (!(work[i] > 0) || times_ns[i] < 1)
      throw UsageError(
          fmt::format("a fit of {} ns for {} samples; both must be above 0", times_ns[i], work[i]));
    points.push_back({work[i], static_cast<double>(times_ns[i])});
  }
  return points;
}

}  // namespace

std::vector<std::int64_t> benchmark(Communicator& communicator, std::span<const std::int64_t> sizes,
                                    const std::function<void(std::int64_t size)>& run,
                                    const Clock& clock) {
  std::vector<std::int64_t> means;
  for (const std::int64_t size : sizes) {
    communicator.gather("");  // all start together
    Mean mean;
    while (!mean.is_known()) {
      const std::int64_t start = clock.now_ns();
      run(size);
      mean.add(static_cast<double>(clock.now_ns() - start));
    }
    float known = 1;
    communicator.start_sum({&known, 1});
    while (!communicator.progress()) run(size);
    means.push_back(std::max<std::int64_t>(1, std::llround(mean.value())));
  }
  return means;
}

Forecast fit_forecast(std::span<const double> work, std::span<const std::int64_t> times_ns) {
  const std::vector<Point> points = checked(work, times_ns);
  const std::span<const Point> all(points);
  std::optional<Profile> best;
  // A line needs two sizes beyond the floor.
  for (std::size_t flat = 0; flat == 0 || flat + 2 <= points.size(); ++flat) {
    const Profile profile{Line(all.subspan(flat)), flat_level(all.first(flat))};
    if (!best || profile.error(all) < best->error(all)) best = profile;
  }
  return {std::llround(best->line.fixed),
          std::max<std::int64_t>(1, std::llround(1000 * best->line.slope)),
          std::llround(best->floor)};
}

std::vector<double> work_of(std::span<const std::int64_t> sizes,
                            std::span<const std::int64_t> size_cost) {
  const lb::SizeTable table = size_cost.empty() ? lb::SizeTable() : lb::SizeTable(size_cost);
  std::vector<double> work;
  for (const std::int64_t size : sizes)
    work.push_back(static_cast<double>(table.units(size)) / lb::SizeTable::units_per_sample);
  return work;
}

}  // namespace evenstep
