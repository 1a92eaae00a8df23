// The machine that an ELF file is for, from the first bytes of the file.
//
// Pure but for machine_of_file(). Any bytes may be given: those of a file that is no ELF have no
// machine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace pinprick::image {

struct Machine {
  uint16_t number = 0;  // e_machine, an EM_ constant; 0 is none
  bool is_32_bit = false;

  // Is its code what this pinprick decodes? An x32 program has the number, but not its pointers.
  bool is_ours() const;
};

// Returns nullopt if it is no ELF file, or ends too early.
std::optional<Machine> machine_of(std::span<const uint8_t> head);
// Returns nullopt as well if the file cannot be read.
std::optional<Machine> machine_of_file(const std::string& path);

}  // namespace pinprick::image
