#include "arch/return_address.h"

#include <cstdint>
#include <utility>

#include "arch/x86_64/full_decoder.h"

namespace pinprick::arch {
namespace {

constexpr int64_t kUnknown = INT64_MIN;

// Distances from registers to the return address.
struct Frame {
  int64_t from_rsp = 0;
  int64_t from_rbp = kUnknown;
  // Of a function that aligns its stack: the register that holds where its arguments are.
  ZydisRegister arguments = ZYDIS_REGISTER_NONE;
  int64_t from_arguments = kUnknown;

  bool operator==(const Frame&) const = default;
  bool is_lost() const {
    return from_rsp == kUnknown && from_rbp == kUnknown && from_arguments == kUnknown;
  }
  void forget_arguments() {
    arguments = ZYDIS_REGISTER_NONE;
    from_arguments = kUnknown;
  }
  void move_rsp(int64_t down) {
    if (from_rsp != kUnknown) from_rsp += down;
  }
};

bool is_register(const ZydisDecodedOperand& operand, ZydisRegister reg) {
  return operand.type == ZYDIS_OPERAND_TYPE_REGISTER && operand.reg.value == reg;
}

bool writes(const ZydisDecodedOperand& operand) {
  return (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
}

bool reads_slot(const ZydisDecodedOperand& operand, const Frame& frame) {
  if (operand.type != ZYDIS_OPERAND_TYPE_MEMORY || operand.mem.type != ZYDIS_MEMOP_TYPE_MEM ||
      operand.mem.index != ZYDIS_REGISTER_NONE ||
      !(operand.actions & ZYDIS_OPERAND_ACTION_MASK_READ))
    return false;
  const int64_t displacement = operand.mem.disp.has_displacement ? operand.mem.disp.value : 0;
  if (operand.mem.base == ZYDIS_REGISTER_RSP) return frame.from_rsp == displacement;
  if (operand.mem.base == ZYDIS_REGISTER_RBP) return frame.from_rbp == displacement;
  return operand.mem.base == frame.arguments && frame.from_arguments == displacement;
}

// `lock or $0,(%rsp)` or `lock add`: a memory barrier, which could use any cache line.
bool is_barrier(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands) {
  return (instruction.mnemonic == ZYDIS_MNEMONIC_OR ||
          instruction.mnemonic == ZYDIS_MNEMONIC_ADD) &&
         (instruction.attributes & ZYDIS_ATTRIB_HAS_LOCK) != 0 &&
         operands[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE && operands[1].imm.value.u == 0;
}

// A function that aligns its stack copies its return address to where unwinders look for it. From
// then on that is the one it would use.
bool copies_slot(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands,
                 const Frame& frame) {
  return instruction.mnemonic == ZYDIS_MNEMONIC_PUSH && frame.arguments != ZYDIS_REGISTER_NONE &&
         reads_slot(operands[0], frame) && operands[0].mem.base == frame.arguments;
}

bool uses_slot(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands,
               const Frame& frame) {
  if (instruction.mnemonic == ZYDIS_MNEMONIC_POP && frame.from_rsp == 0) return true;
  if (instruction.mnemonic == ZYDIS_MNEMONIC_LEA || is_barrier(instruction, operands) ||
      copies_slot(instruction, operands, frame))
    return false;
  for (int i = 0; i < instruction.operand_count_visible; ++i)
    if (reads_slot(operands[i], frame)) return true;
  return false;
}

// Returns the distance from the address of a memory operand to the return address.
int64_t distance_from(const ZydisDecodedOperand& operand, const Frame& frame) {
  const bool is_simple =
      operand.type == ZYDIS_OPERAND_TYPE_MEMORY && operand.mem.index == ZYDIS_REGISTER_NONE;
  int64_t from_base = kUnknown;
  if (is_simple && operand.mem.base == ZYDIS_REGISTER_RSP) from_base = frame.from_rsp;
  if (is_simple && operand.mem.base == ZYDIS_REGISTER_RBP) from_base = frame.from_rbp;
  if (from_base == kUnknown) return kUnknown;
  return from_base - (operand.mem.disp.has_displacement ? operand.mem.disp.value : 0);
}

// Tracks how the instruction moves rsp and rbp. What is not understood makes them unknown.
void follow(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands,
            Frame& frame) {
  const auto& first = operands[0];
  const auto& second = operands[1];
  switch (instruction.mnemonic) {
    case ZYDIS_MNEMONIC_PUSH:
      if (copies_slot(instruction, operands, frame)) {
        frame.from_rsp = 0;
        frame.from_rbp = kUnknown;
        return;
      }
      [[fallthrough]];
    case ZYDIS_MNEMONIC_PUSHFQ:
      frame.move_rsp(instruction.operand_width / 8);
      return;
    case ZYDIS_MNEMONIC_POP:
    case ZYDIS_MNEMONIC_POPFQ:
      frame.move_rsp(-(instruction.operand_width / 8));
      if (is_register(first, ZYDIS_REGISTER_RBP)) frame.from_rbp = kUnknown;
      // The first operand of `popfq` is rsp.
      if (instruction.mnemonic == ZYDIS_MNEMONIC_POP && is_register(first, ZYDIS_REGISTER_RSP))
        frame.from_rsp = kUnknown;
      if (first.type == ZYDIS_OPERAND_TYPE_REGISTER && first.reg.value == frame.arguments)
        frame.forget_arguments();
      return;
    case ZYDIS_MNEMONIC_ENTER:
      frame.move_rsp(8);
      frame.from_rbp = frame.from_rsp;
      frame.from_rsp = kUnknown;
      return;
    case ZYDIS_MNEMONIC_LEAVE:
      frame.from_rsp = std::exchange(frame.from_rbp, kUnknown);
      frame.move_rsp(-8);
      return;
    case ZYDIS_MNEMONIC_CALL:
      if (frame.arguments == ZYDIS_REGISTER_R10) frame.forget_arguments();
      return;  // returns with rsp unchanged
    case ZYDIS_MNEMONIC_SUB:
    case ZYDIS_MNEMONIC_ADD:
      if (is_register(first, ZYDIS_REGISTER_RSP) && second.type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
        const int64_t value = second.imm.value.s;
        frame.move_rsp(instruction.mnemonic == ZYDIS_MNEMONIC_SUB ? value : -value);
        return;
      }
      break;
    case ZYDIS_MNEMONIC_LEA:
      if (is_register(first, ZYDIS_REGISTER_RSP)) {
        frame.from_rsp = distance_from(second, frame);
        return;
      }
      if (is_register(first, ZYDIS_REGISTER_R10) || is_register(first, ZYDIS_REGISTER_R13)) {
        frame.from_arguments = distance_from(second, frame);
        frame.arguments = frame.from_arguments != kUnknown ? first.reg.value : ZYDIS_REGISTER_NONE;
        return;
      }
      break;
    case ZYDIS_MNEMONIC_MOV:
      if (is_register(first, ZYDIS_REGISTER_RBP) && is_register(second, ZYDIS_REGISTER_RSP)) {
        frame.from_rbp = frame.from_rsp;
        return;
      }
      if (is_register(first, ZYDIS_REGISTER_RSP) && is_register(second, ZYDIS_REGISTER_RBP)) {
        frame.from_rsp = frame.from_rbp;
        return;
      }
      break;
    default:
      break;
  }
  for (int i = 0; i < instruction.operand_count; ++i) {
    if (!writes(operands[i])) continue;
    if (is_register(operands[i], ZYDIS_REGISTER_RSP)) frame.from_rsp = kUnknown;
    if (is_register(operands[i], ZYDIS_REGISTER_RBP)) frame.from_rbp = kUnknown;
    if (operands[i].type == ZYDIS_OPERAND_TYPE_REGISTER &&
        ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, operands[i].reg.value) ==
            frame.arguments)
      frame.forget_arguments();
  }
}

// Walks all paths through one function.
class Paths {
 public:
  Paths(std::span<const uint8_t> code, Address begin)
      : code_(code), begin_(begin), seen_(code.size()) {}

  ReturnAddressUse follow_all() {
    pending_.push_back({0, {}});
    while (!pending_.empty() && !use_.is_read) {
      const auto [at, frame] = pending_.back();
      pending_.pop_back();
      follow_from(at, frame);
    }
    return std::move(use_);
  }

 private:
  // Compilers reach each instruction with one frame only. More of them mean that something was not
  // understood; a few are followed nevertheless.
  static constexpr uint8_t kMostFrames = 3;
  struct Seen {
    Frame frame;
    uint8_t frames = 0;
  };

  bool is_new(size_t at, const Frame& frame) {
    Seen& seen = seen_[at];
    if (seen.frames == kMostFrames || (seen.frames != 0 && seen.frame == frame)) return false;
    seen = {frame, static_cast<uint8_t>(seen.frames + 1)};
    return true;
  }

  void go_to(Address target, const Frame& frame) {
    if (target - begin_ < code_.size())
      pending_.emplace_back(target - begin_, frame);
    else if (frame.from_rsp == 0)
      use_.forwards_to.push_back(target);
  }

  void follow_from(size_t at, Frame frame) {
    bool comes_from_call = false;
    while (!frame.is_lost()) {
      if (at == code_.size()) {
        // Anything may follow a call that does not return.
        if (!comes_from_call) go_to(begin_ + at, frame);
        return;
      }
      if (!is_new(at, frame)) return;
      ZydisDecodedInstruction instruction;
      ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
      if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&full_decoder(), code_.data() + at,
                                               code_.size() - at, &instruction, operands)))
        return;
      use_.is_read = uses_slot(instruction, operands, frame);
      if (use_.is_read) return;
      const bool is_branch = instruction.meta.branch_type != ZYDIS_BRANCH_TYPE_NONE;
      const bool is_direct = is_branch && operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
                             operands[0].imm.is_relative;
      comes_from_call = instruction.mnemonic == ZYDIS_MNEMONIC_CALL;
      if (is_direct && !comes_from_call)
        go_to(begin_ + at + instruction.length + static_cast<uint64_t>(operands[0].imm.value.s),
              frame);
      if (instruction.mnemonic == ZYDIS_MNEMONIC_JMP && frame.from_rsp == 0 &&
          operands[0].type == ZYDIS_OPERAND_TYPE_MEMORY &&
          operands[0].mem.base == ZYDIS_REGISTER_RIP)
        use_.forwards_through.push_back(begin_ + at + instruction.length +
                                        static_cast<uint64_t>(operands[0].mem.disp.value));
      if (instruction.mnemonic == ZYDIS_MNEMONIC_RET ||
          instruction.mnemonic == ZYDIS_MNEMONIC_JMP || instruction.mnemonic == ZYDIS_MNEMONIC_UD2)
        return;
      follow(instruction, operands, frame);
      at += instruction.length;
    }
  }

  std::span<const uint8_t> code_;
  Address begin_;
  std::vector<Seen> seen_;  // by offset
  std::vector<std::pair<size_t, Frame>> pending_;
  ReturnAddressUse use_;
};

}  // namespace

ReturnAddressUse use_of_return_address(std::span<const uint8_t> function, Address begin) {
  return Paths(function, begin).follow_all();
}

}  // namespace pinprick::arch
