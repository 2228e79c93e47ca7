#include "common/system_calls.h"

#if defined(__linux__) && defined(__x86_64__)
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#endif

namespace evenstep::system_calls {

#if defined(__linux__) && defined(__x86_64__)
namespace {

constexpr int set_dispatch = 59;  // PR_SET_SYSCALL_USER_DISPATCH; not in every libc's headers
constexpr unsigned long dispatch_off = 0;
constexpr unsigned long dispatch_on = 1;
constexpr char allow = 0;
constexpr char block = 1;

struct State {
  volatile char selector = allow;  // the kernel reads it at each system call
  bool aside = false;
  Counts counts;
};
thread_local State state;

void count(long number) {
  if (state.aside) {
    ++state.counts.set_aside;
  } else if (number == SYS_sched_yield || number == SYS_nanosleep ||
             number == SYS_clock_nanosleep) {
    ++state.counts.waiting;
  } else {
    ++state.counts.own;
    state.counts.last_own = number;
  }
}

// A new thread or process begins right behind the instruction: that cannot be done from here. It is
// let through, and nothing is counted any more.
bool splits(long number) {
  return number == SYS_clone || number == SYS_clone3 || number == SYS_fork || number == SYS_vfork;
}

void on_system_call(int /*signal*/, siginfo_t* /*info*/, void* context) {
  constexpr long instruction_bytes = 2;
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  state.selector = allow;
  const int errno_before = errno;
  const auto number = static_cast<long>(registers[REG_RAX]);
  count(number);
  if (splits(number)) {
    registers[REG_RIP] -= instruction_bytes;
    return;
  }
  const long result = syscall(number, registers[REG_RDI], registers[REG_RSI], registers[REG_RDX],
                              registers[REG_R10], registers[REG_R8], registers[REG_R9]);
  registers[REG_RAX] = result == -1 ? -errno : result;
  errno = errno_before;
  state.selector = block;
}

// Where libc's code returns from a handler: that call must never become a signal itself.
unsigned long return_from_handler() {
  struct KernelAction {
    void* handler;
    unsigned long flags;
    unsigned long restorer;
    unsigned long mask;
  } action{};
  if (syscall(SYS_rt_sigaction, SIGSYS, nullptr, &action, sizeof action.mask) != 0) return 0;
  return action.restorer;
}

}  // namespace

bool start() {
  constexpr unsigned long code_bytes = 16;
  struct sigaction action{};
  action.sa_sigaction = on_system_call;
  action.sa_flags = SA_SIGINFO;
  if (sigaction(SIGSYS, &action, nullptr) != 0) return false;
  state.counts = {};
  state.selector = allow;
  if (prctl(set_dispatch, dispatch_on, return_from_handler(), code_bytes, &state.selector) != 0)
    return false;
  state.selector = block;
  return true;
}

Counts stop() {
  state.selector = allow;  // so that the next call is not counted
  prctl(set_dispatch, dispatch_off, 0, 0, 0);
  return state.counts;
}

void set_aside(bool aside) { state.aside = aside; }

#else

bool start() { return false; }
Counts stop() { return {}; }
void set_aside(bool /*aside*/) {}

#endif

}  // namespace evenstep::system_calls
