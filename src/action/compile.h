// Makes of an expression as users write it (select/expression.h) what a stub computes
// (arch/expression.h): resolves arguments, decides which operations have a sign, and which are ones
// of floating-point numbers, and computes what has numbers alone. The result of an expression that
// is a floating-point number (select::is_real) is the bits of one of 64 bits. Pure.
#pragma once

#include <functional>
#include <optional>

#include "arch/expression.h"
#include "select/expression.h"

namespace pinprick::action {

// The place in which a hit finds an argument or a register.
struct Found {
  arch::Source source;
  // Whether the place says if there is a sign, as it does for arguments of SDT points; in a
  // register, a value without a type may have one.
  bool knows_sign = false;
};
using SourceOf = std::function<Found(const select::Value&)>;

arch::Expression compile(const select::Expression& expression, const SourceOf& source_of);

// The place in which a return finds what was computed at the entry, of a part of an expression.
// Returns nullopt if it was not.
using KeptOf = std::function<std::optional<Found>(const select::Expression&, const select::Node&)>;
arch::Expression compile(const select::Expression& expression, const SourceOf& source_of,
                         const KeptOf& kept_of);

// Are results of 2^63 and more negative, as in operations with them?
bool is_signed(const select::Expression& expression, const SourceOf& source_of);

// The same, but an argument or register alone that has no type has no sign.
bool has_sign(const select::Expression& expression, const SourceOf& source_of);

}  // namespace pinprick::action
