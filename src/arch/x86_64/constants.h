// Numbers of the architecture that other modules use, through arch/native.h.
#pragma once

#include <elf.h>
#include <linux/audit.h>

#include <cstddef>
#include <cstdint>

namespace pinprick::arch {

// --- Instructions

inline constexpr size_t kMaxInstructionLength = 15;
// A breakpoint, ours or another's; and the filler where nothing may be executed.
inline constexpr uint8_t kBreakpoint = 0xcc;
inline constexpr uint8_t kBreakpointLength = 1;
inline constexpr uint64_t kSyscallLength = 2;
inline constexpr uint8_t kReturnOpcode = 0xc3;
inline constexpr uint64_t kPushMemoryLength = 6;  // of a push relative to the instruction pointer

// Precedes the abort address of every restartable sequence (in glibc and elsewhere).
inline constexpr uint32_t kRseqSignature = 0x53053053;

// --- Jumps

inline constexpr uint8_t kJumpLength = 5;
inline constexpr uint8_t kJumpOpcode = 0xe9;
inline constexpr uint8_t kNullPrefix = 0x2e;  // a segment prefix, which 64-bit code ignores
inline constexpr uint8_t kShortJumpLength = 2;
inline constexpr uint8_t kShortJumpOpcode = 0xeb;
inline constexpr uint8_t kIndirectJumpLength = 6;

// --- The stack

// Bytes below the stack pointer that the ABI gives to a function that calls no other.
inline constexpr int32_t kRedZone = 128;

// --- Names in ELF files, DWARF and the kernel

inline constexpr uint16_t kElfMachine = EM_X86_64;
inline constexpr uint32_t kRelocationRelative = R_X86_64_RELATIVE;
inline constexpr uint32_t kRelocationIndirect = R_X86_64_IRELATIVE;
inline constexpr uint32_t kRelocationJumpSlot = R_X86_64_JUMP_SLOT;
inline constexpr uint32_t kRelocationGlobal = R_X86_64_GLOB_DAT;
inline constexpr uint32_t kRelocationAddress = R_X86_64_64;
inline constexpr uint32_t kAuditArchitecture = AUDIT_ARCH_X86_64;
// DWARF register numbers.
inline constexpr uint8_t kDwarfStackPointer = 7;
inline constexpr uint8_t kDwarfReturnAddress = 16;

}  // namespace pinprick::arch
