#include "library/probes/text_access.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "arch/jump.h"
#include "base/clock.h"
#include "library/api/error.h"
#include "library/process/attached_sessions.h"
#include "library/process/own_ledger.h"
#include "runtime/traps.h"
#include "target/procfs.h"
#include "target/self_target.h"

namespace pinprick::library {
namespace {

using target::TrapObstacle;

constexpr std::string_view kOtherThreads = "and other threads may run the code meanwhile";

// The turn of a thread that a debugger traces; or else, why it has none.
struct TracedTurn {
  std::optional<TextTurn> turn;
  std::string_view why_not;
};

class OnlyThread {
 public:
  explicit OnlyThread(const WhyBreakpoints& why_breakpoints) : why_breakpoints_(why_breakpoints) {}

  // The signals are held before the kernel is asked, as a signal handler might start a thread.
  TracedTurn take() {
    if (!is_asked_) why_ = why_breakpoints_();
    is_asked_ = true;
    if (why_) return {std::nullopt, *why_};
    TextTurn turn = {patch::Order::at_once, HeldSignals()};
    if (!target::is_only_thread()) return {std::nullopt, kOtherThreads};
    return {std::move(turn), {}};
  }

 private:
  const WhyBreakpoints& why_breakpoints_;
  bool is_asked_ = false;
  std::optional<std::string_view> why_;
};

// Looks repeatedly, at short intervals. A thread may block all signals for a moment, as libc does
// while it creates one; in a program that creates threads all the time, there is nearly always one.
// An attached session traces threads for a moment, and passes their signals on. And a thread that
// was joined may not have ended wholly.
//
// Forks wait meanwhile, so the time is limited by the clock. A look at all threads takes a while if
// there are many. So as long as the thread that was found blocks the signal, this looks only at
// that one.
Result<TextTurn, Error> wait_for_turn(const WhyBreakpoints& why_breakpoints) {
  constexpr uint64_t kTimeoutNs = 600'000'000, kPauseNs = 200'000;
  constexpr int kLeastLooks = 10;  // also if this thread hardly runs
  const uint64_t start = monotonic_ns();
  OnlyThread only_thread(why_breakpoints);
  std::optional<TrapObstacle> obstacle = target::trap_obstacle();
  for (int looks = 1; obstacle; ++looks) {
    const bool is_last = looks >= kLeastLooks && monotonic_ns() - start >= kTimeoutNs;
    if (obstacle->kind == TrapObstacle::Kind::tracer) {
      TracedTurn traced = only_thread.take();
      if (traced.turn) return *std::move(traced.turn);
      if (is_last) return fail(error_of(Cause::debugger, {}, traced.why_not));
    } else if (is_last) {
      return fail(error_of(Cause::signal_blocked, {}));
    }
    sleep_ns(kPauseNs);
    const bool still_blocks = obstacle->kind == TrapObstacle::Kind::blocked &&
                              target::blocks_trap_signal(obstacle->thread);
    if (!still_blocks) obstacle = target::trap_obstacle();
  }
  return TextTurn();
}

Error attached_error(pid_t controller, std::string site, std::string_view what) {
  return error_of(Cause::attached, std::move(site),
                  controller == 0 ? fmt::format("pinprick {}", what)
                                  : fmt::format("pinprick {} {}", controller, what));
}

Result<AttachedSessions, Error> look_at_sessions(const target::Memory& memory) {
  const auto sessions = AttachedSessions::look(memory);
  if (!sessions) return fail(system_error(sessions.error()));
  if (const auto unknown = sessions->unknown())
    return fail(
        attached_error(*unknown, {}, "has probes in this process, and nothing is known of them"));
  if (!OwnLedger::get().is_shared())
    if (const auto any = sessions->any())
      return fail(attached_error(*any, {}, "has probes in this process"));
  return *sessions;
}

// Enters the sites, and then looks. `range_of` and `name_of` are of one of them. If a session has
// one, refuse(site, error) returns whether to go on.
template <class Sites, class RangeOf, class NameOf, class Refuse>
Taken enter_and_look(const target::Memory& memory, const Sites& sites, RangeOf&& range_of,
                     NameOf&& name_of, AttachedSessions::Purpose purpose, Refuse&& refuse) {
  OwnLedger& ledger = OwnLedger::get();
  std::vector<std::pair<Range, size_t>> entered;
  for (size_t i = 0; i < sites.size(); ++i) {
    const auto is_new = ledger.enter(sites[i]);
    if (!is_new) return fail(system_error(is_new.error()));
    if (*is_new) entered.emplace_back(range_of(sites[i]), i);
  }
  if (entered.empty()) return std::optional<AttachedSessions>();
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const auto sessions = look_at_sessions(memory);
  if (!sessions) return fail(sessions.error());
  if (const auto owner = sessions->owner_of(ledger.libpinprick(), purpose))
    return fail(attached_error(*owner, {}, "has probes in libpinprick itself"));
  for (const auto& [range, i] : entered) {
    const auto owner = sessions->owner_of(range, purpose);
    if (!owner) continue;
    Error error = attached_error(*owner, name_of(sites[i]), "has a probe there");
    if (!refuse(sites[i], error)) return fail(std::move(error));
  }
  return std::optional(*sessions);
}

}  // namespace

Result<void, Error> may_have_probes() {
  if (const auto status = target::read_status(::getpid()); status && status->shadow_stack)
    return fail(error_of(Cause::refused, {},
                         "this process has a shadow stack, which probes would not keep up with; "
                         "start it with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off"));
  const auto memory = target::Memory::open(::getpid());
  if (!memory) return fail(system_error(memory.error()));
  const auto sessions = look_at_sessions(*memory);
  if (!sessions) return fail(sessions.error());
  return {};
}

Taken take_sites(const target::Memory& memory, std::span<Site* const> sites, SiteErrors* refused) {
  std::vector<std::reference_wrapper<Site>> all;
  for (Site* site : sites) all.emplace_back(*site);
  return enter_and_look(
      memory, all, [](const Site& site) { return describe(site).range(); },
      [](const Site& site) { return site.name; }, AttachedSessions::Purpose::probe,
      [&](Site& site, const Error& error) {
        if (refused != nullptr) refused->emplace_back(&site, error);
        return refused != nullptr;
      });
}

Taken take_sites(const target::Memory& memory, std::span<const PointSite> points) {
  const auto name_of = [](const PointSite& point) {
    return fmt::format("the tracepoint at {:#x}", point.nop);
  };
  auto taken = enter_and_look(
      memory, points,
      [](const PointSite& point) {
        return Range{point.nop, point.nop + arch::kLinkLength};
      },
      name_of, AttachedSessions::Purpose::point,
      [](const PointSite&, const Error&) { return false; });
  if (!taken || !*taken) return taken;
  for (const PointSite& point : points)
    if (const auto owner = (*taken)->owner_around(point.block))
      return fail(attached_error(*owner, name_of(point), "has a probe there"));
  return taken;
}

Result<TextTurn, Error> turn_to_write(const WhyBreakpoints& why_breakpoints) {
  auto turn = wait_for_turn(why_breakpoints);
  if (!turn) return turn;
  // Also if nothing is to trap now: what is written may meet a late thread once the debugger has
  // gone, and the next change may be in steps.
  if (auto taken = runtime::take_trap_signal(); !taken) return fail(system_error(taken.error()));
  return turn;
}

bool could_write_now() {
  const auto obstacle = target::trap_obstacle();
  return !obstacle || (obstacle->kind == TrapObstacle::Kind::tracer && target::is_only_thread());
}

}  // namespace pinprick::library
