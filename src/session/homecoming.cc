#include "session/homecoming.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "arch/x86_64/stub.h"

namespace pinprick::session {
namespace {

struct Body {
  Address address = 0;
  const layout::SiteEntry* site = nullptr;
};

std::vector<Body> bodies_of(const layout::Session& journal) {
  std::vector<Body> bodies;
  for (const layout::SiteEntry& site : journal.sites)
    bodies.push_back({arch::jump_target(site.address, site.written) + site.body, &site});
  std::sort(bodies.begin(), bodies.end(),
            [](const Body& a, const Body& b) { return a.address < b.address; });
  return bodies;
}

// Where the original of `at` is; the end of a copied system call counts, too.
struct Home {
  Address address = 0;
  bool behind_system_call = false;
};

std::optional<Home> home_of(Address at, const Body& body, const target::Memory& memory) {
  std::vector<uint8_t> bytes(body.site->displaced);
  if (bytes.empty() || !memory.read(body.site->address, bytes)) return std::nullopt;
  const auto copies = arch::copies_of({body.site->address, bytes}, body.address);
  if (!copies) return std::nullopt;
  for (const arch::Copy& copy : *copies) {
    const Address begin = body.address + copy.offset;
    const Address original = body.site->address + copy.window_offset;
    if (at == begin) return Home{original, false};
    const auto instruction = arch::decode(std::span(bytes).subspan(copy.window_offset), original);
    if (instruction && instruction->special == arch::Special::syscall &&
        at == begin + instruction->length)
      return Home{instruction->end(), true};
  }
  return std::nullopt;
}

}  // namespace

void bring_home(target::Stop& stop, const target::Memory& memory, const layout::Session& journal) {
  std::optional<std::vector<Body>> bodies;
  for (target::StoppedThread& thread : stop.threads()) {
    const Address at = thread.registers.rip;
    const bool in_stub = std::any_of(journal.mappings.begin(), journal.mappings.end(),
                                     [&](const layout::MappingEntry& mapping) {
                                       return mapping.kind == layout::MappingEntry::Kind::stubs &&
                                              at - mapping.address < mapping.size;
                                     });
    if (!in_stub) continue;
    if (!bodies) bodies = bodies_of(journal);
    const auto above = std::upper_bound(bodies->begin(), bodies->end(), at,
                                        [](Address a, const Body& b) { return a < b.address; });
    if (above == bodies->begin()) continue;
    const auto home = home_of(at, *std::prev(above), memory);
    if (!home) continue;
    stop.move(thread, home->address);
    // The kernel leaves there where the call returned to.
    if (home->behind_system_call) thread.registers.rcx = home->address;
  }
}

}  // namespace pinprick::session
