// Chooses addresses for trampolines: six bytes with an indirect jump to a stub, at an address that
// makes the jump to it self-trapping. The trampoline's jump is indirect, since some sites have only
// one such address, and may need another stub later.
//
// Self-trapping means that the `jmp rel32` at the site has 0xcc in each byte at which a displaced
// instruction began. A thread that arrives there late then hits a breakpoint, and does not execute
// the middle of a jump. Each such byte leaves one address in 256:
//
//     boundary at offset      4              3              2              1
//     distance                cc?? ????      ??cc ????      ???? cc??      ???? ??cc
//
// With a boundary at 4, the trampoline lies 816 to 832 MiB below the site. Neighbouring sites have
// neighbouring trampolines, so they share pages. Pure, but for `map`, which the caller provides.
#pragma once

#include <bitset>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/address.h"

namespace pinprick::target {

class TrampolineSpace {
 public:
  // `map` maps executable memory at a range, or returns false if it is not free.
  explicit TrampolineSpace(std::function<bool(Range)> map) : map_(std::move(map)) {}

  // Takes an address for good, from which `pointer` is in reach. `boundaries` has the offsets, of
  // 1..4, of the instruction boundaries under the jump. Returns nullopt if there is none left.
  std::optional<Address> take(Address site, std::span<const uint8_t> boundaries, Address pointer);

 private:
  static constexpr uint64_t kChunk = 65536;
  struct Chunk {
    std::bitset<kChunk> used;
  };

  bool is_free(Address at);
  Chunk* chunk(Address at);

  std::function<bool(Range)> map_;
  std::unordered_map<Address, std::unique_ptr<Chunk>> chunks_;  // nullptr if not free
};

}  // namespace pinprick::target
