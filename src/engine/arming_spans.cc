// Arming: spans. Which points they have, and by what threads are known.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "engine/arming.h"
#include "target/procfs.h"

namespace pinprick::engine {

using target::AttachCause;

// A point that ends a span and begins the same one, or another, ends it first.
void Arming::add_span_actions(size_t probe, arch::StubAction action,
                              std::vector<arch::StubAction>& actions) const {
  for (const bool ends : {true, false})
    for (size_t i = 0; i < set_.spans.size(); ++i) {
      const placement::Span& span = set_.spans[i];
      if ((ends ? span.end : span.start) != set_.probes[probe].match) continue;
      action.what = arch::PassSpan{metric_of(i), layout::span_start_offset(i), ends};
      actions.push_back(action);
    }
}

size_t Arming::span_actions(size_t probe) const {
  const size_t match = set_.probes[probe].match;
  size_t n = 0;
  for (const placement::Span& span : set_.spans) n += (span.start == match) + (span.end == match);
  return n;
}

// In the order of the set's spans.
std::vector<layout::SpanEntry> Arming::span_entries() const {
  std::vector<layout::SpanEntry> entries(set_.spans.size());
  for (uint32_t i = 0; i < set_.probes.size(); ++i)
    for (size_t span = 0; span < entries.size(); ++span) {
      if (set_.spans[span].start == set_.probes[i].match) entries[span].start = i;
      if (set_.spans[span].end == set_.probes[i].match) entries[span].end = i;
    }
  return entries;
}

// Those of which both points have their probes.
std::vector<ArmedProbe> Arming::armed_spans() const {
  std::vector<ArmedProbe> spans;
  const auto is_armed = [&](uint32_t probe) { return armed_[set_.probes[probe].patch]; };
  const auto& entries = session_.journal_.spans;
  for (uint32_t i = 0; i < entries.size(); ++i)
    if (is_armed(entries[i].start) && is_armed(entries[i].end))
      spans.push_back({static_cast<uint32_t>(set_.spans[i].start), i});
  return spans;
}

// All threads have their TID at the same place in their control blocks: that is where glibc or musl
// has it, or the first place where it is for all of them. musl takes it away from a thread that is
// about to end. A thread without a control block begins no span.
Result<void, ledger::SessionError> Arming::note_tid_offset(target::Stop& stop) {
  constexpr size_t kGlibc = 0x2d0, kMusl = 0x30;
  constexpr size_t kMost = 2048;
  std::map<size_t, size_t> holders;  // by offset, for those that none contradicts
  bool is_first = true;
  const pid_t pid = target().pid();
  const bool is_inside = target::tid_inside(pid, pid) == pid;  // we see what the program sees
  for (const auto& thread : stop.threads()) {
    const Address control_block = thread.registers.fs_base;
    if (thread.is_worker() || control_block == 0) continue;
    const auto tid =
        static_cast<uint32_t>(is_inside ? thread.tid : target::tid_inside(pid, thread.tid));
    std::array<uint8_t, kMost> bytes;
    size_t size = bytes.size();
    if (!target().memory().read(control_block, bytes)) {
      size = std::min<size_t>(size, kPageSize - control_block % kPageSize);
      if (!target().memory().read(control_block, std::span(bytes).first(size))) size = 0;
    }
    std::map<size_t, size_t> here;
    for (size_t at = 0; at + sizeof tid <= size; at += sizeof tid) {
      uint32_t word = 0;
      std::memcpy(&word, bytes.data() + at, sizeof word);
      const bool holds = word == tid;
      const bool may_have_held = word == 0 && (at == kGlibc || at == kMusl);
      const auto before = holders.find(at);
      if ((holds || may_have_held) && (is_first || before != holders.end()))
        here[at] = (is_first ? 0 : before->second) + (holds ? 1 : 0);
    }
    holders = std::move(here);
    is_first = false;
  }
  std::erase_if(holders, [](const auto& one) { return one.second == 0; });
  if (holders.empty()) return fail(ledger::SessionError(attach_error(AttachCause::no_thread_ids)));
  const auto offset = static_cast<int64_t>(holders.contains(kGlibc)  ? kGlibc
                                           : holders.contains(kMusl) ? kMusl
                                                                     : holders.begin()->first);
  const Address at = session_.runtime_->context() + offsetof(layout::RuntimeContext, tid_offset);
  if (auto written = target().memory().write_value(at, offset); !written)
    return fail(
        ledger::SessionError(attach_error(AttachCause::memory_refused, written.error().number)));
  return {};
}

}  // namespace pinprick::engine
