#include "runtime/reducer.h"

#include <algorithm>

#include "runtime/half_precision.h"

namespace evenstep {

void Reducer::pack_next() {
  const std::span<float> bucket = next_bucket();
  if (!is_packed(started_))
    packed_ = bucket;
  else if (plan_->wire == Wire::bf16)
    packed_ = compress<Bf16>(bucket, 1);
  else
    packed_ = compress<F16>(bucket, scale_.factor());
}

void Reducer::start_next() {
  std::visit([this](auto values) { communicator_.start_sum(values); }, packed_);
  ++started_;
}

void Reducer::sum_next() {
  std::visit([this](auto values) { communicator_.sum(values); }, packed_);
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
  const std::int64_t throttled_before = communicator_.throttled_ns();
  while (started_ < plan_->bucket_ends.size()) {
    pack_next();
    if (plan_->overlap == Overlap::off)
      sum_next();
    else
      start_next();
  }
  if (plan_->overlap != Overlap::off) communicator_.wait();
  balance_.charge(communicator_.throttled_ns() - throttled_before);
  started_ = 0;
}

bool Reducer::unpack() {
  float largest = 0;
  for (; is_packed(started_); ++started_) {
    if (plan_->wire == Wire::bf16)
      expand<Bf16>(next_bucket(), 1);
    else
      largest = std::max(largest, expand<F16>(next_bucket(), scale_.inverse()));
  }
  started_ = 0;
  return plan_->wire != Wire::f16 || scale_.fits(largest);
}

}  // namespace evenstep
