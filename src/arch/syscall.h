// System calls of a stopped thread, by its registers: the call that it is in, if any, and remote
// calls, which it makes for us while it is hijacked.
//
// Everything here computes registers and code. Nothing is read from or written to the thread. Pure,
// thread-safe.
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

// What happens to the call when the thread runs again.
enum class CallState : uint8_t {
  none,       // the thread is in no call
  over,       // it has its result
  restarts,   // the kernel rewinds the thread to the call's instruction
  continues,  // the same, but with restart_syscall, which uses state that the kernel has kept
};
CallState call_state(const Registers& registers);
inline bool in_system_call(const Registers& registers) {
  return call_state(registers) != CallState::none;
}

uint64_t syscall_number(const Registers& registers);
uint64_t syscall_argument(const Registers& registers,
                          size_t number);            // the first or second, 0 or 1
int64_t syscall_result(const Registers& registers);  // a negative errno if it failed
// Is it the return from the call that has executed the program? Then the program has run no
// instruction yet, and its stack pointer is where the kernel has put it.
bool has_just_executed(const Registers& registers);
// Makes the kernel restart the call as if it had not returned. But if a signal handler runs first,
// the call returns EINTR.
void restart_unless_handled(Registers& registers);

// Returns the registers that restart the thread's system call, as the kernel would restart it; the
// same registers if there is nothing to restart.
Registers restarted(const Registers& registers);

// Sets the registers that the system call instruction itself changes, apart from the result, to
// what they are when it returns to `address`.
void set_returned_to(Registers& registers, Address address);

// The code after a call: does it end the thread at once, with what the call has returned as status?
// C libraries call a thread's first function from such code. It takes this many bytes at most.
inline constexpr size_t kLongestThreadEnd = 16;
bool ends_thread(std::span<const uint8_t> code);

// --- Remote calls

using SyscallArguments = std::array<uint64_t, 6>;
// Returns the registers for a call whose instruction is at `code`. All others are those of `home`.
Registers registers_for_call(const Registers& home, Address code, uint64_t number,
                             const SyscallArguments& arguments);

// Returns the code that a hijacked thread runs to make system calls, one or a script of them, and
// to return to its own work without help. It lies at `at`:
//
//             syscall                              a single call; its caller sets the registers
//     home:   rt_sigprocmask(SIG_SETMASK, &mask)   reached only if the thread was not stopped
//             flags, all registers = `home`
//             jmp home.rip
//
//     script: *told = call                         `call`, `last`, `told` and `descriptor` are
//             call->result = call->number(...)     registers: start_script()
//             if call->next == 0: go home
//             call = call->result < 0 ? last : call->next
//             jmp script
//
// Of the flags, only the arithmetic ones and the direction are restored; the others stay as the
// thread was started with. `home` has the registers that the thread would have run with (a call to
// be restarted is already rewound). No stack is used: the thread's may be nearly full, or be a
// coroutine's few bytes.
std::vector<uint8_t> remote_call(Address at, const Registers& home, uint64_t signal_mask);

inline constexpr uint64_t kRemoteCallMaxSize = 320;

// One call of a script, in the memory of the thread's process. Its fifth argument is not part of
// it: that is always the file descriptor at the address that start_script() is given. An earlier
// call of the script may have opened it: mmap() uses it as it is, and the other calls get it as
// their first argument if their number has this bit.
inline constexpr uint64_t kOfDescriptor = uint64_t{1} << 32;
struct ScriptedCall {
  uint64_t number = 0;
  uint64_t arguments[4] = {};
  uint64_t sixth = 0;
  uint64_t result = 0;  // or a negated errno
  uint64_t next = 0;    // address of the next call; 0: this is the last
};
static_assert(sizeof(ScriptedCall) == 64);

// Changes the registers of a thread so that it runs the script part of the code at `code`. It makes
// the calls from `first` on. If one fails, it continues with `last` and then goes home. Before each
// call it writes that call's address to `told`. It makes the last one only some 40 us later, as
// that sleeps until the thread is stopped, and a running thread is stopped sooner. `descriptor` is
// the address of a signed 32-bit number.
void start_script(Registers& registers, Address code, Address first, Address last, Address told,
                  Address descriptor);

// What such code restores: the registers and the signal mask that it was made with. Only the
// registers and flags that the code restores are set.
struct RemoteCallOrigin {
  Registers registers = {};
  uint64_t signal_mask = 0;
};
// Returns what the code at `at` restores; nullopt if the bytes are not exactly what remote_call()
// makes.
std::optional<RemoteCallOrigin> origin_of_remote_call(Address at, std::span<const uint8_t> bytes);

// Returns the registers that send a thread in such code home at once. `now` has its registers; the
// code never changes those that it does not restore.
Registers registers_at_origin(const RemoteCallOrigin& home, const Registers& now);

}  // namespace pinprick::arch
