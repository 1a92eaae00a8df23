// What other modules count with: arch/native.h hands it on.
#pragma once

#include <elf.h>
#include <linux/audit.h>

#include <cstddef>
#include <cstdint>

namespace pinprick::arch {

// --- Instructions

inline constexpr size_t kMaxInstructionLength = 15;
// What breakpoints are, ours and others'; and what lies where nobody is to execute anything.
inline constexpr uint8_t kBreakpoint = 0xcc;
inline constexpr uint8_t kBreakpointLength = 1;
inline constexpr uint64_t kSyscallLength = 2;
inline constexpr uint8_t kReturnOpcode = 0xc3;
inline constexpr uint64_t kPushMemoryLength = 6;  // of a push relative to the instruction pointer

// Stands before the abort address of every restartable sequence (glibc and everybody else).
inline constexpr uint32_t kRseqSignature = 0x53053053;

// --- Jumps

inline constexpr uint8_t kJumpLength = 5;
inline constexpr uint8_t kJumpOpcode = 0xe9;
inline constexpr uint8_t kNullPrefix = 0x2e;  // a segment, which 64-bit code ignores
inline constexpr uint8_t kShortJumpLength = 2;
inline constexpr uint8_t kShortJumpOpcode = 0xeb;
inline constexpr uint8_t kIndirectJumpLength = 6;

// --- The stack

// Bytes below the stack pointer that the ABI leaves to a function that calls nobody.
inline constexpr int32_t kRedZone = 128;

// --- What files and the kernel call this architecture, and its parts

inline constexpr uint16_t kElfMachine = EM_X86_64;
inline constexpr uint32_t kRelocationRelative = R_X86_64_RELATIVE;
inline constexpr uint32_t kRelocationIndirect = R_X86_64_IRELATIVE;
inline constexpr uint32_t kRelocationJumpSlot = R_X86_64_JUMP_SLOT;
inline constexpr uint32_t kRelocationGlobal = R_X86_64_GLOB_DAT;
inline constexpr uint32_t kRelocationAddress = R_X86_64_64;
inline constexpr uint32_t kAuditArchitecture = AUDIT_ARCH_X86_64;
// DWARF's numbers of registers.
inline constexpr uint8_t kDwarfStackPointer = 7;
inline constexpr uint8_t kDwarfReturnAddress = 16;

}  // namespace pinprick::arch
