#include "sim/solve.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "common/csv.h"
#include "lb/partition.h"

namespace evenstep::sim {
namespace {

constexpr const char* header = "rank,fixed_seconds,seconds_per_sample,floor_seconds,least,most";
enum Column : std::size_t { rank_column, cost_column, least_column = 4, most_column };
constexpr std::int64_t largest_rank = (std::int64_t{1} << 24) - 1;

struct Row {
  std::size_t rank;
  lb::RankCost cost;
};

Row read_row(const CsvReader& csv) {
  Row row;
  row.rank = static_cast<std::size_t>(csv.whole(rank_column, largest_rank));
  row.cost.cost = csv.cost(cost_column);
  if (!csv.is_empty(least_column)) row.cost.least = csv.whole(least_column, lb::largest_field);
  if (!csv.is_empty(most_column)) row.cost.most = csv.whole(most_column, lb::largest_field);
  if (row.cost.least > row.cost.most)
    csv.fail(fmt::format("least is {}, most is {}; the first cannot be above the second",
                         row.cost.least, row.cost.most));
  return row;
}

std::vector<lb::RankCost> read_costs(const std::string& path) {
  CsvReader csv(path, header);
  std::vector<Row> rows;
  while (csv.next()) rows.push_back(read_row(csv));
  if (rows.empty()) csv.fail("no row below the header");
  std::vector<std::optional<lb::RankCost>> by_rank(rows.size());
  for (const Row& row : rows)
    if (row.rank < rows.size()) by_rank[row.rank] = row.cost;
  std::vector<lb::RankCost> costs;
  for (const auto& cost : by_rank) {
    if (!cost)
      csv.fail(fmt::format("{} rows and none of rank {}; give each rank one row", rows.size(),
                           costs.size()));
    costs.push_back(*cost);
  }
  return costs;
}

}  // namespace

void solve_file(const std::string& path, std::int64_t global_batch, std::int64_t granule) {
  const std::vector<lb::RankCost> costs = read_costs(path);
  std::vector<lb::Samples> shares(costs.size());
  const lb::Nanoseconds finish =
      lb::solve_partition({costs, global_batch, granule, nullptr}, shares);
  const nlohmann::ordered_json answer = {{"partition", shares},
                                         {"finish_seconds", 1e-9 * static_cast<double>(finish)}};
  fmt::print("{}\n", answer.dump());
}

}  // namespace evenstep::sim
