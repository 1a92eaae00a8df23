// The events from which `leaks` knows what is allocated and freed, as patterns of `trace`. Pure.
//
// Each event has some of the values that are named below. An allocation has `new`, `size` and
// `stack`, and a free has `old`. A reallocation has `moved` when it begins, which is its old block,
// and all others when it has returned.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/messages/messages.h"
#include "cli/options.h"

namespace pinprick::cli {

inline constexpr std::string_view kNewPointer = "new", kOldPointer = "old", kMovedPointer = "moved",
                                  kBlockSize = "size", kBlockStack = "stack";

// Returns the patterns: those of the functions that the user names (--alloc and --free), or those
// of malloc's family, wherever they are. A process has a few of these at most.
Result<std::vector<std::string>, Message> leak_patterns(const Options& options);

// Returns whether the block with this address is one of those that are followed, of which there is
// one in `classes` (--sample). The conditions of the patterns say the same.
bool is_followed(uint64_t pointer, uint32_t classes);

// Returns whether a reallocation that returned this pointer, and was asked for such a size, has
// left the old block as it was.
bool has_failed(uint64_t pointer, uint64_t size);

}  // namespace pinprick::cli
