// Finds what a selection means in a process: functions, and the points of spans.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "image/elf/elf_file.h"
#include "image/match.h"
#include "image/process.h"
#include "placement/probe_set.h"
#include "session/named_values.h"
#include "session/selection.h"

namespace pinprick::session {

// Is it an error if a pattern, or a point of a span, matches nothing?
enum class Unmatched : uint8_t { refuse, accept };

// Will objects that the process loads later be probed?
enum class Loads : uint8_t { ignored, tracked };

struct NothingMatched {
  std::vector<std::string> patterns;  // empty if there were matches, and all are excluded
  bool entry_sites = false;           // only functions with such a site were meant
  // The functions that patterns for inlined ones name, and that debug information knows to be
  // inlined nowhere. With `has_own_code` the first of them is a function that can be probed.
  std::vector<std::string> inlined_nowhere = {};
  bool has_own_code = false;
  // The first of the patterns that names an inlined function, and how many places it has; 0: none.
  std::string inlined = {};
  size_t inlined_places = 0;
  // What Unmatched::accept would do.
  enum class Remedy : uint8_t { none, accept, await_loads } remedy = Remedy::none;
};

// A point of a span matches more than one site. The sites of one SDT point are one.
struct AmbiguousPoint {
  std::string span;
  std::string point;
  size_t matches = 0;
  std::vector<std::string> some;  // the first of them, as patterns name them
};

// With UnknownName, no match of a pattern has what a name in its expressions means. With
// image::ElfError the object that a pattern names is there, but cannot be read.
using MatchError = std::variant<image::ElfError, NothingMatched, AmbiguousPoint, UnknownName>;

// Are the points of spans matched, too?
enum class Points : bool { left_out, included };

// Returns what the patterns of each action match, in the objects for which `looks_at` returns
// true; if it is empty, in all objects.
image::Matches match_actions(image::ProcessImage& image, const Selection& selection, Points points,
                             const std::function<bool(const image::Object&)>& looks_at = {});

// Returns the functions that the patterns match. It is an error if there are none at all, unless
// unmatched patterns are accepted and loads are tracked.
Result<std::vector<image::Match>, MatchError> match(image::ProcessImage& image,
                                                    const Selection& selection, Unmatched unmatched,
                                                    Loads loads = Loads::ignored,
                                                    Points points = Points::included);

// Returns the points of the selected spans: of an SDT point, all its sites in one object.
Result<std::vector<placement::SpanMatches>, MatchError> match_spans(image::ProcessImage& image,
                                                                    const Selection& selection,
                                                                    Unmatched unmatched);

// Returns at how many places the one function that the pattern names was inlined, in this object,
// or in all if it is null. Returns 0 if the pattern may name several functions, or other things.
size_t inlined_places(image::ProcessImage& image, const image::Pattern& pattern,
                      const image::Object* only = nullptr);

// May the patterns match in objects that are not loaded yet?
bool may_match_later(const image::ProcessImage& image, const Selection& selection);

}  // namespace pinprick::session
