// Values that are no single number or text: structures, arrays, containers, floating-point numbers.
//
// A hit reads them in parts, each of which is an expression of its own: up to 8 bytes, or a text.
// So what it does is known before the probe is placed, and no more than that is read: of an array
// as many elements as are shown, and of structures in structures as many levels. Elements that a
// container does not have are not read (Operator::guarded).
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "action/value_layout.h"
#include "select/expression.h"
#include "session/typed_expression.h"

namespace pinprick::session {

struct WholeValue {
  action::ValueLayout layout;
  std::vector<select::Expression> parts;  // at least one
};

// Has it parts? `what` is what an expression was resolved to.
bool has_parts(const TypedPlace& place, const Typed& what);

// Returns the parts of the value that `expression` stands for, as many as `most` at most; what
// comes after them is left out. If `is_raw`, containers are structures like others. Returns nullopt
// if it has no parts, or if none of them can be read.
std::optional<WholeValue> whole_value(const TypedPlace& place, const select::Expression& expression,
                                      const action::ValueLimits& limits, size_t most, bool is_raw);

}  // namespace pinprick::session
