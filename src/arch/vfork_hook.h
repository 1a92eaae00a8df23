// The hook on the system calls by which a program starts a child in its own memory, as vfork and
// posix_spawn do.
//
// Such a child shares its parent's thread pointer, and with it the parent's rseq area, which holds
// the number of the parent's CPU. The kernel has registered no area for the child: it does not
// update that number, and does not restart the child's sequences. Without the hook, the child would
// count and take slots as if it ran on its parent's CPU, and would corrupt the data of the threads
// that do run there. So while the child runs, until it executes a program or exits, the hook marks
// the area as not registered (cpu_id is -1), and all sequences take the locked path. When the call
// returns in the parent, the hook restores the CPU number.
//
// This covers children for which the parent waits (CLONE_VM and CLONE_VFORK) and that have no
// thread pointer of their own (no CLONE_SETTLS). The mark is also the parent's, so it would be
// wrong for two threads that run at the same time. New threads, which have their own areas, and
// other system calls are not affected.
//
// From Linux 6.19 on, the kernel checks areas that are larger than the original size, and kills a
// program that has written into one. There, and where these calls cannot be hooked, all threads
// take the locked path.
//
// Pure, like stubs; the bytes are valid at the given addresses only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "arch/assembler.h"
#include "arch/stub.h"

namespace pinprick::arch {

// The registered size of an area that a program may write into.
inline constexpr uint32_t kMarkableRseqSize = 32;

// Returns the offsets in `code` of system calls that may start such a child. They are found by
// their bytes, together with those before that load the number; so the caller must check that an
// instruction starts there. Calls with constant flags that do not share memory are left out.
std::vector<size_t> find_vforks(std::span<const uint8_t> code);

// Returns the offsets of instructions that load the number of execve or execveat, followed directly
// by the system call. Decodes from the start of `code`.
std::vector<size_t> find_execs(std::span<const uint8_t> code);

// Returns the offset of the first system call among the instructions from the start of `code`,
// whatever its number is.
std::optional<size_t> find_system_call(std::span<const uint8_t> code);

// Emits the hook for a system call, which the displaced bytes start with. It handles any call,
// since the registers say which one it is. Its link is at the start: one hook is enough.
Stub emit_vfork_hook(Assembler& code, RseqArea rseq, const Displaced& displaced);

}  // namespace pinprick::arch
