// Turns sites of tracepoints on and off, while all threads run.
//
// A site is a nop of five bytes, and while its point is on, a jump to its block. patch/live_edit.h
// has the steps of a change, and why every thread is safe at each: no instruction boundary lies
// under the jump. A thread that hits the breakpoint of a change continues in the block, which is
// right in both directions, as the list of functions decides what is called there.
//
// What a site is now is read from memory each time: a probe may have been placed there, or a
// debugger's breakpoint. Such a site is foreign, and is left alone. The caller holds the registry's
// lock, and no other thread unloads the object.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "library/points/point_notes.h"
#include "pinprick/error.h"
#include "target/self_target.h"

namespace pinprick::library {

enum class SiteState : uint8_t { off, on, foreign };

// Reads what sites are now. Sites that are close to each other are read together, so it must not
// outlive the next change of the text.
class SiteStates {
 public:
  explicit SiteStates(const target::Memory& memory) : memory_(memory) {}
  SiteState operator()(const PointSite& site);

 private:
  bool read(Address at, std::span<uint8_t> out);

  const target::Memory& memory_;
  std::vector<uint8_t> bytes_;
  Address begin_ = 0;  // of `bytes_`
};

// Returns the first foreign site; nullopt if there is none.
std::optional<Address> foreign_site(const target::Memory& memory, std::span<const PointSite> sites);

// Make sites that are off jumps, and those that are jumps nops again. On error some of them have
// changed, and the text is a correct program.
Result<void, Error> turn_on(const target::SelfTarget& self, std::span<const PointSite> sites);
Result<void, Error> turn_off(const target::SelfTarget& self, std::span<const PointSite> sites);

}  // namespace pinprick::library
