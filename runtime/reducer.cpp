#include "runtime/reducer.h"

#include <algorithm>

namespace evenstep {

void Reducer::start_up_to(std::size_t end) {
  for (; started_ < plan_->bucket_ends.size() && plan_->bucket_ends[started_] <= end; ++started_)
    communicator_.start_sum(next_bucket());
}

void Reducer::ready(std::int64_t first, std::int64_t count) {
  if (plan_->overlap == Overlap::off) return;
  if (static_cast<std::size_t>(first) <= final_)
    final_ = std::max(final_, static_cast<std::size_t>(first + count));
  balance_.begin_call();
  // The last bucket waits for the tail.
  start_up_to(std::min(final_, arena_.all().size() - 1));
  if (started_ > 0) communicator_.progress();
  balance_.end_call();
}

void Reducer::progress() {
  if (started_ == 0) return;
  balance_.begin_call();
  communicator_.progress();
  balance_.end_call();
}

void Reducer::finish() {
  if (plan_->overlap == Overlap::off) {
    for (; started_ < plan_->bucket_ends.size(); ++started_) communicator_.sum(next_bucket());
  } else {
    start_up_to(arena_.all().size());
    communicator_.wait();
  }
  started_ = 0;
}

}  // namespace evenstep
