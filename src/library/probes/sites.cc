#include "library/probes/sites.h"

#include <unistd.h>

#include <utility>

#include "runtime/traps.h"
#include "target/memory.h"

namespace pinprick::library {
namespace {

bool is_planned_as(const Site& site, const SitePlan& planned) {
  return site.breakpoint.patch.original == planned.breakpoint.original &&
         site.jump.has_value() == planned.jump.has_value() &&
         (!site.jump || site.jump->patch.original == planned.jump->original);
}

}  // namespace

Site* Sites::find(Address address) const {
  const auto known = sites_.find(address);
  return known == sites_.end() ? nullptr : known->second.get();
}

std::vector<Site*> Sites::others_in(Range range, Address site_address) const {
  std::vector<Site*> others;
  for (const auto& [address, site] : near(range)) {
    if (address == site_address || site->gone) continue;
    const bool is_to_be = !site->attachments.empty() && site->touched().overlaps(range);
    if (is_to_be || (site->in_place != nullptr && site->in_place->touched().overlaps(range)))
      others.push_back(site.get());
  }
  return others;
}

Site& Sites::take(SitePlan planned, const image::Match& match) {
  std::unique_ptr<Site>& known = sites_[planned.address];
  if (known && !known->gone) {
    if (!known->attachments.empty()) return *known;
    if (known->in_place != nullptr || is_planned_as(*known, planned)) {
      known->no_jump = planned.no_jump;
      return *known;
    }
  }
  if (known) former_sites_.push_back(std::move(known));
  known = std::make_unique<Site>();
  known->address = planned.address;
  known->object = match.object->extent();
  // An entry has two addresses if it starts with an endbr64. It has one name.
  known->name = planned.at_entry ? std::string(match.function_name) : match.name();
  known->object_name = match.object->name();
  known->build_id = match.object->elf().build_id();
  known->stack = planned.stack;
  known->no_jump = planned.no_jump;
  known->breakpoint.patch = std::move(planned.breakpoint);
  if (planned.jump) known->jump.emplace().patch = *std::move(planned.jump);
  return *known;
}

void Sites::restore(Address at, std::span<uint8_t> bytes) const {
  const Range range = {at, at + bytes.size()};
  for (const auto& [address, site] : near(range)) {
    if (site->in_place == nullptr) continue;
    const plan::Patch& patch = site->in_place->patch;
    for (size_t i = 0; i < patch.written; ++i)
      if (range.contains(address + i)) bytes[address + i - at] = patch.original[i];
  }
}

// A site whose jump was overwritten by others is not gone: they may restore it, and it then leads
// to our stub again. A library that was built anew may lie where the former one was.
std::vector<Site*> Sites::forget_what_is_gone(const image::ProcessImage& objects) {
  std::vector<Site*> gone;
  const auto memory = target::Memory::open(::getpid());
  if (!memory) return gone;
  for (const auto& [address, site] : sites_) {
    if (site->gone) continue;
    const image::Object* const object = objects.object_at(address);
    const bool is_mapped = object != nullptr && object->extent() == site->object &&
                           object->name() == site->object_name &&
                           object->elf().build_id() == site->build_id;
    if (is_mapped && site->in_place == nullptr) continue;
    if (is_mapped) {
      const auto& original = site->in_place->patch.original;
      std::vector<uint8_t> there(site->in_place->written().size());
      if (memory->read(address, there) && !std::equal(there.begin(), there.end(), original.begin()))
        continue;
    }
    site->in_place = nullptr;
    site->gone = true;
    gone.push_back(site.get());
    runtime::forget_continuations((site->jump ? *site->jump : site->breakpoint).touched());
  }
  return gone;
}

}  // namespace pinprick::library
