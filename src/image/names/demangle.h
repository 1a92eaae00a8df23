// Symbol names as people write them: C++'s, Rust's, and those that compilers give to copies. Pure.
#pragma once

#include <string>
#include <string_view>

namespace pinprick::image {

// Returns the demangled name, or the name itself if it is not mangled.
std::string demangle(std::string_view name);

// Returns whether the name may be mangled.
inline bool is_mangled(std::string_view name) {
  return name.starts_with("_Z") || name.starts_with("_R");
}

// Removes the signature: `net::Conn::read(char*, int) const` -> `net::Conn::read`. Also removes a
// leading return type, which templates have, what tells a copy from its function (` [clone
// .isra.0]`), and the hash of a Rust name. Returns the name unchanged if nothing would be left.
std::string_view without_signature(std::string_view demangled);

// Returns whether the name is that of a copy or a part which a compiler has made of a function:
// `f(int) [clone .isra.0]`.
inline bool is_of_copy(std::string_view demangled) {
  return demangled.find(" [clone .") != demangled.npos;
}

// Returns the name of the function of which a symbol that is not mangled is a copy or a part:
// `f` for f.isra.0, f.constprop.0.isra.1, f.part.0, f.lto_priv.0, f.llvm.42, f.cold; the symbol
// itself if it is none. Other names may have dots as well, such as all of Go.
std::string_view without_copy_suffix(std::string_view symbol);

}  // namespace pinprick::image
