// Capstone, as a second opinion on what bytes mean.
#pragma once

#include <capstone/capstone.h>

#include <cstdint>
#include <span>
#include <string>

#include "base/address.h"

namespace pinprick::arch {

class Disassembler {
 public:
  Disassembler() {
    opened_ = cs_open(CS_ARCH_X86, CS_MODE_64, &handle_) == CS_ERR_OK;
    instruction_ = cs_malloc(handle_);
  }
  Disassembler(const Disassembler&) = delete;
  Disassembler& operator=(const Disassembler&) = delete;
  ~Disassembler() {
    cs_free(instruction_, 1);
    if (opened_) cs_close(&handle_);
  }

  // Returns the length; 0 if it is not an instruction, or cut off.
  size_t length(std::span<const uint8_t> bytes, Address address) {
    return next(bytes, address) ? instruction_->size : 0;
  }

  // Returns Intel syntax: "mnemonic operands", several instructions separated by "; ". Stops with
  // "(bad)" at what is not an instruction.
  std::string text(std::span<const uint8_t> bytes, Address address) {
    std::string all;
    while (!bytes.empty()) {
      if (!all.empty()) all += "; ";
      if (!next(bytes, address)) return all + "(bad)";
      all += instruction_->mnemonic;
      if (instruction_->op_str[0] != '\0') all += std::string(" ") + instruction_->op_str;
      bytes = bytes.subspan(instruction_->size);
      address += instruction_->size;
    }
    return all;
  }

 private:
  bool next(std::span<const uint8_t> bytes, Address address) {
    const uint8_t* code = bytes.data();
    size_t size = bytes.size();
    return cs_disasm_iter(handle_, &code, &size, &address, instruction_);
  }

  csh handle_ = 0;
  bool opened_ = false;
  cs_insn* instruction_ = nullptr;
};

}  // namespace pinprick::arch
