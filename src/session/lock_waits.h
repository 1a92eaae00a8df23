// Which threads of a process wait for which locks right now, and who holds these: from the kernel,
// which tells the word that a thread waits for, and from the locks themselves, in which glibc keeps
// the TID of the owner. Needs no probe, so it also tells of what hangs already.
//
// Reads only, and stops nothing. The program goes on meanwhile, so what does not last may be seen
// half. A deadlock lasts: it is told if two looks have seen the same, and none of its threads has
// run in between. All that is read of the process is hostile: a wrong owner leads to no more than a
// wrong line.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "image/store/object_store.h"
#include "session/report.h"

namespace pinprick::session {

struct LockWait {
  enum class Kind : uint8_t { mutex, readers_writer, end_of_thread } kind = Kind::mutex;
  pid_t thread = 0;
  std::string thread_name;
  Address lock = 0;
  std::string lock_name;  // of a variable, or an object and an offset, or the address
  pid_t owner = 0;        // 0: it is not known, as that of a lock that readers have
  std::string owner_name;
  bool owner_has_ended = false;
  bool gives_up = false;                 // the wait ends by itself at some time
  std::vector<std::string> stack;        // the innermost frame first
  std::vector<std::string> owner_stack;  // empty if it runs, or waits for a lock itself
};
std::string_view word_of(LockWait::Kind kind);

struct LockWaits {
  ProcessName process;
  size_t threads = 0;  // all of the process
  std::vector<LockWait> waits;
  // Rings of indices of `waits`: each thread waits for the next one, and none will ever go on.
  std::vector<std::vector<size_t>> deadlocks;
};

// Fails if the process has gone, or may not be looked at.
Result<LockWaits, SystemError> lock_waits(const ProcessName& process, image::ObjectStore& store);

// The same of waits that last for 10 ms at least.
Result<LockWaits, SystemError> lasting_lock_waits(const ProcessName& process,
                                                  image::ObjectStore& store);

// Likewise, but looks no further, and returns an empty result, if there is no deadlock. For looking
// often.
Result<LockWaits, SystemError> deadlocks(const ProcessName& process, image::ObjectStore& store);

}  // namespace pinprick::session
