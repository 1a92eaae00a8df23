// Finds code that makes calls which are not timed, but could be. A call is only timed if it was
// made from known code (runtime/callers.h). Code that the program generates is never known.
// Libraries that were loaded without a notice to us, and slots of another owner, become known when
// the process is looked at again.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/address.h"
#include "engine/engine.h"
#include "image/store/object_store.h"
#include "layout/session_file.h"
#include "target/remote_target.h"

namespace pinprick::session {

class CallerWatch {
 public:
  // Returns true if such calls were made since the last look, so that the process should be looked
  // at again. For 100 ms after such calls were seen it looks for no others, and returns false.
  bool finds_new(engine::Engine& engine);

 private:
  bool is_news(const target::RemoteTarget& target, Address caller,
               const std::vector<image::Mapping>& maps);

  uint64_t found_ns_ = 0;
  std::set<Address> files_;  // mappings of files that such calls came from
};

// The statistics of a process (session/statistics.h) have no controller that watches their callers.
// Each controller that comes to the process does it for them.

// Times calls from the process's objects, whose code is `objects`, and from the probes of all
// owners. The caller holds the process's turn. `except` is the path of a session's file that is not
// read, as it is no statistic's.
void admit_callers_of_statistics(const target::RemoteTarget& target, std::span<const Range> objects,
                                 const std::string& except = {});

// The same, and for sessions with these `journals`, which this controller has adopted after it
// opened `target`; but only if one of them has met a call from code that is not known to it. Waits
// 10 ms for the turn at most.
void look_after_callers(const target::RemoteTarget& target, image::ObjectStore& store,
                        std::span<const layout::Session* const> journals = {});

}  // namespace pinprick::session
