#include "arch/return_address.h"

#include <array>
#include <cstdint>
#include <optional>
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

// Returns the address of a memory operand that is the same each time; 0 if it is not. `end` is
// where the instruction ends.
Address fixed_address(const ZydisDecodedOperand& operand, Address end) {
  if (operand.type != ZYDIS_OPERAND_TYPE_MEMORY || operand.mem.index != ZYDIS_REGISTER_NONE ||
      (operand.mem.segment != ZYDIS_REGISTER_DS && operand.mem.segment != ZYDIS_REGISTER_SS))
    return 0;
  const auto displacement = static_cast<uint64_t>(operand.mem.disp.value);
  if (operand.mem.base == ZYDIS_REGISTER_RIP) return end + displacement;
  return operand.mem.base == ZYDIS_REGISTER_NONE ? displacement : 0;
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

// Which registers hold the value of a pointer in memory, and where that lies. Code that jumps to a
// function of another object may have loaded the function's address before.
class LoadedPointers {
 public:
  Address pointer_in(ZydisRegister reg) const {
    const auto number = number_of(reg);
    return number ? pointers_[*number] : 0;
  }
  uint64_t key() const { return key_; }  // equal for equal contents

  // To be called for each instruction, which ends at `end`. Returns the pointer that it loads; 0 if
  // it loads none.
  Address follow(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand* operands,
                 Address end) {
    if (instruction.mnemonic == ZYDIS_MNEMONIC_CALL) {
      for (const ZydisRegister reg : kLostInCalls) set(reg, 0);
      return 0;
    }
    const Address loaded =
        instruction.mnemonic == ZYDIS_MNEMONIC_MOV && instruction.operand_width == 64
            ? source(operands[1], end)
            : 0;
    if (loaded == 0 && key_ == 0) return 0;
    for (int i = 0; i < instruction.operand_count; ++i)
      if (operands[i].type == ZYDIS_OPERAND_TYPE_REGISTER && writes(operands[i]))
        set(operands[i].reg.value, i == 0 ? loaded : 0);
    return operands[1].type == ZYDIS_OPERAND_TYPE_MEMORY ? loaded : 0;
  }

 private:
  static constexpr ZydisRegister kLostInCalls[] = {
      ZYDIS_REGISTER_RAX, ZYDIS_REGISTER_RCX, ZYDIS_REGISTER_RDX,
      ZYDIS_REGISTER_RSI, ZYDIS_REGISTER_RDI, ZYDIS_REGISTER_R8,
      ZYDIS_REGISTER_R9,  ZYDIS_REGISTER_R10, ZYDIS_REGISTER_R11};

  static std::optional<size_t> number_of(ZydisRegister reg) {
    const auto whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
    if (whole < ZYDIS_REGISTER_RAX || whole > ZYDIS_REGISTER_R15) return std::nullopt;
    return static_cast<size_t>(whole - ZYDIS_REGISTER_RAX);
  }
  Address source(const ZydisDecodedOperand& operand, Address end) const {
    if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER) return pointer_in(operand.reg.value);
    return fixed_address(operand, end);
  }
  void set(ZydisRegister reg, Address pointer) {
    const auto number = number_of(reg);
    if (!number || pointers_[*number] == pointer) return;
    key_ ^= mixed(*number, pointers_[*number]) ^ mixed(*number, pointer);
    pointers_[*number] = pointer;
  }
  static uint64_t mixed(size_t number, Address pointer) {
    return pointer * (0x9e3779b97f4a7c15 + 2 * number);
  }

  std::array<Address, 16> pointers_{};
  uint64_t key_ = 0;
};

// Walks all paths through one function.
class Paths {
 public:
  Paths(std::span<const uint8_t> code, Address begin)
      : code_(code), begin_(begin), number_of_seen_(code.size()) {}

  ReturnAddressUse follow_all() {
    pending_.push_back({});
    while (!pending_.empty() && !use_.is_read) {
      const State state = pending_.back();
      pending_.pop_back();
      follow_from(state);
    }
    return std::move(use_);
  }

 private:
  struct State {
    size_t at = 0;
    Frame frame;
    LoadedPointers loaded;
  };
  // Compilers reach each instruction with one frame only. More of them mean that something was not
  // understood; a few are followed nevertheless.
  static constexpr uint8_t kMostFrames = 3;
  struct Seen {
    Frame frame;
    uint64_t loaded = 0;
    uint8_t times = 0;
  };

  bool is_new(const State& state) {
    uint32_t& number = number_of_seen_[state.at];
    if (number == 0) {
      seen_.push_back({state.frame, state.loaded.key(), 1});
      number = static_cast<uint32_t>(seen_.size());
      return true;
    }
    Seen& seen = seen_[number - 1];
    if (seen.times == kMostFrames ||
        (seen.frame == state.frame && seen.loaded == state.loaded.key()))
      return false;
    seen = {state.frame, state.loaded.key(), static_cast<uint8_t>(seen.times + 1)};
    return true;
  }

  void go_to(Address target, const State& from) {
    if (target - begin_ < code_.size())
      pending_.push_back({target - begin_, from.frame, from.loaded});
    else if (from.frame.from_rsp == 0)
      use_.forwards_to.push_back(target);
  }

  // For a jump that is not to a fixed address.
  void go_through(const ZydisDecodedOperand& operand, const State& from, Address end) {
    if (from.frame.from_rsp != 0) return;
    const Address pointer = operand.type == ZYDIS_OPERAND_TYPE_REGISTER
                                ? from.loaded.pointer_in(operand.reg.value)
                                : fixed_address(operand, end);
    if (pointer != 0)
      use_.forwards_through.push_back(pointer);
    else
      use_.forwards_elsewhere = true;
  }

  void follow_from(State state) {
    bool comes_from_call = false;
    while (!state.frame.is_lost()) {
      if (state.at == code_.size()) {
        // Anything may follow a call that does not return.
        if (!comes_from_call) go_to(begin_ + state.at, state);
        return;
      }
      if (!is_new(state)) return;
      ZydisDecodedInstruction instruction;
      ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
      if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&full_decoder(), code_.data() + state.at,
                                               code_.size() - state.at, &instruction, operands)))
        return;
      use_.is_read = uses_slot(instruction, operands, state.frame);
      if (use_.is_read) return;
      const bool is_branch = instruction.meta.branch_type != ZYDIS_BRANCH_TYPE_NONE;
      const bool is_direct = is_branch && operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
                             operands[0].imm.is_relative;
      const Address end = begin_ + state.at + instruction.length;
      comes_from_call = instruction.mnemonic == ZYDIS_MNEMONIC_CALL;
      if (is_direct && !comes_from_call)
        go_to(end + static_cast<uint64_t>(operands[0].imm.value.s), state);
      if (instruction.mnemonic == ZYDIS_MNEMONIC_JMP && !is_direct)
        go_through(operands[0], state, end);
      if (instruction.mnemonic == ZYDIS_MNEMONIC_RET ||
          instruction.mnemonic == ZYDIS_MNEMONIC_JMP || instruction.mnemonic == ZYDIS_MNEMONIC_UD2)
        return;
      follow(instruction, operands, state.frame);
      const Address loaded = state.loaded.follow(instruction, operands, end);
      if (loaded != 0) use_.loads.push_back(loaded);
      state.at += instruction.length;
    }
  }

  std::span<const uint8_t> code_;
  Address begin_;
  std::vector<uint32_t> number_of_seen_;  // by offset; 0: not seen yet
  std::vector<Seen> seen_;
  std::vector<State> pending_;
  ReturnAddressUse use_;
};

}  // namespace

ReturnAddressUse use_of_return_address(std::span<const uint8_t> function, Address begin) {
  return Paths(function, begin).follow_all();
}

}  // namespace pinprick::arch
