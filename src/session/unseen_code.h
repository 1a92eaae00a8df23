// Code of a process that no probe can reach because pinprick does not see it. A user who selects
// all functions has to know.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "image/pattern.h"
#include "image/process.h"

namespace pinprick::session {

struct UnseenCode {
  enum class Why : uint8_t {
    replaced,           // the object's file is gone: only dynamic symbols are in memory
    unreadable,         // the object cannot be read, or not be probed: `error`
    without_functions,  // code that neither symbols nor unwind tables describe
  } why = Why::replaced;
  std::string object;  // its name
  image::ElfError error;
  uint64_t unknown = 0, text = 0;  // without_functions: bytes, and bytes of code in all
};

// Returns the objects that cannot be read although a pattern may mean functions in them, and those
// that were read from memory. Data that happens to be mapped executable is left out.
std::vector<UnseenCode> unseen_objects(const image::ProcessImage& image,
                                       std::span<const image::Pattern> wanted);

// Returns the objects, of those that `looks_at` accepts and a pattern with a wildcard may mean, of
// whose code a considerable part belongs to no known function. Reads the functions of these
// objects.
std::vector<UnseenCode> text_without_functions(
    image::ProcessImage& image, std::span<const image::Pattern> wanted,
    const std::function<bool(const image::Object&)>& looks_at = {});

}  // namespace pinprick::session
