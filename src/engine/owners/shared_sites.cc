#include "engine/owners/shared_sites.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "arch/jump.h"
#include "engine/journal/inherited_journal.h"
#include "ledger/discovery.h"
#include "patch/point_nop.h"

namespace pinprick::engine {
namespace {

using layout::MappingEntry;
using layout::SiteEntry;
using Phase = SiteEntry::Phase;

bool is_armed(const SiteEntry& site) {
  return site.is_in_text() && site.jump != 0;
}

// The edit, with its new bytes replaced by a jump from the site to `to`. Returns nullopt if that is
// out of reach.
std::optional<patch::TextEdit> with_jump_to(patch::TextEdit edit, const SiteEntry& site,
                                            Address to) {
  if (!arch::reaches(site.end(), to)) return std::nullopt;
  uint8_t jump[layout::kMaxSiteLength];
  std::copy(std::begin(site.original), std::end(site.original), jump);
  arch::encode_jump(std::span(jump).first(site.length), static_cast<int32_t>(to - site.end()));
  std::copy_n(jump, site.own, edit.after);
  return edit;
}

Address link_of(const SiteEntry& site) {
  switch (site.link) {
    case SiteEntry::Link::before_copy:
      return site.copy() - arch::kLinkLength;
    case SiteEntry::Link::at_start:
      return site.target();
    case SiteEntry::Link::none:
      break;
  }
  return 0;
}

// Where the link of the site's stub leads; 0 if it leads nowhere, or the stub has none.
Address led_to(const target::Memory& memory, const SiteEntry& site) {
  const Address link = link_of(site);
  arch::LinkBytes bytes;
  if (link == 0 || !memory.read(link, bytes)) return 0;
  return arch::link_target(link, bytes).value_or(0);
}

std::optional<patch::TextEdit> link_edit(Address link, Address before, Address after, Phase phase) {
  const auto from = arch::encode_link(link, before);
  const auto to = arch::encode_link(link, after);
  if (!from || !to) return std::nullopt;
  patch::TextEdit edit;
  edit.address = link;
  edit.length = arch::kLinkLength;
  edit.phase = static_cast<uint8_t>(phase);
  std::copy(from->begin(), from->end(), edit.before);
  std::copy(to->begin(), to->end(), edit.after);
  return edit;
}

bool has_trampoline(const layout::Session& journal, size_t i) {
  return i + 1 < journal.sites.size() && journal.sites[i].displaced != 0 &&
         journal.sites[i + 1].displaced == 0 &&
         journal.sites[i].target() == journal.sites[i + 1].address;
}

void add_sites(const layout::Session& journal, std::vector<OtherSite>& sites) {
  const auto is_stub = [&](Address address) {
    return std::any_of(
        journal.mappings.begin(), journal.mappings.end(), [&](const MappingEntry& entry) {
          return entry.kind == MappingEntry::Kind::stubs && address - entry.address < entry.size;
        });
  };
  std::vector<uint32_t> position(journal.sites.size(), UINT32_MAX);
  for (size_t i = 0; i < journal.sites.size(); ++i) {
    const SiteEntry& entry = journal.sites[i];
    if (!is_armed(entry)) continue;
    position[i] = static_cast<uint32_t>(sites.size());
    OtherSite site;
    site.entry = entry;
    site.is_shareable = entry.length >= layout::kLongSiteLength && entry.own == entry.length &&
                        entry.copy_distance != 0 && is_stub(entry.target());
    site.has_inner = entry.has_inner_end != 0;
    site.leads_on = has_trampoline(journal, i);
    sites.push_back(site);
  }
  // A jump over such a nop would keep its point from being turned off.
  for (const layout::PointSiteEntry& point : journal.point_sites) {
    const auto progress = journal.semaphores[point.semaphore].progress;
    using enum layout::SemaphoreEntry::Progress;
    if (progress == untouched || progress == lowered) continue;
    OtherSite site;
    site.entry = patch::site_of(point);
    sites.push_back(site);
  }
  for (const layout::ProbeEntry& probe : journal.probes) {
    const size_t head = probe.site + (has_trampoline(journal, probe.site) ? 1 : 0);
    if (position[head] == UINT32_MAX) continue;
    OtherSite& site = sites[position[head]];
    site.times = site.times || probe.times_calls();
    site.has_inner = site.has_inner || probe.offset != 0;
  }
}

// A thread may be in the stub of a site whose text is the program's own again: one that was
// removed, or any of a session whose memory is still there because a thread was inside. It goes on
// after the window. Of a session that counts as armed, as its hooks have to stay meanwhile, the
// text tells; the constructor looks at that.
void add_left(const layout::Session& journal, std::vector<SiteEntry>& left) {
  const bool is_armed = journal.header.state == layout::SessionState::armed;
  const bool is_disarmed = journal.header.state == layout::SessionState::disarmed;
  for (const SiteEntry& site : journal.sites) {
    if (site.copy_distance == 0) continue;
    if ((is_armed && site.phase == Phase::removed) ||
        (is_disarmed && (site.is_in_text() || site.phase == Phase::removed)))
      left.push_back(site);
  }
}

bool by_site_address(const SiteEntry& a, const SiteEntry& b) {
  return a.address < b.address;
}

}  // namespace

bool OtherSites::may_continue_inside(Range range) const {
  const auto end = std::upper_bound(left_windows_.begin(), left_windows_.end(), range.begin);
  return end != left_windows_.end() && *end < range.end;
}

const SiteEntry& head_of(const layout::Session& journal, const SiteEntry& site) {
  const auto i = static_cast<size_t>(&site - journal.sites.data());
  return has_trampoline(journal, i) ? journal.sites[i + 1] : site;
}

Range OtherSite::touched() const {
  return {entry.address, entry.address + std::max<uint64_t>(entry.length, entry.displaced)};
}

OtherSites::OtherSites(std::span<const layout::Session* const> journals,
                       const target::Memory& memory) {
  for (const layout::Session* journal : journals) {
    for (const MappingEntry& entry : journal->mappings) {
      if (entry.progress == MappingEntry::Progress::none) continue;
      if (entry.kind == MappingEntry::Kind::runtime_data) slots_.push_back(entry);
      if (layout::is_code(entry.kind)) code_.push_back({entry.address, entry.address + entry.size});
    }
    if (journal->header.state == layout::SessionState::armed) add_sites(*journal, sites_);
    add_left(*journal, left_);
  }
  std::stable_sort(sites_.begin(), sites_.end(), [](const OtherSite& a, const OtherSite& b) {
    return a.entry.address < b.entry.address;
  });
  std::vector<patch::TextEdit> jumps;
  jumps.reserve(sites_.size());
  for (const OtherSite& site : sites_) jumps.push_back(patch::arming(site.entry));
  const auto held = patch::examine(memory, jumps);
  for (size_t i = 0; i < held.size(); ++i) {
    sites_[i].is_in_text = held[i] == patch::EditOutcome::already;
    // With the program's own bytes, `written` would be the outcome.
    if (held[i] == patch::EditOutcome::written && sites_[i].entry.copy_distance != 0)
      left_.push_back(sites_[i].entry);
  }
  for (const SiteEntry& site : left_)
    if (site.displaced != 0) left_windows_.push_back(site.address + site.displaced);
  std::sort(left_windows_.begin(), left_windows_.end());
  std::stable_sort(left_.begin(), left_.end(), by_site_address);
}

bool return_shared_sites(layout::Session& journal, const OtherSites& others,
                         const target::Memory& memory) {
  bool has_any = false;
  for (SiteEntry& site : journal.sites) {
    if (!has_left(site) || !others.share_with(memory, head_of(journal, site))) continue;
    site.return_to_text();
    has_any = true;
  }
  return has_any;
}

OtherSites OtherSites::find(pid_t pid, const target::Memory& memory, const std::string& own) {
  // Without maps the process is gone.
  const auto maps = image::read_maps(pid);
  return find(pid, memory, maps ? *maps : std::vector<image::Mapping>(), own);
}

OtherSites OtherSites::find(pid_t pid, const target::Memory& memory,
                            const std::vector<image::Mapping>& maps, const std::string& own) {
  const ledger::FoundJournals found = ledger::find_journals(pid, own, &maps);
  std::vector<const layout::Session*> journals;
  for (const layout::Session& journal : found.journals) journals.push_back(&journal);
  std::vector<ledger::FoundSession> inherited = ledger::find_inherited(pid, maps);
  for (ledger::FoundSession& session : inherited) {
    if (session.file.path() == own) continue;
    session.journal = engine::inherited(std::move(session.journal), memory);
    journals.push_back(&session.journal);
  }
  OtherSites others(journals, memory);
  bool has_more = false;
  for (ledger::FoundSession& session : inherited)
    has_more = return_shared_sites(session.journal, others, memory) || has_more;
  if (has_more) others = OtherSites(journals, memory);
  others.program_ = patch::OwnProbes::read(memory, maps);
  const auto& code = others.program_.code();
  others.code_.insert(others.code_.end(), code.begin(), code.end());
  return others;
}

OtherSites::Candidates OtherSites::at(Address address) const {
  const auto first =
      std::lower_bound(sites_.begin(), sites_.end(), address,
                       [](const OtherSite& site, Address a) { return site.entry.address < a; });
  auto end = first;
  while (end != sites_.end() && end->entry.address == address) ++end;
  return {first, end};
}

// Calls take(site) with all sites that may touch the range.
template <class Take>
void OtherSites::for_each_near(Range range, const Take& take) const {
  constexpr uint64_t kLongest = UINT8_MAX;
  const Address from = range.begin - std::min(range.begin, kLongest);
  auto site =
      std::lower_bound(sites_.begin(), sites_.end(), from,
                       [](const OtherSite& one, Address a) { return one.entry.address < a; });
  for (; site != sites_.end() && site->entry.address < range.end; ++site) take(*site);
}

std::vector<const OtherSite*> OtherSites::in(Range range) const {
  std::vector<const OtherSite*> found;
  for_each_near(range, [&](const OtherSite& site) {
    if (site.is_in_text && site.touched().overlaps(range)) found.push_back(&site);
  });
  return found;
}

void put_original_back(const SiteEntry& site, Address address, std::span<uint8_t> bytes) {
  const Address end = address + bytes.size();
  for (uint8_t i = 0; i < site.own; ++i)
    if (site.address + i >= address && site.address + i < end)
      bytes[site.address + i - address] = site.original[i];
}

void OtherSites::put_back(Address address, std::span<uint8_t> bytes) const {
  for (const OtherSite* site : in({address, address + bytes.size()}))
    put_original_back(site->entry, address, bytes);
}

void OtherSites::put_all_back(const target::Memory& memory, Address address,
                              std::span<uint8_t> bytes) const {
  for_each_near({address, address + bytes.size()}, [&](const OtherSite& site) {
    if (site.is_in_text || share_with(memory, site.entry))
      put_original_back(site.entry, address, bytes);
  });
}

std::vector<OtherSites::Member> OtherSites::list_at(const target::Memory& memory, Address address,
                                                    const SiteEntry* self) const {
  std::vector<Member> candidates;
  if (self != nullptr) candidates.push_back({self, nullptr});
  for (const OtherSite& other : at(address))
    if (other.is_shareable) candidates.push_back({&other.entry, &other});
  std::vector<Member> list;
  const auto first = std::find_if(candidates.begin(), candidates.end(), [&](const Member& member) {
    const auto jump = patch::arming(*member.entry);
    return patch::examine(memory, {&jump, 1})[0] == patch::EditOutcome::already;
  });
  for (auto next = first; next != candidates.end() && list.size() < candidates.size();) {
    list.push_back(*next);
    const Address to = led_to(memory, *next->entry);
    if (to == 0) break;
    next = std::find_if(candidates.begin(), candidates.end(),
                        [&](const Member& member) { return member.entry->target() == to; });
  }
  return list;
}

Position OtherSites::position_for(const target::Memory& memory, const OtherSite& other,
                                  bool times) const {
  const auto list = list_at(memory, other.entry.address, nullptr);
  const auto timed = std::find_if(list.rbegin(), list.rend(), [](const Member& member) {
    return member.other->times && member.entry->link != SiteEntry::Link::none;
  });
  if (times && timed != list.rend()) return {link_of(*timed->entry), led_to(memory, *timed->entry)};
  return {0, other.entry.target()};
}

std::optional<patch::TextEdit> OtherSites::arming(const SiteEntry& site, Position position) {
  if (position.link != 0)
    return link_edit(position.link, position.below, site.target(), site.phase);
  patch::TextEdit edit = patch::arming(site);
  if (position.below == 0) return edit;
  const auto there = with_jump_to(edit, site, position.below);
  if (!there) return std::nullopt;
  std::copy(std::begin(there->after), std::end(there->after), edit.before);
  return edit;
}

std::optional<patch::TextEdit> OtherSites::disarming(const target::Memory& memory,
                                                     const SiteEntry& site) const {
  const patch::TextEdit alone = patch::disarming(site);
  if (at(site.address).empty()) return alone;
  const auto list = list_at(memory, site.address, &site);
  const auto self = std::find_if(list.begin(), list.end(),
                                 [](const Member& member) { return member.other == nullptr; });
  if (self == list.end()) return list.empty() ? std::optional(alone) : std::nullopt;
  const Address below = led_to(memory, site);
  if (self == list.begin())
    return below == 0 ? alone : with_jump_to(alone, site, below).value_or(alone);
  const Address link = link_of(*std::prev(self)->entry);
  return link_edit(link, site.target(), below, site.phase).value_or(alone);
}

std::vector<patch::TextEdit> OtherSites::leading_around(const target::Memory& memory,
                                                        const SiteEntry& site) const {
  std::vector<patch::TextEdit> edits;
  const auto lead = [&](const SiteEntry& other) {
    if (led_to(memory, other) != site.target()) return;
    const auto edit = link_edit(link_of(other), site.target(), led_to(memory, site), other.phase);
    if (edit) edits.push_back(*edit);
  };
  const auto [first, last] = std::equal_range(left_.begin(), left_.end(), site, by_site_address);
  std::for_each(first, last, lead);
  if (at(site.address).empty()) return edits;
  const auto list = list_at(memory, site.address, &site);
  for (const OtherSite& other : at(site.address))
    if (other.is_shareable && std::none_of(list.begin(), list.end(), [&](const Member& member) {
          return member.other == &other;
        }))
      lead(other.entry);
  return edits;
}

bool OtherSites::share_with(const target::Memory& memory, const SiteEntry& self) const {
  if (at(self.address).empty()) return false;
  const auto list = list_at(memory, self.address, &self);
  return std::any_of(list.begin(), list.end(),
                     [](const Member& member) { return member.other == nullptr; });
}

const OtherSite* OtherSites::last_at(const target::Memory& memory, const SiteEntry& self) const {
  if (at(self.address).empty()) return nullptr;
  const auto list = list_at(memory, self.address, &self);
  const auto last = std::find_if(list.rbegin(), list.rend(),
                                 [](const Member& member) { return member.other != nullptr; });
  return last == list.rend() ? nullptr : last->other;
}

bool OtherSites::displace_as_much(const SiteEntry& site) const {
  const Candidates all = at(site.address);
  return std::all_of(all.begin(), all.end(), [&](const OtherSite& other) {
    return other.entry.displaced == site.displaced;
  });
}

std::vector<Range> OtherSites::taken() const {
  std::vector<Range> all;
  for (const OtherSite& site : sites_)
    if (site.is_in_text) all.push_back(site.touched());
  for (const layout::OwnSite& site : program_.sites())
    if (site.state == layout::OwnSite::State::in_use) all.push_back(site.range());
  std::sort(all.begin(), all.end());
  return all;
}

image::MemoryReader reader_without_jumps(std::shared_ptr<const OtherSites> others,
                                         const target::RemoteTarget& target) {
  image::MemoryReader reader = target.reader();
  if (others->empty() && !others->program().is_there()) return reader;
  struct Program {
    std::mutex mutex;  // readers may be several threads
    patch::OwnProbes probes;
  };
  auto program = std::make_shared<Program>();
  program->probes = others->program();
  return [others = std::move(others), program = std::move(program), target,
          reader = std::move(reader)](Address address, std::span<uint8_t> out) {
    const uint64_t changes = program->probes.changes_now(target.memory());
    if (!reader(address, out)) return false;
    others->put_back(address, out);
    if (!program->probes.is_there()) return true;
    const std::lock_guard lock(program->mutex);
    program->probes.read_changes(target.memory());
    program->probes.put_back(target.pid(), address, out, changes);
    return true;
  };
}

}  // namespace pinprick::engine
