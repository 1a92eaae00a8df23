// The registers of a thread at a probe: what a handler sees, and may change.
//
// Valid only while the handler runs, in its own thread.
#pragma once

#include <cstddef>
#include <cstdint>

// Of functions that use no vector or floating-point register, and call only such functions. Where
// vector registers hold the program's own data, a handler must not touch them.
#define PINPRICK_INTEGER_ONLY __attribute__((target("general-regs-only")))

namespace pinprick {

struct Registers {
  // Where vector state was saved, in the layout of XSAVE; null: it was not, since no handler here
  // needs it.
  void* vector_state;

  uint64_t rax, rcx, rdx, rbx;
  uint64_t rsp;  // the stack pointer at the probed instruction; changing it has no effect
  uint64_t rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15;
  // The probed instruction; in a return handler, where the call returns to. A handler that changes
  // it makes the thread go on there: the instruction, the handlers behind it and those that would
  // run at the return are left out.
  uint64_t ip;
  // At a function's entry and return only the arithmetic flags are put back.
  uint64_t flags;

  // At a function's entry: its integer and pointer arguments, from 0. From the seventh on they lie
  // on the stack; arguments passed in other ways (floating point, structures) do not count.
  PINPRICK_INTEGER_ONLY uint64_t argument(size_t n) const { return *place_of_argument(n); }
  PINPRICK_INTEGER_ONLY void set_argument(size_t n, uint64_t value) {
    *const_cast<uint64_t*>(place_of_argument(n)) = value;
  }

  // In a return handler.
  PINPRICK_INTEGER_ONLY uint64_t return_value() const { return rax; }
  PINPRICK_INTEGER_ONLY void set_return_value(uint64_t value) { rax = value; }

  // Vector register `n` of 0..15, its lower 64 bits: floating-point arguments are in the first 8,
  // the return value in register 0. Only where the vector state was saved: has_vector_state().
  PINPRICK_INTEGER_ONLY bool has_vector_state() const { return vector_state != nullptr; }
  double vector(size_t n) const { return *place_of_vector(n); }
  void set_vector(size_t n, double value) {
    constexpr uint64_t kVectorsInUse = 2;
    *place_of_vector(n) = value;
    *reinterpret_cast<uint64_t*>(static_cast<char*>(vector_state) + 512) |= kVectorsInUse;
  }

 private:
  PINPRICK_INTEGER_ONLY const uint64_t* place_of_argument(size_t n) const {
    switch (n) {
      case 0:
        return &rdi;
      case 1:
        return &rsi;
      case 2:
        return &rdx;
      case 3:
        return &rcx;
      case 4:
        return &r8;
      case 5:
        return &r9;
      default:  // behind the return address
        return reinterpret_cast<const uint64_t*>(rsp) + (n - 5);
    }
  }
  double* place_of_vector(size_t n) const {
    return reinterpret_cast<double*>(static_cast<char*>(vector_state) + 160 + 16 * n);
  }
};

}  // namespace pinprick
