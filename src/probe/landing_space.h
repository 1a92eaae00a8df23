// Addresses for the springboards of puns (plan/pun.h): free in a process, as its mappings say, or
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

namespace pinprick::probe {

class LandingSpace {
 public:
  // Pages. Each may be a mapping of its own in the target.
  static constexpr size_t kMostPages = 256;

  LandingSpace() = default;  // without any room
  static LandingSpace around(const image::ProcessImage& image);

  // Of the addresses that are wanted one at which a springboard can be. Taken. Addresses are an
  // object's own, `bias` that object's.
  std::optional<Address> take(const plan::Candidates& wanted, uint64_t bias);
  void give_back(Address landing, uint64_t bias);

 private:
  std::vector<Range> free_;                       // by address; whole pages
  uint64_t file_bias_ = 0;                        // of a file, which has none: where it might lie
  std::map<Address, std::vector<Address>> used_;  // by page
};

// What a page of springboards keeps to itself: its last bytes, by which the page is known
// (session/ownership.h).
inline constexpr uint64_t kLandingMarkSize = 8;

}  // namespace pinprick::probe
