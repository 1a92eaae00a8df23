// What must not be probed in one's own process: the library itself, what the C library runs with
// all signals blocked (probe/signals_blocked.h), and what the program has named.
//
// Reads the objects of the process, which load lazily, so the registry's lock is held. Nothing can
// go wrong.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/address.h"
#include "image/match.h"
#include "library/own_image.h"

namespace pinprick::library {

class OwnBlacklist {
 public:
  // `image` outlives it.
  explicit OwnBlacklist(OwnImage& image) : image_(image) {}

  // Why the instruction must not be probed; empty: it may be.
  std::string_view why_never_probed(const image::Match& match);
  // The program names a function; for good.
  void block(const image::Match& match);
  // All such functions by address, a line each: begin, end, name.
  std::string text();
  // The image was read anew. What is kept of its objects does not hold for the new ones.
  void forget_objects() { ifunc_implementations_.clear(); }

 private:
  using Named = std::pair<Range, std::string>;
  bool is_own_code(Address address) const;
  // Is it what an IFUNC of its object has been resolved to (memcpy)? Such a function may have no
  // name of its own.
  bool implements_ifunc(const image::Match& match);
  std::string_view why_library_refuses(const image::Match& match);
  std::vector<Named> all_that_library_refuses();

  OwnImage& image_;
  std::vector<Named> blocked_;  // by the program
  std::map<const image::Object*, std::set<Address>> ifunc_implementations_;
};

}  // namespace pinprick::library
