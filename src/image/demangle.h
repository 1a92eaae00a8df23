// C++ symbol names as people write them. Pure.
#pragma once

#include <string>
#include <string_view>

namespace pinprick::image {

// Returns the demangled name, or the name itself if it is not mangled.
std::string demangle(std::string_view name);

// Removes the signature: `net::Conn::read(char*, int) const` -> `net::Conn::read`. Also removes a
// leading return type, which templates have. Returns the name unchanged if it has no parameter
// list, or if nothing would be left.
std::string_view without_signature(std::string_view demangled);

}  // namespace pinprick::image
