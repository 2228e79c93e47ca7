#include "runtime/handshake.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "evenstep/version.h"
#include "lb/partition.h"

namespace evenstep {
namespace {

using nlohmann::json;

// An array of [name, value], so that the first difference is the first in the order given.
json must_agree(const SessionOptions& options) {
  json list = json::array();
  const auto add = [&](const std::string& name, const auto& value) {
    list.push_back({name, json(value).is_string() ? std::string(json(value)) : json(value).dump()});
  };
  add("the version of evenstep", std::string(version()));
  add("the version of its records", lb::record_version);
  for (const auto& [name, value] : options.must_agree) add(name, value);
  add("the global batch", options.global_batch);
  add("the balance", options.balance);
  add("the predictor", options.predictor);
  add("the granule", options.granule);
  add("the number of gradients", options.gradients);
  add("the number of metrics", options.metrics);
  add("the checksum of the cost by size", lb::partition_hash(options.size_cost));
  return list;
}

lb::Record start_record(const SessionOptions& options) {
  lb::Record record;
  record.least = options.least_share;
  if (options.most_share >= 0) record.most = options.most_share;
  record.fixed_ns = options.forecast.fixed_ns;
  record.per_sample_ps = options.forecast.per_sample_ps;
  record.floor_ns = options.forecast.floor_ns;
  return record;
}

void compare(const json& first, const json& other, std::size_t rank, const Handshake& known) {
  const json& ours = first["must_agree"];
  const json& theirs = other["must_agree"];
  for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    if (ours[i] == theirs[i]) continue;
    throw AgreedError(
        fmt::format(
            "rank {} on {} has {} {}, rank 0 on {} has {} {}; start all ranks with the same "
            "program and options",
            rank, known.hosts[rank], theirs[i][0].get<std::string>(),
            theirs[i][1].get<std::string>(), known.hosts[0], ours[i][0].get<std::string>(),
            ours[i][1].get<std::string>()),
        2);
  }
  if (ours.size() != theirs.size())
    throw AgreedError(fmt::format("rank {} on {} has {} options to compare, rank 0 has {}; start "
                                  "all ranks with the same program and options",
                                  rank, known.hosts[rank], theirs.size(), ours.size()),
                      2);
}

}  // namespace

Handshake shake_hands(Communicator& communicator, const SessionOptions& options) {
  std::vector<double> digits(lb::record_digits);
  lb::encode<double>(start_record(options), digits);
  const json mine = {
      {"host", communicator.host()}, {"must_agree", must_agree(options)}, {"record", digits}};
  std::vector<json> ranks;
  Handshake known;
  for (const std::string& text :
       communicator.gather(mine.dump(-1, ' ', false, json::error_handler_t::replace))) {
    ranks.push_back(json::parse(text));
    known.hosts.push_back(ranks.back()["host"]);
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    compare(ranks[0], ranks[rank], rank, known);
    const auto record = ranks[rank]["record"].get<std::vector<double>>();
    known.records.push_back(lb::decode<double>(record).value());
  }
  return known;
}

}  // namespace evenstep
