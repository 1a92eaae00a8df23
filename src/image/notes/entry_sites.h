// Entry sites: code at the start of functions that the compiler has left for tools, and which an
// object's sections list.
//
//     __patchable_function_entries    nops: -fpatchable-function-entry=N[,M]
//     __mcount_loc                    calls of __fentry__ or mcount, or nops: -pg -mrecord-mcount
//     xray_instr_map                  sleds, 11 bytes with a jump over nops: clang's
//     -fxray-instrument
//
// The last one lists sleds at returns, too: `ret`, and a nop that is never executed.
//
// Without -mrecord-mcount, -pg leaves no list. Its calls are found by what they call.
//
// The sections are not trusted. Each site is compared with the code; one where something else lies
// is left out, such as one that a tool uses at present.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "image/elf/elf_file.h"
#include "image/functions.h"

namespace pinprick::image {

class Object;

enum class EntryKind : uint8_t {
  patchable,  // nops
  fentry,     // a call of __fentry__ as the first instruction, or a nop instead
  mcount,     // a call of mcount after the prologue
  xray,       // a sled
};
std::string_view name(EntryKind kind);

// What a section says.
struct EntryRecord {
  Address address = 0;
  EntryKind kind = EntryKind::patchable;  // of __mcount_loc: fentry

  friend bool operator==(const EntryRecord&, const EntryRecord&) = default;
};

// A section with addresses, which lies at `address`. What the file has for one does not count if a
// relocation sets it.
std::vector<EntryRecord> parse_entry_addresses(std::span<const uint8_t> section, Address address,
                                               EntryKind kind,
                                               std::span<const Relocation> relocations);
// The entries of functions that xray_instr_map lists, which lies at `address`. Only version 2, with
// distances.
std::vector<EntryRecord> parse_xray_map(std::span<const uint8_t> section, Address address);

// The entry site of a function, in the object's own addresses.
struct EntrySite {
  Address function = 0;
  EntryKind kind = EntryKind::patchable;
  // Bytes at the function's first instruction, after an endbr64, that are there to be replaced:
  // nops, or a jump over nops. No other code leads into them. Empty where there is a call.
  Range room;
  // Of sleds: has the object code that throws, catches or cleans up? Then an exception may pass any
  // function of it.
  bool may_be_unwound = false;
};

// Returns the entry sites that the object's sections list, by function. Not for each call: it looks
// at all of them.
std::vector<EntrySite> find_entry_sites(Object& object);

// Returns which entry site the function has, whether listed or not.
std::optional<EntryKind> entry_kind(Object& object, const Function& function);

// Returns where the function calls mcount or __fentry__, in the object's own addresses; nullopt if
// it does not.
std::optional<Range> profiling_call(Object& object, const Function& function);

// Returns whether compilers give this name to a function that runs once, before `main` or after it:
// it initialises or destroys the static objects of a source file. They get entry sites, too.
bool is_static_initializer(std::string_view symbol);

}  // namespace pinprick::image
