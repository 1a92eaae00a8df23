// The objects of the process that we run in, as their files and untouched memory have them.
//
// Kept between calls, since symbols and decoded text are what takes time; loaded anew when
// libraries have come or gone. One thread at a time.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "image/match.h"
#include "image/process.h"
#include "pinprick/error.h"

namespace pinprick::library {

class OwnImage {
 public:
  // `restore` puts into bytes read at an address what was there before we changed it.
  explicit OwnImage(std::function<void(Address, std::span<uint8_t>)> restore)
      : restore_(std::move(restore)) {}

  // True: the objects are new ones, and whoever holds on to the old has to let go.
  Result<bool, SystemError> refresh();
  // What was read may not be the program's own: it is read again next time.
  void forget() { generation_.reset(); }

  std::optional<image::Match> at(Address address) const;
  // All that one pattern means.
  Result<std::vector<image::Match>, Error> matching(std::string_view pattern);
  // Why the function must not be probed in this process; empty: it may be.
  std::string_view why_never_probed(const image::Match& match);
  // All such functions, with their names.
  std::vector<std::pair<Range, std::string>> never_probed();
  const image::ProcessImage& objects() const { return image_; }

 private:
  struct Generation {
    unsigned long long added = 0, removed = 0;
    friend bool operator==(const Generation&, const Generation&) = default;
  };
  static Generation now();
  // Is it what an IFUNC of its object has been resolved to (memcpy)? Such a function may have no
  // name of its own.
  bool implements_ifunc(const image::Match& match);
  bool is_own_code(Address address) const;

  std::function<void(Address, std::span<uint8_t>)> restore_;
  std::optional<Generation> generation_;
  image::ProcessImage image_;
  std::map<const image::Object*, std::set<Address>> ifunc_implementations_;
};

}  // namespace pinprick::library
