// Registers: what a handler sees, and may change, of the thread that hit its probe.
//
// Valid only while the handler runs, on its own thread.
#pragma once

#include <cstddef>
#include <cstdint>

// Marks a function that uses no vector or floating-point register and calls only such functions. A
// handler that is called without saving these registers must not touch them, since they hold the
// program's own data.
#define PINPRICK_INTEGER_ONLY __attribute__((target("general-regs-only")))

namespace pinprick {

struct Registers {
  // Where vector state was saved, in the layout of XSAVE. Null if it was not saved, because no
  // handler at this address needs it.
  void* vector_state;

  uint64_t rax, rcx, rdx, rbx;
  uint64_t rsp;  // the stack pointer at the probed instruction; changing it has no effect
  uint64_t rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15;
  // The address of the probed instruction; in a return handler, the address that the call returns
  // to. If a handler changes it, the thread continues at the new address: the instruction, the
  // handlers that follow, and the return handlers of this call are skipped.
  uint64_t ip;
  // At a function's entry and return only the arithmetic flags are restored from here.
  uint64_t flags;

  // At a function's entry: its n-th integer or pointer argument, counted from 0. From the seventh
  // on they are on the stack. Arguments passed in other ways (floating point, structures) do not
  // count.
  PINPRICK_INTEGER_ONLY uint64_t argument(size_t n) const { return *address_of_argument(n); }
  PINPRICK_INTEGER_ONLY void set_argument(size_t n, uint64_t value) {
    *const_cast<uint64_t*>(address_of_argument(n)) = value;
  }

  // In a return handler: the value that the call returns.
  PINPRICK_INTEGER_ONLY uint64_t return_value() const { return rax; }
  PINPRICK_INTEGER_ONLY void set_return_value(uint64_t value) { rax = value; }

  // The lower 64 bits of vector register `n`, 0..15. Floating-point arguments are in the first 8, a
  // floating-point return value is in register 0. Requires has_vector_state().
  PINPRICK_INTEGER_ONLY bool has_vector_state() const { return vector_state != nullptr; }
  double vector(size_t n) const { return *address_of_vector(n); }
  void set_vector(size_t n, double value) {
    constexpr uint64_t kVectorsInUse = 2;
    *address_of_vector(n) = value;
    *reinterpret_cast<uint64_t*>(static_cast<char*>(vector_state) + 512) |= kVectorsInUse;
  }

 private:
  PINPRICK_INTEGER_ONLY const uint64_t* address_of_argument(size_t n) const {
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
      default:  // above the return address
        return reinterpret_cast<const uint64_t*>(rsp) + (n - 5);
    }
  }
  double* address_of_vector(size_t n) const {
    return reinterpret_cast<double*>(static_cast<char*>(vector_state) + 160 + 16 * n);
  }
};

}  // namespace pinprick
