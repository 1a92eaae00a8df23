#include "library/process/attached_sessions.h"

#include <unistd.h>

#include <algorithm>

#include "arch/jump.h"
#include "image/maps.h"
#include "ledger/discovery.h"
#include "patch/point_nop.h"
#include "patch/text_owner.h"
#include "target/procfs.h"
#include "target/self_target.h"

namespace pinprick::library {
namespace {

using layout::SessionState;
using layout::SiteEntry;

// Do the bytes look like a jump that a session has written there? Which stub it leads to depends on
// how many sessions share the site.
bool is_jump(const SiteEntry& site, std::span<const uint8_t> bytes) {
  constexpr uint8_t kShortJump = 0xeb, kJump = 0xe9;
  if (site.length < arch::kJumpLength) return bytes[0] == kShortJump;
  return bytes[site.length - arch::kJumpLength] == kJump;  // after prefixes
}

}  // namespace

Range AttachedSessions::Taken::range() const {
  return {site.address, site.address + std::max<uint64_t>(site.length, site.displaced)};
}

// A session may end between the look at its memory and the one at its file. The next look at its
// memory tells.
Result<AttachedSessions, SystemError> AttachedSessions::look(const target::Memory& memory) {
  constexpr int kLooks = 10;
  auto all = look_once(memory);
  for (int attempt = 1; all && all->lacks_file_ && attempt < kLooks; ++attempt)
    all = look_once(memory);
  return all;
}

Result<AttachedSessions, SystemError> AttachedSessions::look_once(const target::Memory& memory) {
  AttachedSessions all;
  const auto maps = image::read_maps(::getpid());
  if (!maps) return fail(maps.error());
  bool is_any_armed = false;
  for (const image::Mapping& mapping : *maps) {
    const auto header = patch::mapped_session(memory, mapping);
    if (!header) continue;
    // If it is of another version, nothing more can be read.
    const bool is_known = header->version == layout::kFileVersion && header->pid == ::getpid();
    if (header->version != layout::kFileVersion) {
      all.sessions_.emplace_back();
      all.unknown_ = 0;
      continue;
    }
    all.sessions_.push_back({header->created_ns, header->controller, header->state});
    if (!is_known && header->state != SessionState::disarmed) all.unknown_ = header->controller;
    is_any_armed = is_any_armed || header->state == SessionState::armed;
  }
  if (!is_any_armed || all.unknown_) return all;
  const ledger::FoundSessions found = ledger::find_sessions(::getpid());
  for (const auto& seen : all.sessions_) {
    if (seen.state != SessionState::armed) continue;
    const auto file = std::find_if(found.sessions.begin(), found.sessions.end(),
                                   [&](const ledger::FoundSession& session) {
                                     return session.journal.header.created_ns == seen.created_ns &&
                                            session.journal.header.controller == seen.controller;
                                   });
    if (file == found.sessions.end()) {
      all.unknown_ = seen.controller;
      all.lacks_file_ = true;
      continue;
    }
    for (const SiteEntry& site : file->journal.sites)
      if (site.jump != 0 && site.is_in_text()) all.taken_.push_back({site, seen.controller, false});
    for (const layout::PointSiteEntry& point : file->journal.point_sites)
      if (file->journal.semaphores[point.semaphore].progress !=
          layout::SemaphoreEntry::Progress::lowered)
        all.taken_.push_back({patch::site_of(point), seen.controller, true});
  }
  std::sort(all.taken_.begin(), all.taken_.end(),
            [](const Taken& a, const Taken& b) { return a.site.address < b.site.address; });
  return all;
}

std::optional<pid_t> AttachedSessions::any() const {
  if (unknown_) return unknown_;
  for (const auto& seen : sessions_)
    if (seen.state != SessionState::disarmed) return seen.controller;
  return std::nullopt;
}

std::optional<pid_t> AttachedSessions::owner_of(Range range, Purpose purpose) const {
  const Address from = range.begin - std::min<Address>(range.begin, UINT8_MAX);
  auto taken = std::lower_bound(taken_.begin(), taken_.end(), from,
                                [](const Taken& one, Address a) { return one.site.address < a; });
  for (; taken != taken_.end() && taken->site.address < range.end; ++taken)
    if (taken->range().overlaps(range) && (purpose == Purpose::probe || !taken->is_point))
      return taken->controller;
  return std::nullopt;
}

std::optional<pid_t> AttachedSessions::owner_around(Address instruction) const {
  const auto taken = std::find_if(taken_.begin(), taken_.end(), [&](const Taken& one) {
    return one.site.address != instruction && one.range().contains(instruction);
  });
  return taken == taken_.end() ? std::nullopt : std::optional(taken->controller);
}

// A page that is still the file's was never written to: what was probed there was unloaded.
void AttachedSessions::put_back(Address address, std::span<uint8_t> bytes) const {
  const Range read = {address, address + bytes.size()};
  const Address from = address - std::min<Address>(address, layout::kMaxSiteLength);
  auto taken = std::lower_bound(taken_.begin(), taken_.end(), from,
                                [](const Taken& one, Address a) { return one.site.address < a; });
  for (; taken != taken_.end() && taken->site.address < read.end; ++taken) {
    const SiteEntry& site = taken->site;
    if (!Range{site.address, site.address + site.own}.overlaps(read)) continue;
    uint8_t there[layout::kMaxSiteLength] = {};
    if (!target::read_own_memory(site.address, std::span(there).first(site.length)) ||
        !is_jump(site, std::span(there).first(site.length)) ||
        !target::is_private_copy(::getpid(), site.address))
      continue;
    for (uint8_t i = 0; i < site.own; ++i)
      if (read.contains(site.address + i)) bytes[site.address + i - address] = site.original[i];
  }
}

}  // namespace pinprick::library
