#include "runtime/reducer.h"

#include <algorithm>

#include "runtime/elementwise.h"

namespace evenstep {

void Reducer::pack_next() {
  packed_ = {};
  if (plan_->bf16 && started_ + 1 < plan_->bucket_ends.size()) packed_ = compress(next_bucket());
}

void Reducer::start_next() {
  if (packed_.empty())
    communicator_.start_sum(next_bucket());
  else
    communicator_.start_sum(packed_);
  ++started_;
}

void Reducer::sum_next() {
  if (packed_.empty())
    communicator_.sum(next_bucket());
  else
    communicator_.sum(packed_);
  ++started_;
}

void Reducer::ready(std::int64_t first, std::int64_t count) {
  if (plan_->overlap == Overlap::off) return;
  if (static_cast<std::size_t>(first) <= final_)
    final_ = std::max(final_, static_cast<std::size_t>(first + count));
  const bool idle = started_ == 0;
  // The last bucket waits for the tail.
  while (started_ + 1 < plan_->bucket_ends.size() && plan_->bucket_ends[started_] <= final_) {
    pack_next();
    balance_.begin_call();
    start_next();
    balance_.end_call();
  }
  if (plan_->overlap == Overlap::tests) progress();
  if (plan_->overlap == Overlap::thread && idle && started_ > 0)
    communicator_.progress_in_background();
}

void Reducer::progress() {
  if (started_ == 0) return;
  balance_.begin_call();
  communicator_.progress();
  balance_.end_call();
}

void Reducer::finish() {
  while (started_ < plan_->bucket_ends.size()) {
    pack_next();
    if (plan_->overlap == Overlap::off)
      sum_next();
    else
      start_next();
  }
  if (plan_->overlap != Overlap::off) communicator_.wait();
  started_ = 0;
}

void Reducer::unpack() {
  if (!plan_->bf16) return;
  for (; started_ + 1 < plan_->bucket_ends.size(); ++started_) expand(next_bucket());
  started_ = 0;
}

}  // namespace evenstep
