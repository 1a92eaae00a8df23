// System calls of a stopped thread: the one that it is in, and those that it makes for us while it
// is hijacked.
//
// Pure, thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "arch/native.h"
#include "arch/registers.h"
#include "base/address.h"

namespace pinprick::arch {

// --- The call that a thread is in

// What becomes of it when the thread goes on.
enum class CallState : uint8_t {
  none,          // the thread is in no call
  over,          // it has its result
  begins_again,  // the kernel rewinds the thread to the instruction of the call
  continues,     // the same, to one that goes on by what the kernel has kept (restart_syscall)
};
CallState call_state(const Registers& registers);
inline bool in_system_call(const Registers& registers) {
  return call_state(registers) != CallState::none;
}

uint64_t syscall_number(const Registers& registers);
int64_t syscall_result(const Registers& registers);  // a negative errno if it failed
// Has the kernel make the call again, as if it had not ended; but if a signal handler is to run
// first, the call returns EINTR.
void restart_unless_handled(Registers& registers);

// The registers that make a thread in a system call begin it anew, as the kernel would; the same
// registers where nothing is to be restarted.
Registers restarted(const Registers& registers);

// What the instruction of a call leaves in registers, apart from the result, when it returns to
// `address`.
void set_returned_to(Registers& registers, Address address);

// --- The call that a thread makes for us

using SyscallArguments = std::array<uint64_t, 6>;
// The registers for a call whose instruction lies at `code`; all others are those of `home`.
Registers registers_for_call(const Registers& home, Address code, uint64_t number,
                             const SyscallArguments& arguments);

// The few bytes that a hijacked thread runs to make system calls, one or a script of them, and then
// go back to its own work without anybody's help. They lie at `at`:
//
//             syscall                              a single call; its caller sets the registers
//     home:   rt_sigprocmask(SIG_SETMASK, &mask)   from here on only if the thread was not stopped
//             flags, all registers = `home`
//             jmp home.rip
//
//     script: *told = call                         `call`, `last`, `told` and `descriptor` are
//             call->result = call->number(...)     registers: start_script()
//             if call->next == 0: go home
//             call = call->result < 0 ? last : call->next
//             jmp script
//
// Flags are the arithmetic ones and the direction; the others stay as the thread was started with.
// `home`: the registers the thread would have run with (a call to be restarted already rewound).
// No stack is used: the thread's may be at its end, or be a coroutine's few bytes.
std::vector<uint8_t> remote_call(Address at, const Registers& home, uint64_t signal_mask);

inline constexpr uint64_t kRemoteCallMaxSize = 320;

// One call of a script, in memory of the thread's process. The fifth argument is the descriptor
// that start_script() names the place of, whatever call it is: mmap() is the one that wants it, and
// an earlier call of the script may be what opens it.
struct ScriptedCall {
  uint64_t number = 0;
  uint64_t arguments[4] = {};
  uint64_t sixth = 0;
  uint64_t result = 0;  // or minus an error's number
  uint64_t next = 0;    // address of another one; 0: this is the last
};
static_assert(sizeof(ScriptedCall) == 64);

// Makes a thread with these registers begin the script that is part of the code at `code`. It makes
// the calls from `first` on, and when one fails goes on with `last`, then home. Before each call it
// writes the call's address to `told`. `descriptor`: the address of a signed 32-bit number.
void start_script(Registers& registers, Address code, Address first, Address last, Address told,
                  Address descriptor);

// What such code brings a thread back to: the registers and the mask that it was made with. Of the
// registers only those that the code restores are set, and the flags that it does.
struct RemoteCallOrigin {
  Registers registers = {};
  uint64_t signal_mask = 0;
};
// Returns nullopt if the bytes at `at` are not exactly what remote_call() makes.
std::optional<RemoteCallOrigin> origin_of_remote_call(Address at, std::span<const uint8_t> bytes);

// The registers with which a thread that runs such code goes home at once. `now`: its registers, of
// which the code never changes the rest.
Registers registers_at_origin(const RemoteCallOrigin& home, const Registers& now);

}  // namespace pinprick::arch
