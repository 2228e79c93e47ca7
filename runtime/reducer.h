// Sums an arena over all ranks, bucket by bucket. Backward tells it which gradients are final: a
// bucket whose last gradient is written is started at once and moved along while backward goes on.
// All ranks start the same buckets in the same order, a rank without samples all of them at the
// end, so that the number of calls depends on the plan alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "evenstep/communicator.h"
#include "evenstep/session.h"
#include "runtime/gradient_arena.h"
#include "runtime/wire_scale.h"

namespace evenstep {

/// What gradients travel as: all buckets but the last.
enum class Wire { f32, bf16, f16 };

/// The same on all ranks.
struct ReducePlan {
  Overlap overlap = Overlap::off;
  std::vector<std::size_t> bucket_ends;  ///< cut_buckets
  int backward_way = 0;
  Wire wire = Wire::f32;
};

class Reducer {
 public:
  /// `balance` is told which time is spent inside the communicator before finish(), and which of
  /// that in finish() this rank was throttled. `samples`:
  /// that a step's sums are over.
  Reducer(Communicator& communicator, GradientArena& arena, Balance& balance, std::int64_t samples)
      : communicator_(communicator), arena_(arena), balance_(balance), scale_(samples) {}

  /// For the next step. `plan` must stay. Local.
  void begin(const ReducePlan& plan) {
    plan_ = &plan;
    started_ = 0;
    final_ = 0;
  }
  /// Gradients [first, first + count) are final. Starts buckets; local, does not block.
  void ready(std::int64_t first, std::int64_t count);
  /// Moves started buckets along. Local.
  void progress();
  /// The whole arena is final: starts what is left and waits for all. Collective.
  void finish();
  /// After finish: gradients that travelled in 16 bits are fp32 again. False if their sums did not
  /// fit: there are none, in this step. The same on all ranks; local.
  bool unpack();

 private:
  // Elements of the buckets that have been started.
  std::size_t started_end() const { return started_ == 0 ? 0 : plan_->bucket_ends[started_ - 1]; }
  std::span<float> next_bucket() {
    const std::size_t first = started_end();
    return arena_.all().subspan(first, plan_->bucket_ends[started_] - first);
  }
  bool is_packed(std::size_t bucket) const {
    return plan_->wire != Wire::f32 && bucket + 1 < plan_->bucket_ends.size();
  }
  void pack_next();
  void start_next();
  void sum_next();

  Communicator& communicator_;
  GradientArena& arena_;
  Balance& balance_;
  const ReducePlan* plan_ = nullptr;
  WireScale scale_;                                                         // of F16
  std::variant<std::span<float>, std::span<Bf16>, std::span<F16>> packed_;  // the next bucket
  std::size_t started_ = 0;                                                 // buckets
  std::size_t final_ = 0;  // elements, from the first on
};

}  // namespace evenstep
