// Names of debug information in expressions: parameters, variables, and the members of their types.
// They become registers, numbers, loads and sums, which a hit computes without knowing any type.
//
//     r->peer->port   the `bytes` at *(r + offset of peer) + offset of port
//     name:string     the text at the start of the array, or at the address that is the pointer
//     items[n]        as much as an element has, at its place in the array
//
// A name means what is live at the instruction that is probed: the innermost variable, a parameter,
// or else a global variable. At the entry of a function the parameters are where its caller has
// passed them (debug/calling.h), even where the debug information says where they will be stored.
// What is computed when the call returns has the parameters as they were at the entry, and no other
// variables of the function.
//
// Memory is read as what any pointer leads to: without faults, whatever the debug information says.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "action/action.h"
#include "debug/debug_info.h"
#include "image/match.h"
#include "layout/frame_rows.h"
#include "plan/tactic.h"
#include "select/expression.h"
#include "session/typed_expression.h"

namespace pinprick::session {

class TypedNames {
 public:
  // `program` is that of the process, if there is one, and must outlive this.
  explicit TypedNames(image::Object* program = nullptr, const action::ValueLimits& limits = {})
      : program_(program), limits_(limits) {}

  using Place = TypedPlace;
  using When = TypedPlace::When;

  // Returns what is known of the place of a match; null if its object has no debug information. If
  // `needs_types`, that of the program may have them. Valid as long as this object.
  std::shared_ptr<const Place> known_at(const image::Match& match, When when,
                                        std::vector<TypedPlace::Parameter> parameters = {},
                                        bool needs_types = false);

  // Resolves the names that the debug information knows at the place, and leaves the others.
  // Returns an error if the expression asks for the type of one of those.
  std::optional<UntypedName> resolve(const Place& place, select::Expression& expression);
  // The same of what a field tells. The type also decides how it is shown, unless the user has said
  // that. If it has a layout, `rest` gets the parts after the first one, `room` of them at most.
  std::optional<UntypedName> resolve(const Place& place, action::Field& field, size_t room,
                                     std::vector<select::Expression>& rest);

  // Returns the names of the parameters that a hit there can tell.
  std::vector<std::string> parameters(const Place& place);
  // Returns the same of all variables, parameters among them.
  std::vector<std::string> variables(const Place& place);
  // Returns all that can be named there, in words.
  struct Described {
    std::string type, name, where;
    bool is_parameter = false;
  };
  std::vector<Described> described(const Place& place);
  // Returns all names that can be used there.
  std::vector<std::string> names(const Place& place);
  // Returns the type of the function's result; nullopt if it is not known.
  std::optional<debug::Type> result(const Place& place);
  // Is it a pointer to a text?
  static bool is_text(const Place& place, const debug::Type& type);
  // Says how a number of that type is shown, unless the user has said that.
  static void note_type(const Place& place, const debug::Type& type, action::Field& field);

 private:
  const std::vector<layout::FrameRow>& frames_of(const image::Object& object, Address at);

  image::Object* program_;
  action::ValueLimits limits_;
  std::map<std::pair<const image::Object*, Address>, TypedPlace::Owner> owners_;
  std::map<std::pair<const image::Object*, Address>, std::vector<layout::FrameRow>> frames_;
};

}  // namespace pinprick::session
