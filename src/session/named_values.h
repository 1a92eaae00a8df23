// What names in expressions mean at a match: what debug information says (typed_names.h), or
// parameters of functions whose prototypes are known (select/prototypes.h), and else global
// variables of the match's object. A parameter hides a variable, also where it cannot be read.
//
// One thread at a time for an image. A name that means nothing at a match is a reason to refuse it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "action/action.h"
#include "image/match.h"
#include "image/process.h"
#include "placement/probe_set.h"
#include "plan/tactic.h"
#include "select/prototypes.h"
#include "session/selection.h"

namespace pinprick::session {

// Returns the prototype of the match's function, by the name that was asked for or else by another
// of its names. Returns nullopt if its object is not a library that has prototypes, and for points.
std::optional<select::Prototype> prototype_of(const image::Match& match);

// Are these addresses of the object's own data that the program can read?
bool is_readable(const image::Object& object, Range addresses);

// No match of an action has what a name stands for, or a hit cannot read it.
struct UnknownName {
  BadExpression::Of of = BadExpression::Of::value;
  std::string point = {};
  std::string text = {};  // of the expression
  std::string name = {};
  plan::Reason reason = plan::Reason::unknown_name;  // of the first match
  std::string function = {};                         // that of the first match
  std::string object = {};
  bool is_point = false;
  bool has_prototype = false;
  std::vector<std::string> parameters = {};  // with `$argN`, where they are arguments: fd ($arg1)
  std::string why = {};                      // what the debug information says; empty: nothing
  std::vector<std::string> variables = {};   // that it knows there
};

// Adds to `actions` what the names in them mean at each of the matches. Moves the matches that are
// refused to `skipped`. Returns the first error; the rest is resolved all the same.
std::optional<UnknownName> resolve_names(const image::ProcessImage& image,
                                         const Selection& selection,
                                         std::vector<image::Match>& matches,
                                         action::Actions& actions,
                                         std::vector<placement::Skipped>& skipped);

}  // namespace pinprick::session
