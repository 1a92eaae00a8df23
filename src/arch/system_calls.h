// Which system calls a piece of code makes. Pure, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace pinprick::arch {

// Returns where the bytes of a system call are. They may be part of another instruction.
std::vector<size_t> find_system_call_bytes(std::span<const uint8_t> code);

// Returns where the bytes of a system call of the 32-bit kind are (int $0x80), likewise.
std::vector<size_t> find_old_call_bytes(std::span<const uint8_t> code);

// Does an instruction start at this offset, decoded from the start of the function?
bool is_instruction(std::span<const uint8_t> function, size_t at);

// Returns the numbers that the system call at this offset of a function can have: those that the
// function's own instructions put into its register, on all paths through the function to the call.
// Returns none if no system call starts there, and nullopt if a number is not known.
std::optional<std::vector<uint64_t>> system_call_numbers(std::span<const uint8_t> function,
                                                         size_t at);

// Can one of these calls install a filter of system calls? `numbers` as they are returned above.
bool may_install_filter(const std::optional<std::vector<uint64_t>>& numbers);

// Can one of these calls take memory away that could be read? runtime/unmaps.S knows the same
// calls.
bool may_unmap(const std::optional<std::vector<uint64_t>>& numbers);
std::span<const uint32_t> unmapping_calls();

// Is the instruction in front of this system call, and on each path to it, the one that loads its
// number as a constant? That one has five bytes.
inline constexpr size_t kNumberLength = 5;
bool has_number_before(std::span<const uint8_t> function, size_t at);

}  // namespace pinprick::arch
