#include "engine/removal.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>

#include "engine/failures.h"
#include "engine/switches.h"
#include "engine/text/redirect.h"
#include "engine/text/restoring.h"
#include "engine/text/semaphores.h"
#include "target/stop.h"

namespace pinprick::engine {
namespace {

using layout::SiteEntry;

Range touched_by(const SiteEntry& site) {
  return {site.address, site.address + std::max(site.length, site.displaced)};
}

// Disjoint sets of sites.
class Groups {
 public:
  explicit Groups(size_t sites) : first_(sites) {
    std::iota(first_.begin(), first_.end(), size_t{0});
  }
  size_t of(size_t site) {
    while (first_[site] != site) site = first_[site] = first_[first_[site]];
    return site;
  }
  void join(size_t a, size_t b) { first_[of(a)] = of(b); }

 private:
  std::vector<size_t> first_;
};

Groups groups_of(const layout::Session& journal) {
  Groups groups(journal.sites.size());
  std::vector<size_t> by_address;
  for (size_t i = 0; i < journal.sites.size(); ++i) {
    if (!journal.sites[i].is_in_text()) continue;
    by_address.push_back(i);
    const SiteEntry& head = head_of(journal, journal.sites[i]);
    groups.join(i, static_cast<size_t>(&head - journal.sites.data()));
  }
  std::sort(by_address.begin(), by_address.end(), [&](size_t a, size_t b) {
    return journal.sites[a].address < journal.sites[b].address;
  });
  size_t furthest = 0;  // the site that reaches furthest so far
  for (size_t n = 1; n < by_address.size(); ++n) {
    const size_t site = by_address[n], last = by_address[furthest];
    const Range range = touched_by(journal.sites[site]);
    if (range.begin < touched_by(journal.sites[last]).end) groups.join(site, last);
    if (range.end > touched_by(journal.sites[last]).end) furthest = n;
  }
  return groups;
}

// The sites that another session leads through, too.
void leave_shared(const layout::Session& journal, const OtherSites& others,
                  std::vector<bool>& restored) {
  if (others.empty()) return;
  Groups groups = groups_of(journal);
  std::vector<bool> is_shared(journal.sites.size());
  for (size_t i = 0; i < journal.sites.size(); ++i)
    if (restored[i] && !others.in(touched_by(journal.sites[i])).empty())
      is_shared[groups.of(i)] = true;
  for (size_t i = 0; i < journal.sites.size(); ++i)
    if (is_shared[groups.of(i)]) restored[i] = false;
}

// The journal as far as the chosen sites are concerned: threads elsewhere stay where they are. What
// touches a chosen site is chosen as well, so these say what the program has there. It is made
// before the process stops, since there may be a million other sites.
class ChosenSites {
 public:
  ChosenSites(const layout::Session& journal, const std::vector<bool>& chosen) {
    std::vector<uint32_t> number(journal.sites.size());
    for (size_t i = 0; i < journal.sites.size(); ++i) {
      if (!chosen[i]) continue;
      number[i] = static_cast<uint32_t>(some_.sites.size());
      some_.sites.push_back(journal.sites[i]);
      entries_.push_back(&journal.sites[i]);
    }
    for (const layout::ProbeEntry& probe : journal.probes) {
      if (!chosen[probe.site]) continue;
      some_.probes.push_back(probe);
      some_.probes.back().site = number[probe.site];
    }
    some_.mappings = journal.mappings;
  }

  // Returns the journal of those that were restored: a thread in the stub of another one stays.
  const layout::Session& restored(std::vector<const SiteEntry*> sites) {
    std::sort(sites.begin(), sites.end());
    for (size_t i = 0; i < entries_.size(); ++i)
      if (!std::binary_search(sites.begin(), sites.end(), entries_[i]))
        some_.sites[i].copy_distance = 0;
    return some_;
  }

 private:
  layout::Session some_;
  std::vector<const SiteEntry*> entries_;  // of the journal, for each
};

struct Restored {
  size_t sites = 0;
  uint64_t stopped_ns = 0;
};

// The objects of which no probe is in the text any more once these sites are restored.
std::vector<bool> leaving_objects(const layout::Session& journal, const std::vector<bool>& chosen) {
  std::vector<bool> leaving(journal.objects.size(), true);
  for (const layout::ProbeEntry& probe : journal.probes)
    if (journal.sites[probe.site].is_in_text() && !chosen[probe.site])
      leaving[probe.object] = false;
  return leaving;
}

Result<Restored, ledger::SessionError> restore(const target::RemoteTarget& target,
                                               const image::ProcessImage& image,
                                               ledger::SessionFile& file, layout::Session& journal,
                                               const OtherSites& others,
                                               const std::vector<bool>& chosen) {
  Restored done;
  Restoring text(target, image, journal, others, Armed::completely, &chosen);
  ChosenSites sites(journal, chosen);
  // A jump of ours proves that the object is the one whose semaphores were raised.
  const auto leaving = leaving_objects(journal, chosen);
  auto stop = target::Stop::all_threads(target.pid());
  if (!stop) return fail(ledger::SessionError(stop.error()));
  if (!target.same_image()) return attach_failure(target.pid(), target.why_gone());
  if (auto lowered = lower_semaphores(target, file, journal, &leaving); !lowered)
    return fail(lowered.error());
  DisarmReport report;
  auto restored = text.restore(*stop, report);
  static_cast<void>(
      redirect_threads(*stop, target.memory(), sites.restored(text.restored()), others));
  done.stopped_ns = std::move(*stop).resume();
  // Those that could be restored are, also if others could not.
  for (const SiteEntry* site : text.restored()) {
    journal.sites[static_cast<size_t>(site - journal.sites.data())].leave_text(
        SiteEntry::Phase::removed);
    ++done.sites;
  }
  if (!restored) return memory_failure(target.pid(), restored.error());
  return done;
}

}  // namespace

std::vector<bool> sites_without_probes(const layout::Session& journal,
                                       const std::vector<bool>& removed) {
  Groups groups = groups_of(journal);
  std::vector<bool> has_probe(journal.sites.size()), stays(journal.sites.size());
  for (size_t i = 0; i < journal.probes.size(); ++i) {
    const size_t site = journal.probes[i].site;
    has_probe[site] = true;
    if (!removed[i]) stays[groups.of(site)] = true;
  }
  for (size_t i = 0; i < journal.sites.size(); ++i) {
    const bool is_trampoline =
        i != 0 && &head_of(journal, journal.sites[i - 1]) == &journal.sites[i];
    if (journal.sites[i].is_in_text() && !has_probe[i] && !is_trampoline)
      stays[groups.of(i)] = true;
  }
  std::vector<bool> without(journal.sites.size());
  for (size_t i = 0; i < without.size(); ++i)
    without[i] = journal.sites[i].is_in_text() && !stays[groups.of(i)];
  return without;
}

std::vector<uint32_t> sites_restored_together(const layout::Session& journal) {
  Groups groups = groups_of(journal);
  std::optional<size_t> first;
  for (const layout::ProbeEntry& probe : journal.probes) {
    if (probe.kind != layout::ProbeEntry::Kind::span) continue;
    if (first) groups.join(probe.site, *first);
    first = probe.site;
  }
  std::vector<uint32_t> together(journal.sites.size());
  for (size_t i = 0; i < together.size(); ++i) together[i] = static_cast<uint32_t>(groups.of(i));
  return together;
}

Result<RemovalReport, ledger::SessionError> remove_probes(
    const target::RemoteTarget& target, const image::ProcessImage& image, ledger::SessionFile& file,
    layout::Session& journal, std::vector<bool>& removed, std::span<const uint32_t> probes) {
  RemovalReport report;
  removed.resize(journal.probes.size());
  std::vector<uint32_t> wanted;
  std::copy_if(probes.begin(), probes.end(), std::back_inserter(wanted),
               [&](uint32_t probe) { return probe < removed.size() && !removed[probe]; });
  report.staying = static_cast<size_t>(std::count_if(
      probes.begin(), probes.end(), [&](uint32_t probe) { return probe >= removed.size(); }));
  if (wanted.empty()) return report;
  std::vector<bool> all = removed;
  for (const uint32_t probe : wanted) all[probe] = true;
  const OtherSites others = OtherSites::find(target.pid(), target.memory(), file.path());
  auto chosen = sites_without_probes(journal, all);
  leave_shared(journal, others, chosen);

  // Also if the rest fails: what is out of the text counts no more.
  const auto note_removed = [&] {
    for (const uint32_t probe : wanted) {
      const bool is_out = !journal.sites[journal.probes[probe].site].is_in_text();
      const bool is_off = probe < journal.switches.size() && journal.switches[probe].is_on == 0;
      removed[probe] = is_out || is_off;
    }
  };
  if (std::find(chosen.begin(), chosen.end(), true) != chosen.end()) {
    auto restored = restore(target, image, file, journal, others, chosen);
    note_removed();
    // Also if some could not be restored: other owners look at where threads may continue.
    const auto written = file.write_tables(journal);
    if (!restored) return fail(restored.error());
    if (!written) return fail(ledger::SessionError(written.error()));
    report.restored = restored->sites;
    report.stopped_ns += restored->stopped_ns;
  }
  std::vector<uint32_t> in_text;
  for (const uint32_t probe : wanted)
    if (journal.sites[journal.probes[probe].site].is_in_text()) in_text.push_back(probe);
  if (!in_text.empty()) {
    auto switched = switch_probes(target, file, journal, in_text, Switched::off);
    note_removed();
    if (!switched) return fail(switched.error());
    report.stopped_ns += switched->stopped_ns;
  }
  for (const uint32_t probe : wanted) ++(removed[probe] ? report.removed : report.staying);
  return report;
}

}  // namespace pinprick::engine
