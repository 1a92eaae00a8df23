// The events from which `locks` knows what is taken and released, as patterns of `trace`. Pure.
//
// Each event has one of the values that are named below, which says what has happened; its value is
// the address of the lock. What is told at a return has a result and a stack as well.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/messages/messages.h"
#include "cli/options.h"

namespace pinprick::cli {

inline constexpr std::string_view kTakenMutex = "mutex", kTriedMutex = "tried",
                                  kTakenByReader = "reading", kTriedByReader = "tried_reading",
                                  kTakenByWriter = "writing", kTriedByWriter = "tried_writing",
                                  kTakenOwn = "own", kReleased = "released",
                                  kSignalled = "signalled", kWaitBegins = "waits",
                                  kWaited = "waited";
// Of mutexes: how glibc keeps that they are recursive.
inline constexpr std::string_view kMutexKind = "kind";
// Of waits for conditions: the mutex.
inline constexpr std::string_view kMutexOfWait = "with";
inline constexpr std::string_view kLockResult = "result", kLockStack = "stack";

// Returns the patterns: those of the functions that the user names (--lock and --unlock), or those
// of POSIX threads, wherever they are. With --slower they are those of calls that may wait; how
// long these have to take is not in them, as `trace` adds it to all patterns.
Result<std::vector<std::string>, Message> lock_patterns(const Options& options);

// Returns whether the kind of a mutex says that its thread may take it several times.
bool is_recursive(uint64_t kind);

// Returns whether a function of POSIX threads that returned this has taken its lock. What the owner
// had not released when it ended is taken as well.
bool has_taken(uint64_t result);

}  // namespace pinprick::cli
