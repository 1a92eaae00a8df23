#include "library/probes/batch.h"

#include <algorithm>
#include <iterator>

#include "library/api/error.h"
#include "library/probes/neighbours.h"
#include "library/probes/return_slots.h"
#include "library/probes/site_stubs.h"
#include "library/probes/wanted_encoding.h"
#include "library/process/own_ledger.h"

namespace pinprick::library {
namespace {

// Is this an error of turn_to_write()?
bool breakpoints_do_not_work(Cause cause) {
  return cause == Cause::signal_blocked || cause == Cause::debugger;
}

// The error if a jump in the way could not be removed, as SIGTRAP is blocked or a debugger is
// there.
Result<std::vector<TextChange>, Error> no_room_after_all(const Site& site) {
  if (const auto turn = turn_to_write(no_breakpoints); !turn) return fail(turn.error());
  return fail(refused(site.name, plan::Reason::neighbour));
}

// The text of a breakpoint, or of a jump to a trampoline, need not change if it leads to another
// stub.
bool changes_text(const Site& site, const Encoding& to) {
  const bool leads_on = to.is_breakpoint() || to.trampoline;
  return site.in_place != &to || !leads_on;
}

size_t return_probes(const Site& site) {
  return static_cast<size_t>(
      std::count_if(site.attachments.begin(), site.attachments.end(), [](const Attachment* one) {
        return dynamic_cast<const detail::ReturnState*>(one) != nullptr;
      }));
}

}  // namespace

// Also while all probes are disarmed: a probe that cannot be placed is refused now, not by
// arm_all().
Result<void, Error> Batch::prepare(std::span<Site* const> sites, SiteErrors* refused_sites) {
  const Modes& modes = parts_.modes;
  std::vector<Site*> changing;
  std::vector<const Encoding*> written;  // of these
  std::vector<Site*> wanted;
  std::copy_if(sites.begin(), sites.end(), std::back_inserter(wanted),
               [&](Site* site) { return encoding_when_armed(*site, modes) != nullptr; });
  const auto taken = take_sites(self_.memory(), wanted, refused_sites);
  if (!taken) return fail(taken.error());
  // Otherwise the plans may rest on bytes that sessions have written.
  if (*taken && !parts_.image.has_read_beside(**taken)) {
    parts_.image.forget();
    return fail(
        error_of(Cause::attached, {}, "pinprick has just changed its probes in this process"));
  }
  if (refused_sites != nullptr && !refused_sites->empty())
    return fail(refused_sites->front().second);
  for (Site* site : wanted) {
    Encoding* const encoding = encoding_when_armed(*site, modes);
    if (site->needed().measures) {
      if (auto made = make_return_slots(self_); !made) return fail(system_error(made.error()));
      if (auto made = make_more_participants(return_probes(*site)); !made)
        return fail(system_error(made.error()));
    }
    if (modes.armed && is_as_wanted(*site, modes)) continue;
    if (site->in_place == nullptr) {
      if (!is_as_planned(*site)) {
        parts_.image.forget();
        auto changed = refused(site->name, plan::Reason::text_changed);
        if (refused_sites == nullptr) return fail(std::move(changed));
        refused_sites->emplace_back(site, std::move(changed));
        continue;
      }
      OwnLedger::get().confirm(*site);
    }
    auto made = make_stub(*site, *encoding, parts_.stubs, parts_.histograms);
    if (!made && !encoding->is_breakpoint() && (site->in_place || site->allows_breakpoint())) {
      site->no_jump = plan::Reason::out_of_reach;
      made = make_stub(*site, site->breakpoint, parts_.stubs, parts_.histograms);
    }
    if (!made) {
      if (refused_sites == nullptr) return made;
      refused_sites->emplace_back(site, made.error());
      continue;
    }
    const Encoding& to = *encoding_when_armed(*site, modes);
    if (!modes.armed || !changes_text(*site, to)) continue;
    changing.push_back(site);
    written.push_back(&to);
  }
  if (refused_sites != nullptr && !refused_sites->empty())
    return fail(refused_sites->front().second);
  if (written.empty()) return {};
  auto can = can_write(self_, written);
  if (!can && can.error().cause == Cause::debugger && refused_sites != nullptr && could_write_now())
    for (const size_t i : needing_breakpoints(self_, written)) {
      Error& error = refused_sites->emplace_back(changing[i], can.error()).second;
      error.site = changing[i]->name;
    }
  return can;
}

bool Batch::is_as_planned(const Site& site) const {
  const auto& planned = (site.jump ? *site.jump : site.breakpoint).patch.original;
  std::vector<uint8_t> there(planned.size());
  const bool can_be_read = self_.memory().read(site.address, there);
  parts_.sites.restore(site.address, there);
  return can_be_read && there == planned;
}

std::vector<TextChange> Batch::publish_and_find_removals(std::span<Site* const> sites) {
  std::vector<TextChange> removing;
  for (Site* site : sites) {
    publish(*site, parts_.modes, retired_);
    Encoding* const encoding = wanted_encoding(*site, parts_.modes);
    if (site->in_place == nullptr || site->in_place == encoding) continue;
    if (encoding != nullptr && !encoding->is_breakpoint()) continue;
    if (encoding != nullptr && !lead_to(*site, *encoding)) continue;
    removing.push_back(removal(*site, encoding));
  }
  return removing;
}

Result<std::vector<TextChange>, Error> Batch::lead_and_find_placements(
    std::span<Site* const> sites) {
  std::vector<TextChange> placing;
  for (Site* site : sites) {
    Encoding* const encoding = wanted_encoding(*site, parts_.modes);
    if (encoding == nullptr || is_as_wanted(*site, parts_.modes)) continue;
    const auto others = parts_.sites.others_in(encoding->touched(), site->address);
    if (std::any_of(others.begin(), others.end(),
                    [](const Site* other) { return other->in_place != nullptr; })) {
      if (site->in_place == nullptr) {
        keep_former_stubs(placing);
        return no_room_after_all(*site);
      }
      site->no_jump = plan::Reason::neighbour;  // it stays a breakpoint
      continue;
    }
    const size_t former_stub = encoding->in_use;
    if (!lead_to(*site, *encoding)) continue;
    if (changes_text(*site, *encoding)) placing.push_back(placement(*site, *encoding, former_stub));
  }
  return placing;
}

Result<void, Error> Batch::commit(std::span<Site* const> sites) {
  if (auto written = parts_.stubs.write(self_); !written)
    return fail(system_error(written.error()));
  if (auto done = take_out(self_, publish_and_find_removals(sites)); !done) return done;
  const auto placing = lead_and_find_placements(sites);
  if (!placing) return fail(placing.error());
  return put_in(self_, *placing);
}

// Text that cannot be written now stays; the lists decide what runs there.
void Batch::put_back(std::span<Site* const> sites) {
  // The former stubs may have done more than is needed now.
  if (prepare(sites) && commit(sites)) return;
  for (Site* site : sites) publish(*site, parts_.modes, retired_);
}

void Batch::add_those_with_room_now(std::vector<Site*>& sites) {
  const std::vector<Site*> removed = sites;
  for (const Site* site : removed) {
    if (!site->attachments.empty() || site->gone) continue;
    for (const auto& [address, other] : parts_.sites.near({site->address, site->address})) {
      const auto went = neighbours_that_went(*other, parts_.sites);
      if (!went) continue;
      other->no_jump.reset();
      Site* const one[] = {other.get()};
      if (const auto ready = prepare(one)) {
        sites.push_back(other.get());
        sites.insert(sites.end(), went->begin(), went->end());
      } else {
        other->no_jump = plan::Reason::neighbour;
        // The others would be refused as well, each after a wait.
        if (breakpoints_do_not_work(ready.error().cause)) return;
      }
    }
  }
}

}  // namespace pinprick::library
