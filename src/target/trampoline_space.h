// Places for trampolines: six bytes that hold an indirect jump to a stub, at an address such that
// the jump that leads there is self-trapping. Indirect, since of some sites there is only one such
// address, and they may need another stub some day.
//
// `jmp rel32` at the site has 0xcc in each byte at which a displaced instruction began, so that a
// thread that comes there late meets a breakpoint, and not the middle of a jump. That leaves one
// address in 256 for each such byte:
//
//     boundary at offset      4              3              2              1
//     distance                cc?? ????      ??cc ????      ???? cc??      ???? ??cc
//
// With 4 among them, it lies 816 to 832 MiB below the site. Neighbouring sites have neighbouring
// trampolines, so they share pages. Pure, but for the mapping of memory, which is the caller's.
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
  // `map` makes a range executable memory of ours, or answers false where it is not free.
  explicit TrampolineSpace(std::function<bool(Range)> map) : map_(std::move(map)) {}

  // `interior`: the offsets, of 1..4. Taken for good; `pointer` is in reach from there.
  std::optional<Address> take(Address site, std::span<const uint8_t> interior, Address pointer);

 private:
  static constexpr uint64_t kChunk = 65536;
  struct Chunk {
    std::bitset<kChunk> used;
  };

  bool is_free(Address at);
  Chunk* chunk(Address at);

  std::function<bool(Range)> map_;
  std::unordered_map<Address, std::unique_ptr<Chunk>> chunks_;  // null: not to be had
};

}  // namespace pinprick::target
