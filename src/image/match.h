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
  // point; FILE:LINE of a line. Lives as long as the object.
  std::string_view function_name;
  uint32_t pattern = 0;           // index of the first pattern that matched; names before wildcards
  bool unresolved = false;        // an IFUNC that the process has not used, so not resolved
  bool each_instruction = false;  // means every instruction of the function, not only `site`
  bool shares_name = false;       // another match has this name, and is another function

  uint32_t line = 0;  // the instruction is where this line of source begins; 0: any

  // The site of an SDT point, which is as old as the object; null if a function is meant.
  const SdtSite* point = nullptr;

  bool at_entry() const { return offset_of(site) == 0; }
  // Returns the distance from the address that `function_name` stands for.
  uint64_t offset() const { return point != nullptr || line != 0 ? 0 : offset_of(site); }
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

// Where a line of source begins in an object, by the object's own addresses.
struct LineSite {
  Address address = 0;
  uint32_t line = 0;
  std::string name;  // FILE:LINE
};
// Returns the lines that a pattern names, which debug information knows.
using FindLines = std::function<std::vector<LineSite>(Object&, const Pattern::Lines&)>;

// Matches the patterns against the functions and points of all objects for which `looks_at` returns
// true; if it is empty, of all objects. Without `find_lines`, patterns that name lines match
// nothing.
Matches match_patterns(ProcessImage& image, const std::vector<Pattern>& patterns,
                       const std::vector<Pattern>& excluded,
                       const std::function<bool(const Object&)>& looks_at = {},
                       const FindLines& find_lines = {});

// Makes matches of whole functions mean each instruction; does not change others.
void mean_each_instruction(std::vector<Match>& matches);

// Returns the implementations that the IFUNC `resolver` of `definer` was resolved to, as found in
// relocated words of all objects.
std::vector<Address> implementations(ProcessImage& image, Object& definer,
                                     const Function& resolver);

}  // namespace pinprick::image
