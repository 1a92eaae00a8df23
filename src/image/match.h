// From patterns to the functions they mean.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "image/pattern.h"
#include "image/process.h"

namespace pinprick::image {

// How an instruction is shown: a function's name, and how far behind its begin it is.
std::string name_at(std::string_view function, uint64_t offset);

struct Match {
  Object* object = nullptr;
  const Function* function = nullptr;
  Address site = 0;  // run-time address: the function's begin, plus the pattern's offset
  // To show: demangled, with signature where overloads share the name. Lives as long as the object.
  std::string_view function_name;
  uint32_t pattern = 0;           // of the one that matched first; those with a wildcard last
  bool unresolved = false;        // an IFUNC whose implementation nobody in the process uses yet
  bool each_instruction = false;  // not the one at the site alone

  bool at_entry() const { return offset() == 0; }
  uint64_t offset() const { return offset_of(site); }
  // Of another address of the function.
  uint64_t offset_of(Address address) const {
    return address - object->bias() - function->range.begin;
  }
  std::string name() const { return name_at(function_name, offset()); }
};

struct Matches {
  std::vector<Match> matches;           // by object, then by address; each site once
  std::vector<size_t> unmatched;        // patterns that matched nothing
  std::vector<size_t> only_unreadable;  // ... whose object is there, but cannot be read
};

// `looks_at`: only these objects; empty: all.
Matches match_patterns(ProcessImage& image, const std::vector<Pattern>& patterns,
                       const std::vector<Pattern>& excluded,
                       const std::function<bool(const Object&)>& looks_at = {});

// Of whole functions, each instruction; other matches stay.
void mean_each_instruction(std::vector<Match>& matches);

// What the IFUNC `resolver` of `definer` has been resolved to, as the objects' relocated words
// show.
std::vector<Address> implementations(ProcessImage& image, Object& definer,
                                     const Function& resolver);

}  // namespace pinprick::image
