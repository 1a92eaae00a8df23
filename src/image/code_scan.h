// Every address of an object's text at which execution may arrive other than by falling through.
//
// A probe that displaces several instructions must know that nobody enters between them. The set is
// a superset, found by looking at everything that could hold such an address:
//   - direct branches and calls, from decoding all text, functions and gaps alike;
//   - symbols of any kind, unwind entries, landing pads of exception tables;
//   - code whose address an instruction takes, as a RIP-relative lea, an immediate or, in objects
//     with fixed addresses, a displacement;
//   - 8-byte words anywhere in the object's data that are addresses of its text (labels as values,
//     function pointers, absolute jump tables), and relocations that make such words; from the file
//     of a position-independent object the latter alone;
//   - in objects with fixed addresses, 4-byte tables of addresses that an instruction takes the
//     address of, or adds an index to in code that jumps to a register. Any number may look like
//     such a word; no compiler makes such tables, but assembly may;
//   - 4-byte tables relative to their own address: for every address that an instruction takes, its
//     entries as long as they lead into text (switches of GCC and clang).
// With one segment for all, read-only data lies in text: there all of that is looked for as well.
//   - 4-byte tables of distances from a label of the function that jumps by them: for every table
//     in data and every label of its own that such a function takes
//     (`goto *(&&label + table[i])`);
//   - for a jump to a label plus a multiple of a power of two, as the straight code in front of it
//     says, every address at such a distance, in its function and in the one that the label is in
//     (blocks of one size, in assembly).
// A function with a computed jump that none of these explains is `unresolved`: nothing is known
// about its inside.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/address.h"
#include "base/parallel.h"
#include "image/branch_targets.h"
#include "image/elf_file.h"
#include "image/functions.h"

namespace pinprick::image {

struct CodeBytes {
  Address address = 0;
  std::span<const uint8_t> bytes;
  Range range() const { return {address, address + bytes.size()}; }
};

struct ObjectBytes {
  std::vector<CodeBytes> text;  // executable
  std::vector<CodeBytes> data;  // everything else that is loaded
  // Addresses in data words have this added, when they come from memory.
  uint64_t bias = 0;
  bool fixed_addresses = false;  // not position independent: addresses may be 32 bits wide
  // Of the data: what the program may write, where the bytes are those of the file. No table in it
  // explains a jump, since it may be another one by now.
  std::vector<Range> changing;
};

// The same whatever the number of threads.
BranchTargets find_branch_targets(const ObjectBytes& object, const FunctionTable& functions,
                                  std::span<const Relocation> relocations,
                                  std::span<const Address> landing_pads,
                                  size_t threads = usable_threads());

// Words of `data`, as a process holds them, that are addresses of its text.
std::vector<Address> find_pointers_to_text(const ObjectBytes& object);

// Restartable sequences (rseq) of the object: their instructions, the one before that announces
// them, and the signature before their abort address. Moving or interrupting any of these breaks
// them.
std::vector<Range> find_restartable_sequences(const ObjectBytes& object,
                                              std::span<const Relocation> relocations);
// Those that `data` has descriptors of, as a process holds them.
std::vector<Range> find_restartable_sequences_in_data(const ObjectBytes& object);

}  // namespace pinprick::image
