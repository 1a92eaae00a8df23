// C++ symbol names as people write them.
#pragma once

#include <string>
#include <string_view>

namespace pinprick::image {

// The demangled name, or the name itself where it is not mangled.
std::string demangle(std::string_view name);

// `net::Conn::read(char*, int) const` -> `net::Conn::read`. A leading return type, which templates
// carry, goes as well. Names without a parameter list stay as they are, and so does what would have
// no name left.
std::string_view without_signature(std::string_view demangled);

}  // namespace pinprick::image
