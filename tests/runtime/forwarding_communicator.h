// A communicator that hands everything on to another: for tests that change a part of it.
#pragma once

#include <memory>
#include <utility>

#include "evenstep/communicator.h"

namespace evenstep {

class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& host() const override { return inner_->host(); }
  void start_sum(std::span<float> values) override { inner_->start_sum(values); }
  void start_sum(std::span<Bf16> values) override { inner_->start_sum(values); }
  void start_sum(std::span<F16> values) override { inner_->start_sum(values); }
  bool progress() override { return inner_->progress(); }
  void wait() override { inner_->wait(); }
  std::vector<std::string> gather(const std::string& mine) override { return inner_->gather(mine); }
  void abort(int exit_code) override { inner_->abort(exit_code); }
  std::int64_t sum_calls() const override { return inner_->sum_calls(); }

 private:
  std::unique_ptr<Communicator> inner_;
};

}  // namespace evenstep
