#include "engine/redirect.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "arch/code.h"
#include "arch/stub.h"
#include "arch/syscall.h"

namespace pinprick::engine {
namespace {

// Copies of instructions between two probes of a site.
struct Body {
  Address address = 0;
  const layout::SiteEntry* site = nullptr;
  uint8_t begin = 0;  // of the instructions, from the site's address
  uint8_t end = 0;
};

std::vector<Body> bodies_of(const layout::Session& journal) {
  std::vector<Body> bodies;
  for (const layout::SiteEntry& site : journal.sites)
    // Text of hooks in unwinders is put back when nobody is in their stubs, and that of what was
    // unloaded never.
    if (site.displaced != 0 && site.body != 0 &&
        site.phase != layout::SiteEntry::Phase::unwinder_hook &&
        site.phase != layout::SiteEntry::Phase::gone)
      bodies.push_back({site.address + static_cast<uint64_t>(int64_t{site.body}), &site, 0, 0});
  for (const layout::ProbeEntry& probe : journal.probes) {
    const layout::SiteEntry& site = journal.sites[probe.site];
    const Address first = site.address + static_cast<uint64_t>(int64_t{site.body});
    if (probe.offset != 0 && site.body != 0)
      bodies.push_back({first + probe.body, &site, probe.offset, 0});
  }
  std::sort(bodies.begin(), bodies.end(),
            [](const Body& a, const Body& b) { return a.address < b.address; });
  for (size_t i = 0; i < bodies.size(); ++i) {
    const bool more = i + 1 < bodies.size() && bodies[i + 1].site == bodies[i].site;
    bodies[i].end = more ? bodies[i + 1].begin : bodies[i].site->displaced;
  }
  return bodies;
}

// Where the original of `at` is; the end of a copied system call counts, too.
struct Home {
  Address address = 0;
  bool behind_system_call = false;
};

// The program's own instructions that the site displaces, whatever is in the text. False: nobody
// can read them.
bool read_displaced(const layout::SiteEntry& site, const target::Memory& memory,
                    const OtherSites& others, std::span<uint8_t> bytes) {
  if (!memory.read(site.address, bytes)) return false;
  others.put_back(site.address, bytes);
  std::copy_n(site.original, std::min<size_t>(site.own, bytes.size()), bytes.begin());
  return true;
}

std::optional<Home> home_of(Address at, const Body& body, const target::Memory& memory,
                            const OtherSites& others) {
  if (body.end <= body.begin) return std::nullopt;  // the file says so; it may say anything
  std::array<uint8_t, UINT8_MAX> room;
  if (!read_displaced(*body.site, memory, others, std::span(room).first(body.end)))
    return std::nullopt;
  const auto bytes = std::span(room).first(body.end).subspan(body.begin);
  const Address first = body.site->address + body.begin;
  const auto copies = arch::copies_of({first, bytes}, body.address);
  if (!copies) return std::nullopt;
  for (const arch::Copy& copy : *copies) {
    const Address begin = body.address + copy.offset;
    const Address original = first + copy.window_offset;
    if (at == begin) return Home{original, false};
    const auto instruction = arch::decode(bytes.subspan(copy.window_offset), original);
    if (instruction && instruction->special == arch::Special::syscall &&
        at == begin + instruction->length)
      return Home{instruction->end(), true};
  }
  return std::nullopt;
}

// Where others are at the site the program's instructions run in the last one's stub. Returns
// nullopt if they do not lie there one after the other.
std::optional<Address> in_last_stub(Address home, const layout::SiteEntry& site,
                                    const layout::Session& journal, const target::Memory& memory,
                                    const OtherSites& others) {
  const OtherSite* const last = others.last_at(memory, head_of(journal, site));
  if (last == nullptr || home == site.address || home - site.address >= site.displaced) return home;
  if (last->has_inner || last->entry.link == layout::SiteEntry::Link::at_begin) return std::nullopt;
  std::array<uint8_t, UINT8_MAX> room;
  const auto bytes = std::span(room).first(site.displaced);
  if (!read_displaced(site, memory, others, bytes)) return std::nullopt;
  const auto copies = arch::copies_of({site.address, bytes}, last->entry.copy());
  if (!copies) return std::nullopt;
  for (const arch::Copy& copy : *copies)
    if (site.address + copy.window_offset == home) return last->entry.copy() + copy.offset;
  return std::nullopt;
}

// A trampoline in memory of our own: nobody has executed anything of the site yet.
std::optional<Home> site_of_trampoline(Address at, const layout::Session& journal) {
  for (const layout::SiteEntry& site : journal.sites)
    if (site.phase != layout::SiteEntry::Phase::gone && site.target() == at)
      return Home{site.address, false};
  return std::nullopt;
}

}  // namespace

void redirect_threads(target::Stop& stop, const target::Memory& memory,
                      const layout::Session& journal, const OtherSites& others) {
  using Kind = layout::MappingEntry::Kind;
  std::optional<std::vector<Body>> bodies;
  const auto home_from = [&](Kind kind, Address at) -> std::optional<Home> {
    if (kind == Kind::islands) return site_of_trampoline(at, journal);
    if (kind != Kind::stubs) return std::nullopt;
    if (!bodies) bodies = bodies_of(journal);
    const auto above = std::upper_bound(bodies->begin(), bodies->end(), at,
                                        [](Address a, const Body& b) { return a < b.address; });
    if (above == bodies->begin()) return std::nullopt;
    const Body& body = *std::prev(above);
    auto home = home_of(at, body, memory, others);
    if (!home || others.empty()) return home;
    const auto there = in_last_stub(home->address, *body.site, journal, memory, others);
    return there ? std::optional(Home{*there, home->behind_system_call}) : std::nullopt;
  };
  for (target::StoppedThread& thread : stop.threads()) {
    const Address at = thread.instruction_pointer();
    const auto mapping = std::find_if(journal.mappings.begin(), journal.mappings.end(),
                                      [&](const layout::MappingEntry& candidate) {
                                        return at - candidate.address < candidate.size;
                                      });
    if (mapping == journal.mappings.end()) continue;
    const auto home = home_from(mapping->kind, at);
    if (!home) continue;
    if (home->behind_system_call) arch::set_returned_to(thread.registers, home->address);
    stop.move(thread, home->address);
  }
}

}  // namespace pinprick::engine
