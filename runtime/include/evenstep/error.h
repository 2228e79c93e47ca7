// How errors travel. Every message says what is wrong, with both values and the way out; programs
// print it once, as a line that begins with "error: ", and end with exit_code().
#pragma once

#include <stdexcept>
#include <string>

namespace evenstep {

/// Known to the rank that throws it, maybe to no other. During set-up, wrap what may throw in
/// agree_on_errors (communicator.h), so that all ranks end together; in a training loop, print it
/// and abort the communicator.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, int exit_code = 1)
      : std::runtime_error(message), exit_code_(exit_code) {}
  /// 1: a failure; 2: wrong use.
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

/// Wrong options or arguments.
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message) : Error(message, 2) {}
};

/// Thrown by all ranks at the same point, with the same text: rank 0 prints it, and every rank can
/// leave in good order.
class AgreedError : public Error {
 public:
  using Error::Error;
};

}  // namespace evenstep
