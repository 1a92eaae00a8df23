// Prototypes: the parameters of functions of well-known libraries, with the names that their
// manuals or headers have.
//
// They come from a table that scripts/make-prototypes writes, of the libraries of Debian 12 for
// x86-64. Other versions of a library have the same functions, with few exceptions; what a process
// has mapped is not compared. All texts are parts of the table. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "select/value.h"

namespace pinprick::select {

struct Parameter {
  // What is known of it besides its type, which says more of the others.
  enum class Kind : uint8_t {
    other,
    flags,
    text,            // ends with a zero
    bytes,           // `length` of them
    output,          // the function writes there
    output_bytes,    // up to `length` of them
    floating_point,  // in a vector register
  } kind = Kind::other;
  std::string_view name;    // empty: it has none
  std::string_view type;    // as C spells it
  std::string_view length;  // a number, a parameter, or an expression of these: size*nmemb
  uint8_t argument = 0;     // n of $argN; 0: it is in no general register at the entry
  uint8_t bytes = 8;
  bool is_signed = false;
  bool is_pointer = false;
};

struct Prototype {
  // How the function says that it has failed, when errno says why.
  enum class Failure : uint8_t { none, minus_one, null } failure = Failure::none;
  std::string_view function;
  std::string_view result;  // its type
  // The same as a parameter without a name; nullopt if it is nothing that is returned in rax.
  std::optional<Parameter> returned;
  bool takes_more = false;  // it ends with `...`
  std::vector<Parameter> parameters;

  // Returns null if there is no parameter of that name.
  const Parameter* find(std::string_view name) const;
};

// The libraries that have prototypes, by the names of their files without versions: libc.
std::span<const std::string_view> libraries_with_prototypes();

// Returns the prototype of a function of that library, by the name of a symbol. Names of the C
// library may start with `__` or `__libc_`. Returns nullopt if none is known.
std::optional<Prototype> find_prototype(std::string_view library, std::string_view function);

// Returns the value of a parameter that is an argument: of the type that the user gave, or else of
// its own.
Value value_of(const Parameter& parameter, const Value& wanted);

}  // namespace pinprick::select
