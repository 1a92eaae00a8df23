// DebugInfo: what the debug information of one file says: which code belongs to a source line,
// which variables live at an instruction and where, and of which types they are.
//
// Reads DWARF 4 and 5 by libdw, from the file itself or from its separate debug file. The file is
// not trusted: what cannot be read is missing, and no type or scope is followed for ever. Addresses
// are the file's own. All methods may be called by several threads, one at a time: they take a
// lock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "debug/location.h"

namespace pinprick::debug {

struct Type {
  enum class Kind : uint8_t {
    none,  // void, or a type that is only declared
    integer,
    boolean,
    character,
    floating_point,
    enumeration,
    pointer,
    structure,  // or a class, or a union
    array,
    function,
    other,
  } kind = Kind::none;
  bool is_signed = false;
  bool is_reference = false;  // it is a pointer, and what it leads to is meant
  uint64_t bytes = 0;         // 0: not known
  std::string name;           // as C spells it; typedefs keep their names
  uint64_t entry = 0;      // its number in the debug information, without typedefs and qualifiers
  uint8_t dimension = 0;   // of an array: how many of its indexes have been given
  uint64_t alignment = 0;  // that the source asks for; 0: none
  // How a structure is passed to functions, where the debug information says so.
  enum class Passed : uint8_t { unknown, by_value, by_reference } passed = Passed::unknown;
  bool is_of_c = true;  // else structures of 16 bytes may be passed by reference as well
};

// Is it a number of 1, 2, 4 or 8 bytes, such as a pointer, that is no floating-point number?
bool is_number(const Type& type);

struct Variable {
  std::string name;
  Type type;
  bool is_parameter = false;
  uint32_t parameter = 0;    // from 1; 0: none, or of an inlined function
  bool is_external = false;  // it has no place here, but a symbol of its name has one
  Location location;         // at the instruction that was asked for
};

struct Function {
  std::vector<Variable> parameters;  // in order, where they are at the entry
  Type result;                       // none: it returns nothing
};

inline constexpr uint64_t kBitsInByte = 8;

struct Member {
  std::string name;  // empty: its own members count as members of the structure
  Type type;
  uint64_t offset = 0;      // in bytes, from the start of the structure
  uint32_t bit_offset = 0;  // of a bit field, from the lowest bit at `offset`; 7 at most
  uint32_t bits = 0;        // 0: it is no bit field
  bool is_base = false;     // a base class
};

struct LineCode {
  Address address = 0;
  uint32_t line = 0;
  std::string file = {};  // its path, as the compiler was given it
};

// A copy of an inlined function in the code of another one.
struct InlinedCode {
  Address address = 0;
  uint64_t number = 0;        // tells it from others in the same function; never 0
  std::string function = {};  // its name as the linker has it: mangled, if it is one of C++
};

// Says which of those that may begin at one instruction is meant: the function, the line, or an
// inlined function. Other inlined functions that begin there are not entered yet.
struct Beginning {
  bool of_function = false;
  uint32_t line = 0;
  uint64_t inlined = 0;  // InlinedCode::number
};

// The variants of a structure, of which an object is one, such as the enumerations of Rust.
struct Variants {
  struct Variant {
    std::optional<uint64_t> number;  // that `which` has; nullopt: any other
    Member member;                   // the variant's own structure, with the variant's name
  };
  std::optional<Member> which = {};  // nullopt: there is one variant alone
  std::vector<Variant> all = {};     // the one without a number comes last
};

class DebugInfo {
 public:
  // `fd` is an open file, of which the object keeps a copy. Returns null if the file has no debug
  // information.
  static std::unique_ptr<DebugInfo> open(int fd);
  ~DebugInfo();

  // Returns the parameters and variables that can be named at an instruction, the innermost scope
  // first. A name that an inner scope hides is left out, and so are those of the functions that an
  // inlined one was inlined into.
  std::vector<Variable> variables_at(Address address, const Beginning& beginning = {});
  // Returns the variable of that name, of the file of source that the instruction is from, or else
  // of any other; nullopt if there is none.
  std::optional<Variable> find_global(std::string_view name, Address address);
  // Returns nullopt if no function is known to start there.
  std::optional<Function> function_at(Address entry);

  // Returns the structure or typedef of that name; nullopt if there is none.
  std::optional<Type> find_type(std::string_view name);
  // Returns the structures of that name, or of typedefs of that name, which may differ between
  // files of source. The name may be qualified: net::Conn.
  std::vector<Type> find_structures(std::string_view name);
  // Returns the type that a pointer leads to, or that an array has as its elements.
  std::optional<Type> target_of(const Type& type);
  // Returns the name of a structure, without typedefs and qualifiers; empty if it has none.
  std::string own_name(const Type& structure);
  // Returns the types that a generic structure was given, in order.
  std::vector<Type> type_arguments(const Type& structure);
  // Base classes have no names, nor have unnamed structures and unions.
  std::vector<Member> members_of(const Type& structure);
  // Returns the virtual base classes, whose places differ from object to object.
  std::vector<Type> virtual_bases_of(const Type& structure);
  // Returns nullopt if it has no variants, or if several numbers mean one of them.
  std::optional<Variants> variants_of(const Type& structure);
  // Looks in members without names, too, and in the variants.
  std::optional<Member> find_member(const Type& structure, std::string_view name);
  // Returns the values of an enumeration.
  struct Enumerator {
    std::string name;
    uint64_t value = 0;
  };
  std::vector<Enumerator> enumerators_of(const Type& enumeration);

  // Returns where statements of these lines begin, in files whose path ends with these components:
  // of each line the lowest address in each function, and in each place where a function is
  // inlined. If a single line has no code, that is those of the next line of its function that has
  // some.
  std::vector<LineCode> code_of_lines(std::string_view file, uint32_t first, uint32_t last);
  // Returns where functions were inlined for whose names `is_meant` returns true, by address: each
  // is entered at that instruction. The first call looks at all functions of the file.
  std::vector<InlinedCode> inlined_code(const std::function<bool(std::string_view)>& is_meant);
  // Returns where statements begin in this code, by address, without those of the line before.
  std::vector<LineCode> lines_of(Range code);

 private:
  struct State;
  explicit DebugInfo(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace pinprick::debug
