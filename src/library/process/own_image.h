// The objects of our own process, as their files and their unpatched memory have them.
//
// Kept between calls, since loading symbols and decoding text takes most of the time. Reloaded when
// libraries were loaded or unloaded, as long as the loader is relocating one, and when attached
// sessions come or go: text is read without their jumps, which hide where probes fit. Also in a
// forked child, and when the process's first thread has ended, as files are opened again by way of
// the process's folder in /proc. No descriptor is kept (ElfFile::Descriptor). The caller holds the
// registry's lock. Functions fail if the process cannot be read, or if a name means no function, or
// more than one.
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
#include "library/process/attached_sessions.h"
#include "library/process/loader_state.h"
#include "pinprick/error.h"
#include "pinprick/probe.h"

namespace pinprick::library {

class OwnImage {
 public:
  // `restore` replaces our changes in bytes that were read at an address by the original bytes.
  explicit OwnImage(std::function<void(Address, std::span<uint8_t>)> restore)
      : restore_(std::move(restore)) {}

  // Returns true if the image was reloaded; pointers into the old one are then invalid.
  Result<bool, SystemError> refresh();
  // Makes the next refresh() reload, as the bytes that were read may not be the program's own.
  void forget() { loaded_.reset(); }

  bool is_forgotten() const { return !loaded_; }
  // Are these the sessions that were there when it was loaded?
  bool has_read_beside(const AttachedSessions& sessions) const {
    return sessions.has_same_sessions(sessions_);
  }

  std::optional<image::Match> at(Address address) const;
  // All functions that the pattern matches.
  Result<std::vector<image::Match>, Error> matching(std::string_view pattern);
  // The one instruction that `where` means.
  Result<image::Match, Error> find(const Where& where);
  image::ProcessImage& objects() { return image_; }

 private:
  std::function<void(Address, std::span<uint8_t>)> restore_;
  std::optional<LoaderState> loaded_;  // when it was loaded
  AttachedSessions sessions_;          // as they were when it was loaded
  std::string folder_;                 // the process's in /proc, likewise
  image::ProcessImage image_;
};

}  // namespace pinprick::library
