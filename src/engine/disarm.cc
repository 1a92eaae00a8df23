#include "engine/disarm.h"
#include "engine/calls/slot_use.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "arch/stub.h"
#include "base/clock.h"
#include "engine/calls/open_calls.h"
#include "engine/failures.h"
#include "engine/forked_session.h"
#include "engine/memory/kept_memory.h"
#include "engine/memory/mapping_script.h"
#include "engine/memory/region_admission.h"
#include "engine/memory/remote_calls.h"
#include "engine/owners/ownership.h"
#include "engine/owners/shared_sites.h"
#include "engine/text/redirect.h"
#include "engine/text/restoring.h"
#include "engine/text/semaphores.h"
#include "layout/runtime_data.h"
#include "ledger/turn.h"
#include "patch/thread_stacks.h"
#include "placement/hooks.h"
#include "runtime/image.h"
#include "target/procfs.h"

namespace pinprick::engine {
namespace {

using layout::MappingEntry;

bool contains(const std::vector<Range>& ranges, Address address) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](Range range) { return range.contains(address); });
}

// Which threads are in our code or will return there.
struct Presence {
  std::vector<image::Mapping> maps;
  std::vector<Range> code;  // mapped, executable, ours
  SlotUse slots;
  std::vector<OpenCallEntry> open_calls;
  EndedThreads ended;  // refers to what is in `maps`
  size_t threads_inside = 0;
};

// Is the thread in an unwinder that may have passed a slot? Then it knows where the slot's return
// address lies, and will look there again. Such a thread has a function of the unwinder on its
// stack, below a call that returns to a slot. In between may be more such calls, of functions that
// the unwinder calls in turn, a personality routine for example. A stale word that a finished call
// left on the stack looks the same; then we wait in vain.
//
// A program that steps by itself (unw_step) holds what the unwinder has learned between its steps.
// LLVM's unwinder then holds, for a slot, the end of the range that its tables cover. Other
// unwinders leave pointers into their own library on the stack.
//
// A signal handler may have interrupted the unwinder.
bool unwinds(const target::StoppedThread& thread, const patch::ThreadStacks& stacks,
             const target::Memory& memory, const placement::UnwinderCode& unwinders,
             const SlotUse& use) {
  if (unwinders.ranges.empty() && !unwinders.has_llvm_inside) return false;
  std::vector<Range> below;  // of each stack: up to its oldest slot
  for (const Range words : stacks.words) {
    Address oldest = 0;
    for (size_t i : use.waiting)
      if (words.contains(use.slots[i].stack)) oldest = std::max(oldest, use.slots[i].stack);
    if (oldest != 0) below.push_back({words.begin, oldest});
  }
  // An unwinder that is about to enter a slot's frame has overwritten the words that identify it.
  if (contains(unwinders.ranges, thread.instruction_pointer()) ||
      patch::signal_returns_to(stacks, unwinders.ranges))
    return !below.empty() || use.abandoned != 0;
  // From the end of the slots that were ever used to the end of all slots.
  const auto code_of = [&](uint64_t slot) { return use.first_code() + slot * arch::kSlotCodeSize; };
  std::vector<Range> known = unwinders.ranges;
  if (unwinders.has_llvm_inside)
    known.push_back({code_of(use.slots.size()), code_of(use.room) + 1});
  return std::any_of(below.begin(), below.end(),
                     [&](Range words) { return patch::leads_to(memory, words, known); });
}

Result<Presence, SystemError> look_around(target::Stop& stop, const target::RemoteTarget& target,
                                          const ledger::SessionFile& file,
                                          const layout::Session& journal, const OtherSites& others,
                                          const std::vector<Address>& sent_to_others,
                                          const placement::UnwinderCode& unwinders,
                                          uint64_t ns_multiplier) {
  Presence presence;
  auto maps = image::read_maps(target.pid());
  if (!maps) return fail(maps.error());  // which does not mean that nothing is mapped
  presence.maps = *std::move(maps);
  std::vector<Range> called;  // return addresses of calls that our code makes to the program's
  for (const MappingEntry& entry : journal.mappings) {
    if (!is_ours(target.memory(), entry, presence.maps, file)) continue;
    if (entry.kind == MappingEntry::Kind::runtime_code) {
      const Address at = runtime::resumed_at(entry.address);
      called.push_back({at, at + 1});
    }
    if (entry.kind == MappingEntry::Kind::runtime_data) {
      presence.slots =
          look_at_slots(target.memory(), entry, others.slots(), others.program().slots());
      presence.open_calls = open_calls(target.memory(), entry);
    }
    if (!layout::is_code(entry.kind)) continue;
    presence.code.push_back({entry.address, entry.address + entry.size});
  }
  for (const layout::SiteEntry& site : journal.sites) {
    if (site.phase != layout::SiteEntry::Phase::unwinder_hook) continue;
    // A hook that lists objects calls the hooked function, and afterwards clears the return address
    // that the call has left on the stack.
    const Address hook = site.target();
    const Address copy = site.address + static_cast<uint64_t>(int64_t{site.copy_distance});
    if (contains(presence.code, hook) && hook < copy) called.push_back({hook, copy});
  }
  // A thread in another session's code may be working on the return address of a slot of ours.
  // Where we have sent threads, they execute the program's instructions.
  const auto takes_over = [&](const target::StoppedThread& thread) {
    return contains(others.code(), thread.instruction_pointer()) &&
           std::find(sent_to_others.begin(), sent_to_others.end(), thread.instruction_pointer()) ==
               sent_to_others.end() &&
           has_slot_code(presence.slots, words_at_hand(thread, target.memory()));
  };
  const auto is_inside = [&](const target::StoppedThread& thread) {
    if (contains(presence.code, thread.instruction_pointer()) || takes_over(thread)) return true;
    const auto stacks = patch::read_stacks(presence.maps, target.memory(), thread);
    if (patch::signal_returns_to(stacks, presence.code) ||
        unwinds(thread, stacks, target.memory(), unwinders, presence.slots))
      return true;
    return !called.empty() &&
           std::any_of(stacks.words.begin(), stacks.words.end(), [&](Range words) {
             return patch::leads_to(target.memory(), words, called);
           });
  };
  presence.ended = {target.pid(), stop.threads(), presence.maps, target.memory(), ns_multiplier};
  take_ended(presence.slots, presence.ended);
  for (const auto& thread : stop.threads()) {
    if (!is_inside(thread)) continue;
    ++presence.threads_inside;
    leave_out_slots_at_hand(presence.slots, words_at_hand(thread, target.memory()));
  }
  return presence;
}

Result<void, ledger::SessionError> unmap(const target::RemoteTarget& target,
                                         const image::ProcessImage& image,
                                         ledger::SessionFile& file, layout::Session& journal,
                                         const std::vector<image::Mapping>& maps,
                                         const KeptMemory& kept) {
  const auto descriptors = our_descriptors(target, journal, maps, file);
  std::vector<MappingEntry> mapped;
  for (const MappingEntry& entry : journal.mappings)
    if (is_ours(target.memory(), entry, maps, file)) mapped.push_back(entry);
  if (descriptors.empty() && mapped.empty()) return {};
  const std::vector<Range> parts = ranges_to_unmap(mapped, kept);

  const auto work = [&](target::HijackedThread& thread) -> Result<void, ledger::SessionError> {
    // Only the slots say which of them have to stay. If we die when some of that is unmapped, a
    // later controller leaves all of it alone.
    if (kept.slot_bytes != 0) {
      for (MappingEntry& entry : journal.mappings)
        if (entry.kind == MappingEntry::Kind::runtime_data ||
            entry.kind == MappingEntry::Kind::runtime_code)
          entry.progress = MappingEntry::Progress::none;
      if (auto written = noted(file.write_mappings(journal)); !written) return written;
    }
    for (int descriptor : descriptors)
      static_cast<void>(thread.call(SYS_close, static_cast<uint64_t>(descriptor)));
    for (Range part : parts) {
      auto unmapped = thread.call(SYS_munmap, part.begin, part.size());
      if (!unmapped)
        return fail(ledger::SessionError(target::AttachError{target::AttachCause::call_refused,
                                                             target.pid(), 0,
                                                             unmapped.error().number, "munmap"}));
    }
    for (Range range : kept.unused)
      static_cast<void>(thread.call(SYS_madvise, range.begin, range.size(), MADV_DONTNEED));
    // A file that stays, as a child still has the probes, would claim what the program maps there.
    for (MappingEntry& entry : journal.mappings) entry.progress = MappingEntry::Progress::none;
    return noted(file.write_mappings(journal));
  };
  return with_hijacked_thread(target, image, file, journal, work);
}

// Has the session done nothing yet that would have to be undone?
bool has_done_nothing(const layout::Session& journal) {
  return journal.header.state == layout::SessionState::preparing &&
         journal.header.hijack.active == 0 &&
         std::all_of(journal.mappings.begin(), journal.mappings.end(),
                     [](const MappingEntry& entry) {
                       return entry.progress == MappingEntry::Progress::none;
                     });
}

// Stops the process. Fails if it has executed another program: that text is none of ours.
Result<target::Stop, ledger::SessionError> stop_program(const target::RemoteTarget& target) {
  auto stopped = target::Stop::all_threads(target.pid());
  if (!stopped) return fail(ledger::SessionError(stopped.error()));
  if (!target.same_image())
    return fail(
        ledger::SessionError(target::AttachError{target.why_gone(), target.pid(), 0, 0, {}}));
  return *std::move(stopped);
}

bool is_filtered(const ledger::SessionError& error) {
  const auto* attach = std::get_if<target::AttachError>(&error);
  return attach != nullptr && (attach->cause == target::AttachCause::seccomp ||
                               attach->cause == target::AttachCause::seccomp_deadly ||
                               attach->cause == target::AttachCause::user_dispatch);
}

}  // namespace

DisarmReport& DisarmReport::operator+=(const DisarmReport& other) {
  restored += other.restored;
  foreign += other.foreign;
  foreign_held += other.foreign_held;
  gone += other.gone;
  released += other.released;
  threads_inside = std::max(threads_inside, other.threads_inside);  // the same threads
  calls_abandoned += other.calls_abandoned;
  calls_ended += other.calls_ended;
  kept_slot_bytes += other.kept_slot_bytes;
  kept_stub_bytes += other.kept_stub_bytes;
  is_filtered = is_filtered || other.is_filtered;
  memory_left = memory_left || other.memory_left;
  hooks_left = hooks_left || other.hooks_left;
  target_gone = target_gone || other.target_gone;
  replaced = replaced || other.replaced;
  stopped_ns += other.stopped_ns;
  forked += other.forked;
  forked_left += other.forked_left;
  return *this;
}

namespace {

// Takes back what a controller prepares before the file is mapped. Nothing else of what the journal
// says is looked at.
Result<DisarmReport, ledger::SessionError> take_back_preparations(
    target::Stop stop, const target::RemoteTarget& target, const image::ProcessImage& image,
    ledger::SessionFile& file, layout::Session journal, const std::vector<image::Mapping>& maps) {
  undo_hijack(stop, target, file, journal);
  for (MappingEntry& entry : journal.mappings)
    if (entry.kind != MappingEntry::Kind::scratch) entry.progress = MappingEntry::Progress::none;
  DisarmReport report;
  report.target_gone = journal.header.state != layout::SessionState::preparing;
  report.stopped_ns = std::move(stop).resume();
  // One that was killed while it was stopped has no mappings either.
  report.replaced = report.target_gone && target.runs_another();
  if (report.target_gone) return report;
  if (auto unmapped = unmap(target, image, file, journal, maps, {}); !unmapped)
    return fail(unmapped.error());
  return report;
}

void forbid_regions_of(const target::Memory& memory, const layout::Session& journal,
                       const std::vector<image::Mapping>& maps, const ledger::SessionFile& file) {
  for (const MappingEntry& entry : journal.mappings)
    if (entry.kind == MappingEntry::Kind::runtime_data && is_ours(memory, entry, maps, file))
      forbid_regions(memory, regions_in(entry));
}

Result<DisarmReport, ledger::SessionError> take_out(const target::RemoteTarget& target,
                                                    const image::ProcessImage& image,
                                                    ledger::SessionFile& file,
                                                    layout::Session& journal, uint64_t timeout_ns,
                                                    Armed armed) {
  DisarmReport report;
  if (has_done_nothing(journal)) return report;
  const bool has_hooks =
      std::any_of(journal.sites.begin(), journal.sites.end(), [](const layout::SiteEntry& site) {
        return site.phase == layout::SiteEntry::Phase::unwinder_hook;
      });
  const OtherSites others = OtherSites::find(target.pid(), target.memory(), file.path());
  Restoring text(target, image, journal, others, armed);
  const bool has_slots = std::any_of(
      journal.mappings.begin(), journal.mappings.end(),
      [](const MappingEntry& entry) { return entry.kind == MappingEntry::Kind::runtime_data; });
  const auto unwinders = has_hooks && has_slots
                             ? placement::unwinder_code(image, placement::Search::by_code)
                             : placement::UnwinderCode();
  const uint64_t multiplier = has_slots ? ns_multiplier() : 0;  // before the stop: it may wait
  const auto refused = [&](const SystemError& error) {
    return fail(ledger::SessionError(target::AttachError{
        target::AttachCause::memory_refused, target.pid(), 0, error.number, {}}));
  };
  auto stopped = stop_program(target);
  if (!stopped) return fail(stopped.error());
  std::optional<target::Stop> stop(*std::move(stopped));
  const auto there = image::read_maps(target.pid());
  if (!there) return refused(there.error());
  if (!has_any_of_file(*there, journal, file))
    return take_back_preparations(*std::move(stop), target, image, file, journal, *there);
  file.write_controller_gone(journal);
  if (auto lowered = lower_semaphores(target, file, journal); !lowered)
    return fail(lowered.error());
  undo_hijack(*stop, target, file, journal);
  note_results_of_script(target.memory(), journal, *there, file);

  // No thread enters any more. A thread that is in a stub now leaves it as soon as it has run for a
  // moment, which takes longer the busier this machine is. Threads are not single-stepped out:
  // if we died, the SIGTRAP of the step would be delivered to the program.
  constexpr uint64_t kLongestPauseNs = 16'000'000;
  uint64_t pause_ns = 250'000;
  uint64_t waited_ns = 0;
  Presence presence;
  std::vector<Address> sent_to_others;
  OpenCallCount open_count(journal);
  const auto note_disarmed = [&]() -> Result<void, ledger::SessionError> {
    if (journal.header.state == layout::SessionState::disarmed) return {};
    journal.header.state = layout::SessionState::disarmed;
    if (auto written = file.write_header(journal.header); !written)
      return fail(ledger::SessionError(written.error()));
    return {};
  };
  const auto note_never_returned = [&] {
    report.threads_inside = presence.threads_inside;
    auto& [abandoned, ended] = report.never_returned;
    report.never_returned = calls_never_returned(target.memory(), presence.slots, file, journal);
    for (size_t i = 0; i < std::min(abandoned.size(), open_count.left().size()); ++i) {
      abandoned[i] += open_count.left()[i];
      ended[i] += open_count.ended()[i];
    }
    report.released = open_count.in_flight();
    report.calls_abandoned = std::accumulate(abandoned.begin(), abandoned.end(), uint64_t{0});
    report.calls_ended = std::accumulate(ended.begin(), ended.end(), uint64_t{0});
  };
  // The hooks that protect such reading are taken out with the probes.
  if (journal.header.has_unread != 0) forbid_regions_of(target.memory(), journal, *there, file);
  if (auto led = text.lead_around(*stop); !led) return refused(led.error());
  for (;;) {
    if (!text.probes_done())
      if (auto restored = text.restore(*stop, report); !restored) return refused(restored.error());
    const uint64_t restored_ns = monotonic_ns();
    if (text.done())
      if (auto noted = note_disarmed(); !noted) return fail(noted.error());
    // Not before: the original instructions of a copy are read from the text.
    if (text.probes_done()) {
      const auto sent = redirect_threads(*stop, target.memory(), journal, others);
      sent_to_others.insert(sent_to_others.end(), sent.begin(), sent.end());
    }
    auto seen =
        look_around(*stop, target, file, journal, others, sent_to_others, unwinders, multiplier);
    if (!seen) return refused(seen.error());
    presence = *std::move(seen);
    open_count.take(target.memory(), stop->threads(), presence.code, others.code(),
                    presence.open_calls, presence.ended);
    if (!text.probes_done()) ++presence.threads_inside;
    if (presence.threads_inside == 0 || waited_ns >= timeout_ns) break;
    // The process runs for at least as long as a look took: with millions of sites that is a while.
    // Writing the text took longer, but once. Resuming does not count: a thread that runs again may
    // take this processor from us.
    const uint64_t pause = std::max(pause_ns, monotonic_ns() - restored_ns);
    report.stopped_ns += std::move(*stop).resume();
    stop.reset();
    sleep_ns(pause);
    waited_ns += pause;
    pause_ns = std::min(pause_ns * 2, kLongestPauseNs);
    auto again = stop_program(target);
    if (!again) {
      // It runs, and where its threads are is unknown by now: the rest waits for a later detach.
      note_never_returned();
      report.memory_left = true;
      report.hooks_left = !text.hooks_done();
      return report;
    }
    stop.emplace(*std::move(again));
  }
  note_never_returned();
  report.memory_left = presence.threads_inside != 0;
  // Not while a thread may be on the way from a slot to its return address. Without slots, the
  // text comes first: a thread that stays in a stub can then no longer be unwound.
  if (report.threads_inside == 0 || !has_slots) {
    report.released += release_calls(target.memory(), presence.slots);
    if (auto restored = text.restore_hooks(*stop, report); !restored)
      return refused(restored.error());
    if (!text.done())
      report.memory_left = true;
    else if (auto noted = note_disarmed(); !noted)
      return fail(noted.error());
  }
  report.hooks_left = !text.hooks_done();
  std::optional<KeptMemory> kept;
  if (!report.memory_left) {
    auto probes = presence.code;
    probes.insert(probes.end(), others.code().begin(), others.code().end());
    auto needed = keep_what_is_needed(target.memory(), journal, presence.slots, presence.maps,
                                      {.own = presence.code, .all = probes});
    if (!needed) return refused(needed.error());
    kept = *std::move(needed);
  }
  // No thread is in the memory that is unmapped now, no stack leads there, and neither does the
  // text any more. So no thread can get there meanwhile, and none has to be stopped.
  report.stopped_ns += std::move(*stop).resume();
  stop.reset();
  if (kept) {
    auto unmapped = unmap(target, image, file, journal, presence.maps, *kept);
    report.is_filtered = report.memory_left = !unmapped && is_filtered(unmapped.error());
    if (!unmapped && !report.is_filtered) return fail(unmapped.error());
    if (unmapped) {
      mark_kept(target.memory(), *kept);
      report.kept_slot_bytes = kept->slot_bytes;
      report.kept_stub_bytes = kept->stub_bytes;
    }
  }
  return report;
}

}  // namespace

// If the process has ended or runs another program, nothing has to be undone, whatever failed.
Result<DisarmReport, ledger::SessionError> disarm(const target::RemoteTarget& target,
                                                  const image::ProcessImage& image,
                                                  ledger::SessionFile& file,
                                                  layout::Session& journal, uint64_t timeout_ns,
                                                  Armed armed) {
  const bool was_over = target.has_exited() || !target.same_image();
  if (!was_over) {
    const auto turn = ledger::Turn::take(target.pid(), ledger::Turn::kLongTimeoutNs);
    if (!turn) return fail(turn.error());
    auto report = take_out(target, image, file, journal, timeout_ns, armed);
    const bool is_done = report && !report->memory_left;
    if (report) take_out_of_forked(file, journal, &image, timeout_ns, *report);
    // By the file, a later detach finds what is left in children.
    if (is_done && report->forked_left == 0) file.remove();
    if (is_done || !target.is_over()) return report;
  }
  DisarmReport report;
  report.target_gone = true;
  report.replaced = target.runs_another();
  take_out_of_forked(file, journal, &image, timeout_ns, report);
  if (report.forked_left == 0) file.remove();
  return report;
}

}  // namespace pinprick::engine
