#include "engine/text/semaphores.h"

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "engine/failures.h"
#include "engine/memory/remote_calls.h"
#include "engine/owners/ownership.h"
#include "engine/owners/shared_sites.h"
#include "engine/text/point_sites.h"
#include "image/maps.h"
#include "ledger/discovery.h"
#include "patch/text_edit.h"
#include "target/procfs.h"

namespace pinprick::engine {
namespace {

using layout::SemaphoreEntry;
using Progress = SemaphoreEntry::Progress;

// Returns where the semaphore of the probe's point is; 0 if there is none.
Address semaphore_of(const placement::ProbeSet& set, const placement::Probe& probe) {
  const image::Match& match = set.matches[probe.match];
  if (match.point == nullptr || match.point->count() == 0) return 0;
  return match.point->count() + match.object->bias();
}

// Those of the probes that are armed, sorted.
std::vector<Address> wanted_by(const ArmingPlan& plan) {
  std::vector<Address> wanted;
  for (const placement::Probe& probe : plan.set.probes)
    if (plan.is_armed(probe.patch))
      if (const Address address = semaphore_of(plan.set, probe); address != 0)
        wanted.push_back(address);
  std::sort(wanted.begin(), wanted.end());
  return wanted;
}

uint32_t number_of(const SemaphoreEntry& entry, const layout::Session& journal) {
  return static_cast<uint32_t>(&entry - journal.semaphores.data());
}

Result<void, ledger::SessionError> follow(std::span<const uint32_t> counts,
                                          const target::RemoteTarget& target,
                                          const layout::Session& journal) {
  if (follow_counts(journal, counts, target.memory())) return {};
  return memory_failure(target.pid(), SystemError{EIO});
}

// Writes `value` where each of these semaphores is, with the state `during` in the journal before,
// and `after` afterwards.
struct SemaphoreChange {
  SemaphoreEntry* entry;
  uint16_t value;
};
Result<void, ledger::SessionError> make(const std::vector<SemaphoreChange>& changes,
                                        Progress during, Progress after,
                                        const target::RemoteTarget& target,
                                        ledger::SessionFile& file, layout::Session& journal) {
  for (const SemaphoreChange& change : changes) change.entry->progress = during;
  if (auto written = noted(file.write_semaphores(journal)); !written) return written;
  std::vector<uint32_t> counts;
  for (const SemaphoreChange& change : changes) {
    if (auto written = target.memory().write_value(change.entry->address, change.value); !written)
      return memory_failure(target.pid(), written.error());
    counts.push_back(number_of(*change.entry, journal));
  }
  if (auto followed = follow(counts, target, journal); !followed) return followed;
  for (const SemaphoreChange& change : changes) change.entry->progress = after;
  return noted(file.write_semaphores(journal));
}

// Tells whether semaphores are still those that were raised.
class RaisedSemaphores {
 public:
  RaisedSemaphores(const target::RemoteTarget& target, const ledger::SessionFile& file,
                   const layout::Session& journal)
      : memory_(target.memory()),
        journal_(journal),
        maps_(image::read_maps(target.pid())),
        is_in_program_(maps_ && has_any_of_file(*maps_, journal, file)),
        others_(OtherSites::find(target.pid(), target.memory(), file.path())) {}

  // An object that was unloaded and loaded again at the same address has text that nothing was
  // written to.
  bool has(const SemaphoreEntry& entry) const {
    if (!is_in_program_) return false;
    const bool is_writable =
        std::any_of(maps_->begin(), maps_->end(), [&](const image::Mapping& one) {
          return one.writable && one.range.contains(Range{entry.address, entry.address + 2});
        });
    return is_writable && std::any_of(journal_.probes.begin(), journal_.probes.end(),
                                      [&](const layout::ProbeEntry& probe) {
                                        const layout::SiteEntry& site = journal_.sites[probe.site];
                                        return probe.object == entry.object && site.is_in_text() &&
                                               is_ours(site);
                                      });
  }

 private:
  // Is our jump there, or does another owner's lead on to our stub? A page that was written to is
  // no proof: others may have done that since.
  bool is_ours(const layout::SiteEntry& site) const {
    const auto edit = patch::arming(site);
    if (patch::examine(memory_, {&edit, 1})[0] == patch::EditOutcome::already) return true;
    return others_.share_with(memory_, head_of(journal_, site));
  }

  const target::Memory& memory_;
  const layout::Session& journal_;
  const Result<std::vector<image::Mapping>, SystemError> maps_;
  const bool is_in_program_;
  const OtherSites others_;
};

// Is the semaphore higher by our raise, if it has this value now?
bool is_raised(const SemaphoreEntry& entry, uint16_t now) {
  switch (entry.progress) {
    case Progress::untouched:
    case Progress::lowered:
      return false;
    case Progress::raising:
      return now > entry.before;
    case Progress::raised:
      return now != 0;  // 0: the program, or someone else, has cleared it
    case Progress::lowering:
      return now != 0 && now == entry.before;
  }
  return false;
}

// An owner that has died in the midst of a change has left it to the value to say whether the
// change was made. If we change the value, too, it says that no more. So this is noted in that
// owner's file first. No living owner is in the midst of a change, as we have the turn.
void settle_changes_of_dead(const target::RemoteTarget& target, const ledger::SessionFile& own) {
  const auto is_between = [](const SemaphoreEntry& entry) {
    return entry.progress == Progress::raising || entry.progress == Progress::lowering;
  };
  for (ledger::FoundSession& found : ledger::find_sessions(target.pid(), own.path()).sessions) {
    auto& entries = found.journal.semaphores;
    if (found.controller_lives || std::none_of(entries.begin(), entries.end(), is_between))
      continue;
    auto file = ledger::SessionFile::open(found.file.path(), ledger::SessionFile::Lock::exclusive);
    if (!file) continue;
    // The file may be of a program that the process ran before.
    const RaisedSemaphores raised(target, *file, found.journal);
    std::vector<uint32_t> settled;
    for (SemaphoreEntry& entry : entries) {
      uint16_t now = 0;
      if (!is_between(entry) || !raised.has(entry) ||
          !target.memory().read_value(entry.address, now))
        continue;
      // Not lowered: what was lowered may still be raised in a process that was forked before.
      entry.progress = is_raised(entry, now) ? Progress::raised : Progress::untouched;
      settled.push_back(number_of(entry, found.journal));
    }
    // Those that are not raised are not looked at any more when the rest is taken out.
    if (follow(settled, target, found.journal))
      static_cast<void>(file->write_semaphores(found.journal));
  }
}

}  // namespace

std::vector<SemaphoreEntry> semaphores_of(const placement::ProbeSet& set, const IndexRange& patches,
                                          size_t object) {
  std::vector<SemaphoreEntry> entries;
  for (const size_t patch : patches)
    for (const size_t probe : set.patches[patch].probes) {
      SemaphoreEntry entry;
      entry.address = semaphore_of(set, set.probes[probe]);
      entry.object = static_cast<uint32_t>(object);
      if (entry.address != 0) entries.push_back(entry);
    }
  const auto by_address = [](const SemaphoreEntry& a, const SemaphoreEntry& b) {
    return a.address < b.address;
  };
  std::sort(entries.begin(), entries.end(), by_address);
  const auto same = [](const SemaphoreEntry& a, const SemaphoreEntry& b) {
    return a.address == b.address;
  };
  entries.erase(std::unique(entries.begin(), entries.end(), same), entries.end());
  return entries;
}

Result<void, ledger::SessionError> raise_semaphores(const target::RemoteTarget& target,
                                                    ledger::SessionFile& file,
                                                    layout::Session& journal,
                                                    const ArmingPlan& plan) {
  if (journal.semaphores.empty()) return {};
  settle_changes_of_dead(target, file);
  const auto wanted = wanted_by(plan);
  std::vector<SemaphoreChange> changes;
  for (SemaphoreEntry& entry : journal.semaphores) {
    if (!std::binary_search(wanted.begin(), wanted.end(), entry.address)) continue;
    // A full one would become 0, and the point would be skipped.
    if (!target.memory().read_value(entry.address, entry.before) || entry.before == UINT16_MAX)
      continue;
    changes.push_back({&entry, static_cast<uint16_t>(entry.before + 1)});
  }
  if (changes.empty()) return {};
  return make(changes, Progress::raising, Progress::raised, target, file, journal);
}

Result<void, ledger::SessionError> lower_semaphores(const target::RemoteTarget& target,
                                                    ledger::SessionFile& file,
                                                    layout::Session& journal,
                                                    const std::vector<bool>* leaving) {
  const auto is_open = [&](const SemaphoreEntry& entry) {
    return (leaving == nullptr || (*leaving)[entry.object]) &&
           entry.progress != Progress::untouched && entry.progress != Progress::lowered;
  };
  if (std::none_of(journal.semaphores.begin(), journal.semaphores.end(), is_open)) return {};
  settle_changes_of_dead(target, file);
  const RaisedSemaphores raised(target, file, journal);
  std::vector<SemaphoreChange> changes;
  std::vector<uint32_t> lowered;  // but maybe not followed
  for (SemaphoreEntry& entry : journal.semaphores) {
    if (!is_open(entry)) continue;
    uint16_t now = 0;
    const bool is_there = raised.has(entry) && target.memory().read_value(entry.address, now);
    if (is_there && is_raised(entry, now)) {
      entry.before = now;
      changes.push_back({&entry, static_cast<uint16_t>(now - 1)});
      continue;
    }
    entry.progress = Progress::lowered;
    if (is_there) lowered.push_back(number_of(entry, journal));
  }
  if (auto followed = follow(lowered, target, journal); !followed) return followed;
  return make(changes, Progress::lowering, Progress::lowered, target, file, journal);
}

}  // namespace pinprick::engine
