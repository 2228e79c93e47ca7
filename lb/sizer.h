// A sizer is a strategy: from what all ranks know of each other to a proposed
// partition. Pure and the same on all ranks. To add one: derive from Sizer in
// a file of its own under sizers/, and name it in sizers/sizers.h and sizer.cpp.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lb/partition.h"
#include "lb/rank_model.h"
#include "lb/record.h"

namespace evenstep::lb {

/// What a sizer decides from; index is the rank.
struct View {
  std::span<const Record> records;    ///< of the last step, or of the start
  std::span<const RankModel> models;  ///< learned so far
  const Pool& pool;
  Samples batch;
  Samples granule;
  const SizeTable* table;
};

class Sizer {
 public:
  virtual ~Sizer() = default;

  /// The first partition, from the records that the ranks exchanged at start.
  /// Returns false to start with even shares.
  virtual bool propose_first(const View&, std::span<Samples> /*shares*/) { return false; }

  /// Writes a proposal for the next step to `shares` and returns true, or
  /// returns false. Called once a step. Allocates nothing.
  virtual bool propose(const View&, std::span<Samples> /*shares*/) { return false; }

  /// The ranks' costs as this sizer foresees them, from the last propose.
  /// Empty: it foresees none, and its proposals are adopted as they come;
  /// otherwise the policy weighs them.
  virtual std::span<const RankCost> foreseen() const { return {}; }
};

/// Throws std::invalid_argument for a name not in sizer_names(), listing them. `predictor`: what
/// `lbbsp-cpu` forecasts with, a name in predictor_names(); the others have no use for it.
std::unique_ptr<Sizer> make_sizer(std::string_view name, int ranks,
                                  std::string_view predictor = "narx");

/// The names make_sizer knows.
std::span<const std::string_view> sizer_names();

}  // namespace evenstep::lb
