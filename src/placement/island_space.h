// Chooses addresses for islands, where puns lead (plan/pun.h): free in a process, according to its
// mappings, or likely to be free in one that will run a file. Pure.
//
// An island takes a page of memory, unless one of the pages taken already suits it, so the number
// of pages is limited. Islands lie well away from the heap and the stack, which may grow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "image/process.h"
#include "plan/pun.h"

namespace pinprick::placement {

// The last bytes of a page of islands are a mark by which it is recognised
// (engine/owners/ownership.h).
inline constexpr uint64_t kIslandMarkSize = 8;
// The first bytes of one that stays are another mark, by which later probes find it
// (engine/memory/kept_memory.h). An island lies there only if it can lie nowhere else.
inline constexpr uint64_t kKeptMarkSize = 16;

class IslandSpace {
 public:
  // Pages. Each may be a mapping of its own in the target.
  static constexpr size_t kMostPages = 256;

  IslandSpace() = default;  // empty
  static IslandSpace around(const image::ProcessImage& image);

  // Takes one of the wanted addresses for an island; nullopt if none is free. Addresses are an
  // object's own, and `bias` is that object's.
  std::optional<Address> take(const plan::Candidates& wanted, uint64_t bias);
  // The same for the island of the function at `site`. If the jump is followed by code generators,
  // a stub that earlier probes have left for the same function is taken first
  // (engine/memory/kept_memory.h): there may be no other place. It is taken once, also if it is
  // given back.
  std::optional<Address> take(const plan::Candidates& wanted, uint64_t bias, Address site);
  void give_back(Address island, uint64_t bias);

 private:
  struct Page {
    std::vector<Address> islands;
    bool may_stay = false;
  };
  // At best, what may have to stay is apart from the rest, whose places are free again then, and
  // leaves room for the mark.
  enum class Choice : uint8_t { best, any };

  // `bias` and results as in the process.
  std::optional<Address> take_on_used_page(const plan::Candidates& wanted, uint64_t bias,
                                           Choice choice);
  std::optional<Address> take_on_free_page(const plan::Candidates& wanted, uint64_t bias,
                                           Choice choice);
  static uint64_t first_offset(const plan::Candidates& wanted, Choice choice);

  std::vector<Range> free_;  // by address; whole pages
  uint64_t file_bias_ = 0;   // where a file that does not run might be loaded
  std::map<Address, Page> used_;
  std::map<Address, Address> kept_;  // stubs by function
};

}  // namespace pinprick::placement
