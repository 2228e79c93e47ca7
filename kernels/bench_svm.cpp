// How fast the linear SVM passes over the non-zeros of a generated set, beside the bandwidth at
// which this machine copies memory, in turn. Columns are drawn as words of a text are (Zipf's law,
// ids without order) or evenly, and numbered by frequency, as the reader does, or left alone.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "kernels/svm.h"
#include "runtime/cpu_time.h"
#include "runtime/huge_pages.h"

namespace evenstep::kernels {
namespace {

struct BenchOptions {
  std::int64_t columns = 3'200'000;
  std::int64_t rows = 200'000;
  int per_row = 115;
  double exponent = 1;  // of Zipf's law; 0: evenly
  int rounds = 5;
  bool renumber = true;  // as the reader does
};

template <typename T>
using HugePages = std::vector<T, HugePageAllocator<T>>;

struct Problem {
  std::vector<std::uint64_t> starts{0};
  HugePages<SparseEntry> entries;
  std::vector<std::int8_t> labels;
};

/// The rank of a column by Zipf's law, from the inverse of its continuous distribution.
double draw_rank(double uniform, double columns, double exponent) {
  if (exponent == 1) return std::pow(columns, uniform);
  const double power = 1 - exponent;
  return std::pow(1 + uniform * (std::pow(columns, power) - 1), 1 / power);
}

Problem generate(const BenchOptions& options) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform(0, 1);
  const auto columns = static_cast<std::uint64_t>(options.columns);
  Problem problem;
  std::vector<std::uint32_t> row;
  for (std::int64_t r = 0; r < options.rows; ++r) {
    row.clear();
    while (static_cast<int>(row.size()) < options.per_row) {
      while (static_cast<int>(row.size()) < options.per_row) {
        const double rank =
            draw_rank(uniform(random), static_cast<double>(columns), options.exponent) - 1;
        // A fixed odd multiplier scatters the ranks over the ids.
        const auto place = std::min(static_cast<std::uint64_t>(rank), columns - 1);
        row.push_back(static_cast<std::uint32_t>(place * 2'654'435'761U % columns));
      }
      std::ranges::sort(row);
      row.erase(std::unique(row.begin(), row.end()), row.end());
    }
    for (std::uint32_t column : row)
      problem.entries.push_back({column, static_cast<float>(uniform(random))});
    problem.starts.push_back(problem.entries.size());
    problem.labels.push_back(random() % 2 == 0 ? 1 : -1);
  }
  return problem;
}

/// CPU time of the one thread: a core shared with others then tells the same.
template <typename Run>
double seconds_of(Run&& run) {
  const std::int64_t start = process_cpu_ns();
  run();
  return 1e-9 * static_cast<double>(process_cpu_ns() - start);
}

/// Bytes read and written a second.
double copy_bandwidth(std::vector<char>& from, std::vector<char>& to) {
  return 2 * static_cast<double>(from.size()) /
         seconds_of([&] { std::memcpy(to.data(), from.data(), from.size()); });
}

struct Times {
  double forward = 0;
  double backward = 0;
};

/// One pass over all rows in the order that a sampler would give: none.
Times pass(LinearSvm& svm, const SparseRows& rows, std::span<const std::int64_t> order,
           std::span<float> gradients) {
  Times times;
  std::int64_t done = 0;
  svm.menu().for_each_chunk(rows.rows(), [&](int size) {
    times.forward += seconds_of([&] {
      for (int i = 0; i < size; ++i) svm.stage(i, rows, order[static_cast<std::size_t>(done + i)]);
      svm.forward(size);
    });
    times.backward += seconds_of(
        [&] { svm.backward(size, {done == 0, done + size == rows.rows()}, gradients, nullptr); });
    done += size;
  });
  return times;
}

void bench(const BenchOptions& options) {
  Problem problem = generate(options);
  if (options.renumber) number_by_frequency(options.columns, problem.starts, problem.entries);
  const SparseRows rows{options.columns, {-1, 1}, problem.starts, problem.entries, problem.labels};
  std::vector<std::int64_t> order(static_cast<std::size_t>(options.rows));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  std::mt19937_64 random(2);
  std::ranges::shuffle(order, random);
  LinearSvm svm(options.columns, 1);
  const HugePages<float> weights(static_cast<std::size_t>(svm.parameter_count()));
  HugePages<float> gradients(weights.size());
  svm.load_parameters(weights);  // zeros: every row is within the margin, and costs most
  std::vector<char> from(256 << 20, 1);
  std::vector<char> to(from.size());
  copy_bandwidth(from, to);
  pass(svm, rows, order, gradients);
  const double bytes = static_cast<double>(rows.entries.size_bytes());
  for (int round = 0; round < options.rounds; ++round) {
    const double copied = copy_bandwidth(from, to);
    const Times times = pass(svm, rows, order, gradients);
    const double rate = bytes / (times.forward + times.backward);
    fmt::print(
        "copy {:.2f} GB/s; non-zeros once forward and backward {:.2f} GB/s, {:.0f} %; forward "
        "{:.2f} GB/s, {:.0f} %; {:.2f} ns a non-zero\n",
        copied * 1e-9, rate * 1e-9, 100 * rate / copied, bytes / times.forward * 1e-9,
        100 * bytes / times.forward / copied,
        1e9 * (times.forward + times.backward) / static_cast<double>(rows.entries.size()));
  }
}

BenchOptions parse(int argc, char** argv) {
  BenchOptions options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const std::string value = argv[i + 1];
    if (name == "--features")
      options.columns = std::stoll(value);
    else if (name == "--rows")
      options.rows = std::stoll(value);
    else if (name == "--per-row")
      options.per_row = std::stoi(value);
    else if (name == "--exponent")
      options.exponent = std::stod(value);
    else if (name == "--renumber")
      options.renumber = value == "on";
    else
      throw std::invalid_argument(name);
  }
  return options;
}

}  // namespace
}  // namespace evenstep::kernels

int main(int argc, char** argv) {
  try {
    evenstep::kernels::bench(evenstep::kernels::parse(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr,
               "error: {}; usage: evenstep-bench-svm [--features N] [--rows N] [--per-row N] "
               "[--exponent OF_ZIPF] [--renumber on|off]\n",
               error.what());
    return 2;
  }
}
