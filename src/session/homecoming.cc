#include "session/homecoming.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "arch/code.h"
#include "arch/stub.h"
#include "arch/syscall.h"

namespace pinprick::session {
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

std::optional<Home> home_of(Address at, const Body& body, const target::Memory& memory) {
  if (body.end <= body.begin) return std::nullopt;  // the file says so; it may say anything
  std::array<uint8_t, UINT8_MAX> room;
  const auto bytes = std::span(room).first(body.end - body.begin);
  const Address first = body.site->address + body.begin;
  if (!memory.read(first, bytes)) return std::nullopt;
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

// A springboard in memory of our own: nobody has executed anything of the site yet.
std::optional<Home> site_of_springboard(Address at, const layout::Session& journal) {
  for (const layout::SiteEntry& site : journal.sites)
    if (site.phase != layout::SiteEntry::Phase::gone && site.target() == at)
      return Home{site.address, false};
  return std::nullopt;
}

}  // namespace

void bring_home(target::Stop& stop, const target::Memory& memory, const layout::Session& journal) {
  using Kind = layout::MappingEntry::Kind;
  std::optional<std::vector<Body>> bodies;
  const auto home_from = [&](Kind kind, Address at) -> std::optional<Home> {
    if (kind == Kind::springboards) return site_of_springboard(at, journal);
    if (kind != Kind::stubs) return std::nullopt;
    if (!bodies) bodies = bodies_of(journal);
    const auto above = std::upper_bound(bodies->begin(), bodies->end(), at,
                                        [](Address a, const Body& b) { return a < b.address; });
    return above == bodies->begin() ? std::nullopt : home_of(at, *std::prev(above), memory);
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

}  // namespace pinprick::session
