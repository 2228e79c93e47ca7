#include "evenstep/communicator.h"

namespace evenstep {

void agree_on_errors(Communicator& communicator, const std::function<void()>& action) {
  // One byte of exit code, then the text; empty: it went well.
  std::string mine;
  try {
    action();
  } catch (const AgreedError&) {
    throw;  // all ranks are here
  } catch (const Error& error) {
    mine = static_cast<char>(error.exit_code()) + std::string(error.what());
  } catch (const std::exception& error) {
    mine = static_cast<char>(1) + std::string(error.what());
  }
  for (const std::string& outcome : communicator.gather(mine))
    if (!outcome.empty()) throw AgreedError(outcome.substr(1), outcome[0]);
}

}  // namespace evenstep
