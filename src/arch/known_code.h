// Code that a program knows by its address or by its bytes: it copies the code elsewhere, or one of
// its signal handlers compares the interrupted instruction pointer with it. A jump there, or a copy
// of its instructions in a stub, would break that. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pinprick::arch {

struct KnownCode {
  size_t offset = 0;
  size_t size = 0;
  // What has to hold besides, as other code and data can have the same bytes.
  enum class Proof : uint8_t {
    none,
    stores_first,    // its function is_template()
    is_instruction,  // an instruction of its function starts there
  } proof = Proof::none;
};

// Returns where in `code`, the bytes of one segment, such instructions are, ascending. They
// are found by their bytes, so that stripped programs have them, too; the functions in which they
// lie are meant as a whole:
//   - where a system call waits that can be cancelled, in musl and in glibc (2.41), and the same of
//     QEMU's emulation of programs: a signal's handler looks whether the call has begun, and
//     otherwise starts it again
//   - HotSpot's SafeFetch: a fault at its first instruction is no error
//   - write barriers of CoreCLR: templates, which are copied, and numbers written into the copies
//   - jumps through a pointer that would lie in the code itself: a template as well. Each copy
//     finds its pointer at the same distance, in a page of data. CoreCLR enters methods by copies.
std::vector<KnownCode> find_known_code(std::span<const uint8_t> code);

// May the function be a write barrier? It begins with the store that it is there for. Other code
// has the same number as a mask of bits.
bool is_template(std::span<const uint8_t> function);

}  // namespace pinprick::arch
