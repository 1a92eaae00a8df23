#include "runtime/traps.h"

#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/trap_table.h"

namespace pinprick::runtime {
namespace {

constexpr size_t kFirstSize = 10;

std::atomic<const TrapTable*> current;
struct sigaction program_action;

// A signal handler may be looking at any of them.
std::vector<std::unique_ptr<TrapTable>>& tables() {
  static auto* const all = new std::vector<std::unique_ptr<TrapTable>>;
  return *all;
}

Address continuation_of(Address trap) {
  const TrapTable* table = current.load(std::memory_order_acquire);
  return table == nullptr ? 0 : table->get(trap);
}

constexpr int kFaults[] = {SIGTRAP, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGSYS};

// Those that come from outside, also the ones that libc keeps to itself: with a frame on the stack
// that lies behind a breakpoint's first byte, within an instruction, nobody could unwind, nor be
// cancelled. They come when the thread is in the stub.
sigset_t held_back() {
  sigset_t all;
  std::memset(&all, 0xff, sizeof all);
  for (int fault : kFaults) ::sigdelset(&all, fault);
  return all;
}

void pass_on(int signal, siginfo_t* info, void* context) {
  ::pthread_sigmask(SIG_SETMASK, &static_cast<ucontext_t*>(context)->uc_sigmask, nullptr);
  const struct sigaction& action = program_action;
  if ((action.sa_flags & SA_SIGINFO) != 0) return action.sa_sigaction(signal, info, context);
  if (action.sa_handler == SIG_IGN && info->si_code <= 0) return;  // sent by a process
  if (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN)
    return action.sa_handler(signal);
  // As without us: the process ends by it. A breakpoint is met again, a signal is sent again.
  struct sigaction by_default = {};
  by_default.sa_handler = SIG_DFL;
  ::sigaction(SIGTRAP, &by_default, nullptr);
  auto& ip = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
  if (info->si_code == SI_KERNEL)
    ip -= 1;
  else
    ::raise(SIGTRAP);
}

void on_trap(int signal, siginfo_t* info, void* context) {
  constexpr uint8_t kBreakpoint = 0xcc;
  if (info->si_code != SI_KERNEL) return pass_on(signal, info, context);
  auto& ip = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
  const Address trap = static_cast<Address>(ip) - 1;
  Address to = continuation_of(trap);
  if (to == 0) {
    // It was ours, and is gone; or it came to be in this moment; or it is not ours.
    if (*reinterpret_cast<const volatile uint8_t*>(trap) != kBreakpoint) to = trap;
    if (to == 0) to = continuation_of(trap);
    if (to == 0) return pass_on(signal, info, context);
  }
  ip = static_cast<greg_t>(to);
}

}  // namespace

void set_continuation(Address trap, Address continuation) {
  auto& all = tables();
  TrapTable* table = all.empty() ? nullptr : all.back().get();
  if (table == nullptr || table->is_full()) {
    auto larger = std::make_unique<TrapTable>(kFirstSize + all.size());
    if (table != nullptr)
      table->for_each([&](Address key, const std::atomic<Address>& to) {
        larger->set(key, to.load(std::memory_order_relaxed));
      });
    all.push_back(std::move(larger));
    table = all.back().get();
    current.store(table, std::memory_order_release);
  }
  table->set(trap, continuation);
}

void forget_continuations(Range code) {
  if (tables().empty()) return;
  tables().back()->for_each([&](Address key, std::atomic<Address>& to) {
    if (code.contains(key)) to.store(0, std::memory_order_relaxed);
  });
}

Result<void, SystemError> take_trap_signal() {
  struct sigaction now = {};
  if (::sigaction(SIGTRAP, nullptr, &now) != 0) return fail(SystemError{errno});
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == &on_trap) return {};
  program_action = now;
  struct sigaction ours = {};
  ours.sa_sigaction = &on_trap;
  // What the program's handler does may hit a breakpoint, too.
  ours.sa_mask = held_back();
  ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART | SA_ONSTACK;
  if (::sigaction(SIGTRAP, &ours, nullptr) != 0) return fail(SystemError{errno});
  return {};
}

}  // namespace pinprick::runtime
