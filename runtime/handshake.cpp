#include "runtime/handshake.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "evenstep/version.h"
#include "lb/partition.h"
#include "lb/record.h"

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
  add("the lag", options.lag);
  add("the granule", options.granule);
  add("the tail", options.tail);
  add("the number of gradients", options.gradients);
  add("the number of metrics", options.metrics);
  add("the overlap", options.overlap);
  add("the type on the wire", options.wire);
  add("the size of buckets", options.bucket_bytes);
  add("the number of ways to run backward", options.backward_ways);
  add("the checksum of the layers' ends", lb::partition_hash(options.layer_ends));
  add("the checksum of the cost by size", lb::partition_hash(options.size_cost));
  return list;
}

json start_of(const std::string& host, const SessionOptions& options) {
  const Forecast& forecast = options.forecast;
  return {{"host", host},
          {"least", options.least_share},
          {"most", options.most_share},
          {"forecast", {forecast.fixed_ns, forecast.per_sample_ps, forecast.floor_ns}},
          {"must_agree", must_agree(options)}};
}

RankStart read_start(const json& rank) {
  const json& forecast = rank["forecast"];
  return {rank["host"], rank["least"], rank["most"], {forecast[0], forecast[1], forecast[2]}};
}

void compare(const json& first, const json& other, std::size_t rank,
             std::span<const RankStart> known) {
  const json& ours = first["must_agree"];
  const json& theirs = other["must_agree"];
  for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    if (ours[i] == theirs[i]) continue;
    throw AgreedError(
        fmt::format(
            "rank {} on {} has {} {}, rank 0 on {} has {} {}; start all ranks with the same "
            "program and options",
            rank, known[rank].host, theirs[i][0].get<std::string>(),
            theirs[i][1].get<std::string>(), known[0].host, ours[i][0].get<std::string>(),
            ours[i][1].get<std::string>()),
        2);
  }
  if (ours.size() != theirs.size())
    throw AgreedError(fmt::format("rank {} on {} has {} options to compare, rank 0 has {}; start "
                                  "all ranks with the same program and options",
                                  rank, known[rank].host, theirs.size(), ours.size()),
                      2);
}

}  // namespace

std::vector<RankStart> shake_hands(Communicator& communicator, const SessionOptions& options) {
  std::vector<json> ranks;
  std::vector<RankStart> known;
  const json mine = start_of(communicator.host(), options);
  for (const std::string& text :
       communicator.gather(mine.dump(-1, ' ', false, json::error_handler_t::replace))) {
    ranks.push_back(json::parse(text));
    known.push_back(read_start(ranks.back()));
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    compare(ranks[0], ranks[rank], rank, known);
  return known;
}

}  // namespace evenstep
