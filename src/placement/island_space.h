// Addresses for the trampolines of puns (plan/pun.h): free in a process, as its mappings say, or
// likely to be in one that a file will run in.
//
// Each takes a page of memory, if none is at hand that has been taken for another: so there are no
// more than so many. Well away from what may grow: the heap, and the stack. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "image/process.h"
#include "plan/pun.h"

namespace pinprick::placement {

class IslandSpace {
 public:
  // Pages. Each may be a mapping of its own in the target.
  static constexpr size_t kMostPages = 256;

  IslandSpace() = default;  // without any room
  static IslandSpace around(const image::ProcessImage& image);

  // Of the addresses that are wanted one at which a trampoline can be. Taken. Addresses are an
  // object's own, `bias` that object's.
  std::optional<Address> take(const plan::Candidates& wanted, uint64_t bias);
  void give_back(Address island, uint64_t bias);

 private:
  std::vector<Range> free_;                       // by address; whole pages
  uint64_t file_bias_ = 0;                        // of a file, which has none: where it might lie
  std::map<Address, std::vector<Address>> used_;  // by page
};

// What a page of trampolines keeps to itself: its last bytes, by which the page is known
// (engine/ownership.h).
inline constexpr uint64_t kIslandMarkSize = 8;

}  // namespace pinprick::placement
