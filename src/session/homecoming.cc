#include "session/homecoming.h"

#include <linux/rseq.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "arch/x86_64/stub.h"
#include "target/borrowed_thread.h"

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
    if (site.displaced != 0)
      bodies.push_back({site.address + static_cast<uint64_t>(int64_t{site.body}), &site, 0, 0});
  for (const layout::ProbeEntry& probe : journal.probes) {
    const layout::SiteEntry& site = journal.sites[probe.site];
    const Address first = site.address + static_cast<uint64_t>(int64_t{site.body});
    if (probe.offset != 0) bodies.push_back({first + probe.body, &site, probe.offset, 0});
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

// The body that `at` may be in: the last one that begins there or before.
const Body* body_before(const std::vector<Body>& bodies, Address at) {
  const auto above = std::upper_bound(bodies.begin(), bodies.end(), at,
                                      [](Address a, const Body& b) { return a < b.address; });
  return above == bodies.begin() ? nullptr : &*std::prev(above);
}

bool is_inside(const layout::Session& journal, Address at) {
  using Kind = layout::MappingEntry::Kind;
  return std::any_of(journal.mappings.begin(), journal.mappings.end(), [&](const auto& mapping) {
    return (mapping.kind == Kind::stubs || mapping.kind == Kind::runtime_code) &&
           at - mapping.address < mapping.size;
  });
}

// A single-stepped thread would never get through a restartable sequence: each step makes the
// kernel send it back to the start. Nobody else runs meanwhile, so it needs none.
class Sequences {
 public:
  Sequences(const target::Memory& memory, pid_t tid) : memory_(memory) {
    if (const auto registration = target::rseq_registration(tid))
      pointer_ = registration->area + offsetof(struct rseq, rseq_cs);
  }
  void leave(const layout::Session& journal) const {
    uint64_t descriptor = 0;
    if (pointer_ != 0 && memory_.read_value(pointer_, descriptor) && is_inside(journal, descriptor))
      static_cast<void>(memory_.write_value(pointer_, uint64_t{0}));
  }

 private:
  const target::Memory& memory_;
  Address pointer_ = 0;
};

// Step by step, until the thread is at the copy of an instruction, and goes on at the original, or
// has left. The longest way, out of a measured call, takes some hundred steps.
void bring_home(target::Stop& stop, target::StoppedThread& thread, const target::Memory& memory,
                const layout::Session& journal, const std::vector<Body>& bodies) {
  constexpr int kMostSteps = 1000;
  const Sequences sequences(memory, thread.tid);
  for (int i = 0; i < kMostSteps && is_inside(journal, thread.registers.rip); ++i) {
    const Body* body = body_before(bodies, thread.registers.rip);
    if (const auto home = body ? home_of(thread.registers.rip, *body, memory) : std::nullopt) {
      stop.move(thread, home->address);
      // The kernel leaves there where the call returned to.
      if (home->behind_system_call) thread.registers.rcx = home->address;
      return;
    }
    sequences.leave(journal);
    if (!stop.step(thread)) return;
  }
}

}  // namespace

void bring_home(target::Stop& stop, const target::Memory& memory, const layout::Session& journal) {
  std::vector<Body> bodies;
  for (target::StoppedThread& thread : stop.threads()) {
    if (!is_inside(journal, thread.registers.rip)) continue;
    if (bodies.empty()) bodies = bodies_of(journal);
    bring_home(stop, thread, memory, journal, bodies);
  }
}

}  // namespace pinprick::session
