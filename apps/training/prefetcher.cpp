#include "training/prefetcher.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "runtime/cpu_time.h"

namespace evenstep::train {

Prefetcher::Prefetcher(Decode decode, std::size_t elements, std::int64_t most_samples)
    : decode_(std::move(decode)), elements_(elements), most_samples_(most_samples) {
  const auto samples = static_cast<std::size_t>(most_samples);
  for (Buffer& buffer : buffers_) {
    buffer.inputs = std::make_unique_for_overwrite<float[]>(samples * elements);
    buffer.labels.resize(samples);
  }
  loader_ = std::thread([this] { loop(); });
}

Prefetcher::~Prefetcher() {
  ends_ = true;
  ++posted_;
  posted_.notify_one();
  loader_.join();
}

void Prefetcher::begin_step(std::int64_t epoch, std::int64_t first, std::int64_t count) {
  if (failed_.load(std::memory_order_acquire)) std::rethrow_exception(failure_);
  const std::int64_t last = posted_.load(std::memory_order_relaxed);
  current_ = last > 0 ? &buffer_of(last) : nullptr;
  const std::int64_t job = last + 1;
  // A loader that has not even left the buffer of two steps ago has enough to do.
  if (finished_.load(std::memory_order_acquire) < job - 2) return;
  Buffer& buffer = buffer_of(job);
  buffer.epoch = epoch;
  buffer.first = first;
  buffer.count = std::min(count, most_samples_);
  buffer.done.store(0, std::memory_order_relaxed);
  posted_.store(job, std::memory_order_release);
  posted_.notify_one();
}

Prefetcher::Sample Prefetcher::find(std::int64_t epoch, std::int64_t position) const {
  if (current_ == nullptr || current_->epoch != epoch) return {};
  const std::int64_t at = position - current_->first;
  if (at < 0 || at >= current_->done.load(std::memory_order_acquire)) return {};
  return {input(*current_, at), current_->labels[static_cast<std::size_t>(at)]};
}

std::int64_t Prefetcher::cpu_ns() const {
  clockid_t clock = 0;
  if (pthread_getcpuclockid(const_cast<std::thread&>(loader_).native_handle(), &clock) != 0)
    return 0;
  return evenstep::cpu_ns(clock);
}

std::span<float> Prefetcher::input(const Buffer& buffer, std::int64_t at) const {
  return {buffer.inputs.get() + static_cast<std::size_t>(at) * elements_, elements_};
}

void Prefetcher::loop() {
  try {
    for (std::int64_t seen = 0;;) {
      posted_.wait(seen, std::memory_order_acquire);
      seen = posted_.load(std::memory_order_acquire);
      if (ends_) return;
      finished_.store(seen - 1, std::memory_order_release);
      decode_all(buffer_of(seen), seen);
      finished_.store(seen, std::memory_order_release);
    }
  } catch (...) {
    failure_ = std::current_exception();
    failed_.store(true, std::memory_order_release);
  }
}

void Prefetcher::decode_all(Buffer& buffer, std::int64_t job) {
  for (std::int64_t at = 0; at < buffer.count; ++at) {
    if (posted_.load(std::memory_order_relaxed) != job) return;
    buffer.labels[static_cast<std::size_t>(at)] =
        decode_(buffer.epoch, buffer.first + at, input(buffer, at));
    buffer.done.store(at + 1, std::memory_order_release);
  }
}

}  // namespace evenstep::train
