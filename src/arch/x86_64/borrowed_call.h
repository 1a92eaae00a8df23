// The few bytes that a borrowed thread runs to make one system call for us, and then go back to its
// own work without anybody's help.
#pragma once

#include <sys/user.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/address.h"

namespace pinprick::arch {

// Code for `at`:
//
//     syscall                              the call; registers are set by whoever starts it
//     rt_sigprocmask(SIG_SETMASK, &mask)   from here on only if nobody stopped the thread
//     flags, all registers = `home`
//     jmp home.rip
//
// Flags are the arithmetic ones and the direction; the others stay as the thread was started with.
// `home`: the registers the thread would have run with (a call to be restarted already rewound).
// No stack is used: the thread's may be at its end, or be a coroutine's few bytes.
std::vector<uint8_t> borrowed_call(Address at, const user_regs_struct& home, uint64_t signal_mask);

inline constexpr uint64_t kBorrowedCallMaxSize = 320;

// What such code brings a thread back to: the registers and the mask that it was made with. Of the
// registers only those that the code restores are set, and the flags that it does. Nothing if the
// bytes at `at` are not exactly what borrowed_call() makes.
struct BorrowedHome {
  user_regs_struct registers = {};
  uint64_t signal_mask = 0;
};
std::optional<BorrowedHome> home_of_borrowed_call(Address at, std::span<const uint8_t> bytes);

// The bits of eflags in BorrowedHome.
inline constexpr uint64_t kBorrowedFlags = 0xcd5;  // carry, parity, adjust, zero, sign, direction,
                                                   // overflow

}  // namespace pinprick::arch
