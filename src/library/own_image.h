// The objects of the process that we run in, as their files and untouched memory have them.
//
// Kept between calls, since symbols and decoded text are what takes time. Loaded anew when
// libraries have come or gone, and when an attached session has: with its jumps in it the text says
// nothing of where probes fit. The registry's lock is held. The process may be unreadable, and a
// name may mean no function, or more than one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "image/match.h"
#include "image/process.h"
#include "pinprick/error.h"
#include "pinprick/probe.h"

namespace pinprick::library {

class OwnImage {
 public:
  // `restore` puts into bytes read at an address what was there before we changed it.
  explicit OwnImage(std::function<void(Address, std::span<uint8_t>)> restore)
      : restore_(std::move(restore)) {}

  // Returns true if the objects were read anew; pointers into the former ones are then invalid.
  Result<bool, SystemError> refresh();
  // What was read may not be the program's own: it is read again next time.
  void forget() { generation_.reset(); }

  std::optional<image::Match> at(Address address) const;
  // All that one pattern means.
  Result<std::vector<image::Match>, Error> matching(std::string_view pattern);
  // The one instruction that is meant.
  Result<image::Match, Error> find(const Where& where);
  image::ProcessImage& objects() { return image_; }

 private:
  struct Generation {
    unsigned long long added = 0, removed = 0;
    friend bool operator==(const Generation&, const Generation&) = default;
  };
  static Generation now();

  std::function<void(Address, std::span<uint8_t>)> restore_;
  std::optional<Generation> generation_;
  bool has_foreign_probes_ = false;  // it was read when an attached session was there
  image::ProcessImage image_;
};

}  // namespace pinprick::library
