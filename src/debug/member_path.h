// Members of members, by which the structures of libraries are known.
#pragma once

#include <optional>
#include <string_view>

#include "debug/debug_info.h"

namespace pinprick::debug {

// Returns the member at the end of a path such as `_M_impl._M_start`, with its offset from the
// start of the structure; nullopt if there is none, or if a bit field is on the way.
std::optional<Member> find_path(DebugInfo& info, Type structure, std::string_view path);

}  // namespace pinprick::debug
