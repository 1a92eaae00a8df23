// Finds every address of an object's text at which execution may arrive other than by falling
// through. Pure.
//
// A probe that displaces several instructions relies on this: no branch may lead between them. The
// result is a superset, found from everything that could hold such an address:
//   - Direct branches and calls, from decoding all text, functions and gaps alike.
//   - Symbols of any kind, unwind entries, landing pads of exception tables.
//   - Code whose address an instruction takes: by a RIP-relative lea, an immediate or, in objects
//     with fixed addresses, a displacement.
//   - 8-byte words anywhere in the object's data that are addresses of its text (labels as values,
//     function pointers, absolute jump tables), and relocations that make such words. In the file
//     of a position-independent object only the latter count.
//   - In objects with fixed addresses: 4-byte tables of addresses, if an instruction takes the
//     table's address, or adds an index to it in code that jumps to a register. Any number may look
//     like such an entry; no compiler makes such tables, but assembly may.
//   - 4-byte tables relative to their own address: for every address that an instruction takes, the
//     entries as long as they lead into text (switches of GCC and clang).
//   - 4-byte tables of distances from a label in the function that jumps by them, as in
//     `goto *(&&label + table[i])`: every table in data combined with every label of its own whose
//     addresses such a function takes.
//   - For a jump to a label plus a multiple of a power of two, as the straight-line code before it
//     shows: every address at such a distance, in its function and in the one that the label is in
//     (blocks of one size, in assembly).
// In objects that have only one segment, read-only data is in the text; there words and tables are
// searched for in text, too.
//
// A function with a computed jump that none of these explains has unresolved control flow
// (BranchTargets::has_unresolved_jump): nothing is known about its inside.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/address.h"
#include "base/parallel.h"
#include "image/elf/elf_file.h"
#include "image/functions.h"
#include "image/scan/branch_targets.h"

namespace pinprick::image {

struct CodeBytes {
  Address address = 0;
  std::span<const uint8_t> bytes;
  Range range() const { return {address, address + bytes.size()}; }
};

struct ObjectBytes {
  std::vector<CodeBytes> text;  // executable segments
  std::vector<CodeBytes> data;  // all other segments that are loaded
  // What is added to addresses in data words, if these come from memory.
  uint64_t bias = 0;
  bool fixed_addresses = false;  // not position independent: addresses may be 32 bits wide
  // If the bytes are those of the file: the part of the data that the program may write. A table
  // there explains no jump, since it may have changed.
  std::vector<Range> changing;
};

// Returns the branch targets; the same ones for any number of threads. May throw Cancelled
// (base/task.h).
BranchTargets find_branch_targets(const ObjectBytes& object, const FunctionTable& functions,
                                  std::span<const Relocation> relocations,
                                  std::span<const Address> landing_pads,
                                  size_t threads = usable_threads());

// Returns the words of `data`, as read from a process, that are addresses of `text`; both are in
// the object's own addresses, and the words are higher by `bias`.
std::vector<Address> find_pointers_to_text(std::span<const CodeBytes> data, uint64_t bias,
                                           std::span<const Range> text);

// Returns the restartable sequences (rseq) of the object: their instructions, the instruction
// before them that stores the descriptor's address, and the signature before their abort address. A
// probe on any of these would break them.
std::vector<Range> find_restartable_sequences(const ObjectBytes& object,
                                              std::span<const Relocation> relocations);
// Returns those whose descriptors are in `data`, as above. `code_at` returns bytes of the text;
// empty if they are not text.
std::vector<Range> find_restartable_sequences_in_data(
    std::span<const CodeBytes> data, uint64_t bias, std::span<const Range> text,
    const std::function<std::span<const uint8_t>(Range)>& code_at);

}  // namespace pinprick::image
