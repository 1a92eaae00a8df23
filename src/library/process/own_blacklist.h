// What must not be probed in our own process: the library itself, functions that the C library runs
// with all signals blocked (placement/signals_blocked.h), and functions that the program has named.
//
// Reads the objects of the process, which load lazily, so the caller holds the registry's lock.
// Cannot fail.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/address.h"
#include "image/match.h"
#include "library/process/own_image.h"

namespace pinprick::library {

class OwnBlacklist {
 public:
  // `image` must outlive it.
  explicit OwnBlacklist(OwnImage& image) : image_(image) {}

  // Returns why the instruction must not be probed; empty if it may be.
  std::string_view why_never_probed(const image::Match& match);
  // Adds a function that the program has named, for good.
  void block(const image::Match& match);
  // All functions on the list by address, a line each: start, end, name.
  std::string text();
  // To be called when the image was reloaded: what is kept of its objects is then invalid.
  void forget_objects() { ifunc_implementations_.clear(); }

 private:
  using Named = std::pair<Range, std::string>;
  bool is_own_code(Address address) const;
  // Is it an implementation to which an IFUNC of its object resolves (memcpy)? Such a function may
  // have no name of its own.
  bool implements_ifunc(const image::Match& match);
  std::string_view why_library_refuses(const image::Match& match);
  std::vector<Named> all_that_library_refuses();

  OwnImage& image_;
  std::vector<Named> blocked_;  // by the program
  std::map<const image::Object*, std::set<Address>> ifunc_implementations_;
};

}  // namespace pinprick::library
