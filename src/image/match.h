// Finds the functions and the sites of SDT points that patterns match.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "image/pattern.h"
#include "image/process.h"

namespace pinprick::image {

// Returns how an instruction is shown: a function's name plus an offset.
std::string name_at(std::string_view function, uint64_t offset);

struct Match {
  Object* object = nullptr;
  const Function* function = nullptr;
  Address site = 0;  // run-time address: the function's start plus the pattern's offset
  // The name to show: demangled, with the signature if overloads share the name; PROVIDER:NAME of a
  // point; FILE:LINE of a line; of an inlined function, `f%inline in main+0x31`. Lives as long as
  // the object.
  std::string_view function_name;
  uint32_t pattern = 0;           // index of the first pattern that matched; names before wildcards
  bool unresolved = false;        // an IFUNC that the process has not used, so not resolved
  bool each_instruction = false;  // means every instruction of the function, not only `site`
  bool shares_name = false;       // another match has this name, and is another function

  uint32_t line = 0;  // the instruction is where this line of source begins; 0: any
  // The number of the inlined function that begins there, as debug information has it; 0: none is
  // meant.
  uint64_t inlined = 0;

  // The site of an SDT point, which is as old as the object; null if a function is meant.
  const SdtSite* point = nullptr;

  // What is inlined at the first instruction of a function is not that function.
  bool at_entry() const { return inlined == 0 && offset_of(site) == 0; }
  // Returns whether debug information alone knows the place.
  bool is_of_source() const { return line != 0 || inlined != 0; }
  // Returns the distance from the address that `function_name` stands for.
  uint64_t offset() const { return point != nullptr || is_of_source() ? 0 : offset_of(site); }
  // The same for another address of the function.
  uint64_t offset_of(Address address) const {
    return address - object->bias() - function->range.begin;
  }
  std::string name() const { return name_at(function_name, offset()); }
  // Returns the address in the object's file.
  Address address() const { return site - object->bias(); }
};

// Returns how patterns name this place alone, and then its name, if that is another: `m+0x1139
// (f)`.
std::string name_by_address(const Match& match);

struct Matches {
  std::vector<Match> matches;           // by object, then by address; sites are unique
  std::vector<size_t> unmatched;        // patterns that matched nothing
  std::vector<size_t> only_unreadable;  // patterns that match only objects which cannot be read
};

// Where a line of source, or an inlined function, begins, by the object's own addresses.
struct SourceSite {
  Address address = 0;
  std::string name;           // FILE:LINE, or FUNCTION%inline
  uint32_t line = 0;          // 0: it is an inlined function
  uint64_t inlined = 0;       // as in Match
  std::string function = {};  // that is inlined; mangled, if its name is
};
// Returns what a pattern for which names_source() is true means, as debug information knows it.
using FindSource = std::function<std::vector<SourceSite>(Object&, const Pattern&)>;

// Matches the patterns against the functions and points of all objects for which `looks_at` returns
// true; if it is empty, of all objects. Without `find_source`, patterns that name lines or
// inlined functions match nothing.
Matches match_patterns(ProcessImage& image, const std::vector<Pattern>& patterns,
                       const std::vector<Pattern>& excluded,
                       const std::function<bool(const Object&)>& looks_at = {},
                       const FindSource& find_source = {});

// Makes matches of whole functions mean each instruction; does not change others.
void mean_each_instruction(std::vector<Match>& matches);

// Returns the implementations that the IFUNC `resolver` of `definer` was resolved to, as found in
// relocated words of all objects.
std::vector<Address> implementations(ProcessImage& image, Object& definer,
                                     const Function& resolver);

}  // namespace pinprick::image
