// From patterns to the functions they mean.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "image/pattern.h"
#include "image/process.h"

namespace pinprick::image {

struct Match {
  Object* object = nullptr;
  const Function* function = nullptr;
  Address site = 0;         // run-time address: the function's begin, plus the pattern's offset
  std::string name;         // to show: demangled, with signature where overloads share the name
  size_t pattern = 0;       // index of the pattern that matched first; those with a wildcard last
  bool unresolved = false;  // an IFUNC whose implementation nobody in the process uses yet

  bool at_entry() const { return site == function->range.begin + object->bias(); }
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

// What the IFUNC `resolver` of `definer` has been resolved to, as the objects' relocated words
// show.
std::vector<Address> implementations(ProcessImage& image, Object& definer,
                                     const Function& resolver);

}  // namespace pinprick::image
