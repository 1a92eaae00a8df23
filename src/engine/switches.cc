#include "engine/switches.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "arch/jump.h"
#include "patch/text_edit.h"
#include "target/stop.h"

namespace pinprick::engine {
namespace {

bool is_in_stubs(const layout::Session& journal, Address begin, uint64_t length) {
  return std::any_of(journal.mappings.begin(), journal.mappings.end(),
                     [&](const layout::MappingEntry& mapping) {
                       return mapping.kind == layout::MappingEntry::Kind::stubs &&
                              mapping.progress == layout::MappingEntry::Progress::mapped &&
                              mapping.size >= length && begin >= mapping.address &&
                              begin - mapping.address <= mapping.size - length;
                     });
}

// Returns nullopt if the probe has no switch. The file of a trusted owner may still be damaged, so
// nothing outside its own stubs is written.
std::optional<patch::TextEdit> edit_for(const layout::Session& journal, uint32_t probe,
                                        Switched to) {
  if (probe >= journal.switches.size()) return std::nullopt;
  const layout::SwitchEntry& entry = journal.switches[probe];
  const layout::SiteEntry& site = journal.sites[journal.probes[probe].site];
  if (site.copy_distance == 0 || !site.is_in_text() || entry.at == entry.past) return std::nullopt;
  const auto from_copy = [&](int32_t distance) {
    return site.copy() + static_cast<uint64_t>(int64_t{distance});
  };
  const Address at = from_copy(entry.at);
  const auto on = arch::encode_link(at, 0);
  const auto off = arch::encode_link(at, from_copy(entry.past));
  if (!on || !off || !is_in_stubs(journal, at, arch::kLinkLength)) return std::nullopt;
  const bool turns_on = to == Switched::on;
  patch::TextEdit edit;
  edit.address = at;
  edit.length = arch::kLinkLength;
  std::copy(on->begin(), on->end(), turns_on ? edit.after : edit.before);
  std::copy(off->begin(), off->end(), turns_on ? edit.before : edit.after);
  return edit;
}

// Probes that time one call have one switch in common, and follow each other. It is turned only for
// all of them.
bool is_alone_or_with_all(const layout::Session& journal, const std::vector<bool>& named,
                          size_t probe) {
  const auto has_same_switch = [&](size_t other) {
    return journal.probes[other].site == journal.probes[probe].site &&
           journal.switches[other].at == journal.switches[probe].at;
  };
  for (size_t other = probe; other > 0 && has_same_switch(other - 1); --other)
    if (!named[other - 1]) return false;
  for (size_t other = probe + 1; other < named.size() && has_same_switch(other); ++other)
    if (!named[other]) return false;
  return true;
}

}  // namespace

Result<SwitchReport, ledger::SessionError> switch_probes(const target::RemoteTarget& target,
                                                         ledger::SessionFile& file,
                                                         layout::Session& journal,
                                                         std::span<const uint32_t> probes,
                                                         Switched to) {
  using target::AttachCause;
  const auto refused = [&](AttachCause cause, int error = 0) {
    return fail(ledger::SessionError(target::AttachError{cause, target.pid(), 0, error, {}}));
  };
  SwitchReport report;
  std::vector<patch::TextEdit> edits;
  std::vector<uint32_t> probe_of;
  edits.reserve(probes.size());
  probe_of.reserve(probes.size());
  std::vector<bool> named(journal.probes.size());
  for (const uint32_t probe : probes)
    if (probe < named.size()) named[probe] = true;
  for (const uint32_t probe : probes) {
    const auto edit = edit_for(journal, probe, to);
    if (!edit || !is_alone_or_with_all(journal, named, probe)) {
      ++report.unswitched;
      continue;
    }
    edits.push_back(*edit);
    probe_of.push_back(probe);
  }
  if (edits.empty()) return report;
  const patch::WritingOrder order(edits, patch::PhaseOrder::upward);
  auto stop = target::Stop::all_threads(target.pid());
  if (!stop) return fail(ledger::SessionError(stop.error()));
  if (!target.same_image()) return refused(target.why_gone());
  const auto outcomes = patch::apply(*stop, target.memory(), edits, order, {});
  report.stopped_ns = std::move(*stop).resume();
  if (!outcomes) return refused(AttachCause::memory_refused, outcomes.error().number);
  for (size_t i = 0; i < edits.size(); ++i) {
    using patch::EditOutcome;
    const EditOutcome outcome = (*outcomes)[i];
    if (outcome != EditOutcome::written && outcome != EditOutcome::already) {
      ++report.unswitched;
      continue;
    }
    if (outcome == EditOutcome::written) ++report.changed;
    journal.switches[probe_of[i]].is_on = to == Switched::on ? 1 : 0;
  }
  if (report.unswitched == probes.size()) return report;
  if (auto written = file.write_tables(journal); !written)
    return fail(ledger::SessionError(written.error()));
  return report;
}

}  // namespace pinprick::engine
