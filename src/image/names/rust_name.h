// Rust symbol names as people write them. Pure.
//
// rustc has two ways to mangle. The legacy one looks like C++ and ends in a hash:
// `_ZN3foo3bar17h0123456789abcdefE` is foo::bar::h0123456789abcdef. The one of RFC 2603 (v0) starts
// with `_R` and can be read back in full: `_RNvCs1234_3foo3bar` is foo::bar.
//
// Names come from files, and may be anything. The work for a name is bounded, however often it
// refers back to its own parts.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pinprick::image {

// Returns the name that rustc's users write; nullopt if it is not a mangled name of Rust. A suffix
// that a compiler added is written as in C++: ` [clone .llvm.42]`. The hashes of v0 names are left
// out, and types of constants.
std::optional<std::string> demangle_rust(std::string_view name);

// Returns the name without what tells functions from each other that have one name in the source:
// the hash at its end, or the arguments of a generic function: `foo::bar` for `foo::bar::<i32>`.
// Returns the name itself if it has neither.
std::string_view without_rust_details(std::string_view demangled);

}  // namespace pinprick::image
