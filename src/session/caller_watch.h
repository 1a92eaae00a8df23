// Finds code that makes calls which are not timed, but could be. A call is only timed if it was
// made from known code (runtime/callers.h). Code that the program generates is never known.
// Libraries that were loaded without a notice to us, and slots of another owner, become known when
// the process is looked at again.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>

#include "base/address.h"
#include "session/batch.h"
#include "target/remote_target.h"

namespace pinprick::session {

class CallerWatch {
 public:
  // Returns true if such calls were made since the last look, so that the process should be looked
  // at again. Looks ten times a second at most, and returns false in between.
  bool finds_new(const target::RemoteTarget& target, Batches& batches);

 private:
  bool is_news(const target::RemoteTarget& target, Address caller,
               const std::vector<image::Mapping>& maps);

  uint64_t looked_ns_ = 0;
  std::set<Address> files_;  // mappings of files that such calls came from
};

}  // namespace pinprick::session
