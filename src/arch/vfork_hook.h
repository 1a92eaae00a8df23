// The hook on the system calls by which a program starts a child in its own memory, as vfork and
// posix_spawn do.
//
// Such a child shares its parent's thread pointer, and with it the rseq area, in which the parent's
// CPU stands. But the kernel knows of no area for the child: it neither keeps that number up to
// date nor restarts the child's sequences. Unmarked, the child would count, and take slots, on a
// CPU on which other threads run, and damage what they do. So the child's area says that there is
// no registration (cpu_id is -1) until it executes a program or ends: all sequences then take the
// locked path. When the call returns in the parent, the CPU is put back.
//
// This is for children that have the parent wait (CLONE_VM and CLONE_VFORK) and no thread pointer
// of their own (CLONE_SETTLS). The mark is the parent's, too, so it would not do for two that run
// at the same time; new threads, which have areas of their own, and other system calls are not
// touched.
//
// From Linux 6.19 on, the kernel checks areas of more than the original size, and ends a program
// that has written into one. There, and where nobody can hook these calls, everybody has to lock.
//
// Pure, as stubs are; the bytes are for the addresses given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "arch/assembler.h"
#include "arch/stub.h"

namespace pinprick::arch {

// The size with which an area is registered that a program may write into.
inline constexpr uint32_t kMarkableRseqSize = 32;

// Where in `code` system calls lie that may start such a child: offsets of the instructions. Found
// by the bytes, in front of which the number is loaded, so whoever uses them has yet to see whether
// an instruction begins there. Those whose flags are a constant that does not share memory are left
// out.
std::vector<size_t> find_vforks(std::span<const uint8_t> code);

// The first system call among the instructions from `code` on, whatever its number is.
std::optional<size_t> find_system_call(std::span<const uint8_t> code);

// For a system call, with which the displaced bytes begin. It works for any number: what the call
// is stands in the registers. A link lies at its begin: one hook is enough.
Stub emit_vfork_hook(Assembler& code, RseqArea rseq, const Displaced& displaced);

}  // namespace pinprick::arch
