#include "runtime/traps.h"

#include <signal.h>
#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/trap_table.h"

namespace pinprick::runtime {
namespace {

constexpr size_t kFirstSize = 10;

std::atomic<const TrapTable*> current;

// The handlers that the program has set for the signal, latest first. Each new handler makes a new
// list; signal handlers may be using any of the old ones, so they stay.
struct Former {
  struct sigaction action;
  const Former* earlier;
};
std::atomic<const Former*> program_actions;

// A handler that the program has set after ours may call ours for traps that it does not know, and
// ours may have called that handler. To prevent a loop, a trap is only passed on to ever earlier
// handlers, so each thread notes to which handler it has passed a trap on. The note may be stale if
// that handler has left by siglongjmp, and the next trap's context may be at the same address. It
// applies only if we are called from within that handler, deeper in the stack than the note, which
// the kernel's call is not.
struct Passing {
  const void* context;
  uintptr_t frame;
  const Former* earlier;
};
constinit thread_local Passing passing __attribute__((tls_model("initial-exec"))) = {};

const Former* next_to_ask(const void* context, uintptr_t frame) {
  if (passing.context == context && frame < passing.frame) return passing.earlier;
  return program_actions.load(std::memory_order_acquire);
}

bool is_same(const struct sigaction& a, const struct sigaction& b) {
  return a.sa_sigaction == b.sa_sigaction && a.sa_flags == b.sa_flags;
}

// All tables so far: a signal handler may be looking at any of them.
std::vector<std::unique_ptr<TrapTable>>& tables() {
  static auto* const all = new std::vector<std::unique_ptr<TrapTable>>;
  return *all;
}

constexpr uint8_t kBreakpoint = 0xcc;

uint8_t byte_at(Address address) {
  return *reinterpret_cast<const volatile uint8_t*>(address);
}

// Was there ever a breakpoint of ours?
bool was_ours(Address trap) {
  const TrapTable* table = current.load(std::memory_order_acquire);
  return table != nullptr && table->has(trap);
}

}  // namespace

Address continuation_of(Address trap) {
  const TrapTable* table = current.load(std::memory_order_acquire);
  return table == nullptr ? 0 : table->get(trap);
}

extern "C" {

// Returns the thread's continuation; 0 if the trap is not ours.
__attribute__((visibility("hidden"))) Address pp_trap_target(int, siginfo_t* info, void* context) {
  if (info->si_code != SI_KERNEL) return 0;
  const auto ip = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
  const Address trap = static_cast<Address>(ip) - 1;
  if (const Address to = continuation_of(trap)) return to;
  // It was ours and is gone; or it was set just now; or it is not ours. Then it may be the other
  // instruction that traps like a breakpoint, `int $3` in two bytes, and the thread would continue
  // at the second one.
  if (byte_at(trap) != kBreakpoint) return was_ours(trap) ? trap : 0;
  return continuation_of(trap);
}

__attribute__((visibility("hidden"))) void pp_pass_trap_on(int signal, siginfo_t* info,
                                                           void* context) {
  const auto frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  if (const Former* const next = next_to_ask(context, frame)) {
    const struct sigaction& action = next->action;
    const bool has_handler = (action.sa_flags & SA_SIGINFO) != 0 ||
                             (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
    if (has_handler) {
      const Passing outer = std::exchange(passing, {context, frame, next->earlier});
      if ((action.sa_flags & SA_SIGINFO) != 0)
        action.sa_sigaction(signal, info, context);
      else
        action.sa_handler(signal);
      passing = outer;
      return;
    }
    if (action.sa_handler == SIG_IGN && info->si_code <= 0) return;  // sent by a process
  }
  // As without us, the process is killed: a breakpoint is hit again, other signals are sent again.
  struct sigaction by_default = {};
  by_default.sa_handler = SIG_DFL;
  ::sigaction(SIGTRAP, &by_default, nullptr);
  auto& ip = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
  if (info->si_code == SI_KERNEL && byte_at(static_cast<Address>(ip) - 1) == kBreakpoint)
    ip -= 1;
  else
    ::raise(SIGTRAP);
}

void pp_on_trap(int signal, siginfo_t* info, void* context);  // trap.S
}

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

void forget_continuation(Address trap, Address continuation) {
  if (!tables().empty() && tables().back()->get(trap) == continuation)
    tables().back()->set(trap, 0);
}

// Puts the program's present action first in the list. An action that it sets repeatedly is in the
// list once.
static void note_program_action(const struct sigaction& now) {
  static auto* const all = new std::vector<std::unique_ptr<Former>>;
  std::vector<struct sigaction> actions = {now};
  for (const Former* one = program_actions.load(std::memory_order_relaxed); one != nullptr;
       one = one->earlier)
    if (!is_same(one->action, now)) actions.push_back(one->action);
  const Former* latest = nullptr;
  std::ranges::reverse(actions);
  for (const struct sigaction& action : actions) {
    all->push_back(std::make_unique<Former>(Former{action, latest}));
    latest = all->back().get();
  }
  program_actions.store(latest, std::memory_order_release);
}

Result<void, SystemError> take_trap_signal() {
  struct sigaction now = {};
  if (::sigaction(SIGTRAP, nullptr, &now) != 0) return fail(SystemError{errno});
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == &pp_on_trap) return {};
  note_program_action(now);
  struct sigaction ours = {};
  ours.sa_sigaction = &pp_on_trap;
  // SA_NODEFER, as the program's handler may hit a breakpoint, too.
  ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART | SA_ONSTACK;
  if (::sigaction(SIGTRAP, &ours, nullptr) != 0) return fail(SystemError{errno});
  return {};
}

}  // namespace pinprick::runtime
