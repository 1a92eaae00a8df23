#include "arch/system_calls.h"

#include <Zydis/Zydis.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "arch/x86_64/full_decoder.h"

namespace pinprick::arch {
namespace {

constexpr std::array<uint8_t, 2> kSyscallBytes = {0x0f, 0x05}, kOldCallBytes = {0xcd, 0x80};

std::vector<size_t> find_bytes(std::span<const uint8_t> code,
                               const std::array<uint8_t, 2>& wanted) {
  const std::string_view bytes(reinterpret_cast<const char*>(code.data()), code.size());
  const std::string_view call(reinterpret_cast<const char*>(wanted.data()), wanted.size());
  std::vector<size_t> found;
  for (size_t at = bytes.find(call); at != bytes.npos; at = bytes.find(call, at + 1))
    found.push_back(at);
  return found;
}

ZydisRegister whole(ZydisRegister part) {
  return ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, part);
}

bool survives_calls(ZydisRegister one) {
  switch (one) {
    case ZYDIS_REGISTER_RBX:
    case ZYDIS_REGISTER_RBP:
    case ZYDIS_REGISTER_R12:
    case ZYDIS_REGISTER_R13:
    case ZYDIS_REGISTER_R14:
    case ZYDIS_REGISTER_R15:
      return true;
    default:
      return false;
  }
}

// Says how an instruction changes a register.
struct Effect {
  enum class Kind : uint8_t { none, number, copies, unknown } kind = Kind::none;
  uint64_t number = 0;
  ZydisRegister source = ZYDIS_REGISTER_NONE;
};

struct FullInstruction {
  ZydisDecodedInstruction decoded;
  std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT> operands;

  bool is_in(ZydisInstructionCategory category) const { return decoded.meta.category == category; }

  Effect effect_on(ZydisRegister wanted) const {
    if (is_in(ZYDIS_CATEGORY_CALL) && !survives_calls(wanted)) return {Effect::Kind::unknown};
    if (is_in(ZYDIS_CATEGORY_SYSCALL) && wanted == ZYDIS_REGISTER_RAX)
      return {Effect::Kind::unknown};
    const auto writes = [&](const ZydisDecodedOperand& one) {
      return one.type == ZYDIS_OPERAND_TYPE_REGISTER &&
             (one.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0 && whole(one.reg.value) == wanted;
    };
    if (std::none_of(operands.begin(), operands.begin() + decoded.operand_count, writes)) return {};
    constexpr uint16_t kClearsUpperBits = 32;
    const ZydisDecodedOperand &to = operands[0], &from = operands[1];
    const bool is_whole = writes(to) && to.size >= kClearsUpperBits;
    if (is_whole && decoded.mnemonic == ZYDIS_MNEMONIC_MOV) {
      if (from.type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
        return {Effect::Kind::number, from.imm.value.u, ZYDIS_REGISTER_NONE};
      if (from.type == ZYDIS_OPERAND_TYPE_REGISTER)
        return {Effect::Kind::copies, 0, whole(from.reg.value)};
    }
    if (is_whole && decoded.mnemonic == ZYDIS_MNEMONIC_XOR &&
        from.type == ZYDIS_OPERAND_TYPE_REGISTER && from.reg.value == to.reg.value)
      return {Effect::Kind::number, 0, ZYDIS_REGISTER_NONE};
    return {Effect::Kind::unknown};
  }
};

// The instructions of a function, by offset, and which of them can come directly before which.
class Predecessors {
 public:
  // Returns nullopt if something cannot be decoded.
  static std::optional<Predecessors> of(std::span<const uint8_t> function) {
    Predecessors flow;
    for (size_t at = 0; at < function.size();) {
      FullInstruction one;
      if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&full_decoder(), function.data() + at,
                                               function.size() - at, &one.decoded,
                                               one.operands.data())))
        return std::nullopt;
      flow.note(at, one);
      flow.instructions_.emplace(at, one);
      at += one.decoded.length;
    }
    return flow;
  }

  const FullInstruction* at(size_t offset) const {
    const auto found = instructions_.find(offset);
    return found == instructions_.end() ? nullptr : &found->second;
  }
  // Returns those before an instruction; none if that is not known.
  std::vector<size_t> before(size_t offset) const {
    std::vector<size_t> all;
    const auto [first, last] = before_.equal_range(offset);
    for (auto one = first; one != last; ++one) all.push_back(one->second);
    // Where a computed jump may lead to is not known, but that is not into the middle of a row of
    // instructions to which no other jump leads.
    const bool is_in_row = all.size() == 1 && follows_.contains(offset);
    if (jumps_anywhere_ && !is_in_row) all.clear();
    return all;
  }
  // Does it only fill the space before a jump's target?
  bool is_filling(size_t offset) const {
    return before_.count(offset) == 0 && at(offset)->decoded.mnemonic == ZYDIS_MNEMONIC_NOP;
  }

 private:
  void note(size_t at, const FullInstruction& one) {
    const ZydisDecodedOperand& to = one.operands[0];
    const bool jumps = one.is_in(ZYDIS_CATEGORY_UNCOND_BR), may = one.is_in(ZYDIS_CATEGORY_COND_BR);
    const size_t next = at + one.decoded.length;
    if ((jumps || may) && to.type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
      before_.emplace(next + static_cast<uint64_t>(to.imm.value.s), at);
    // A jump through the linker's table leaves the function. One by a table of its own does not.
    else if (jumps && (to.type != ZYDIS_OPERAND_TYPE_MEMORY || to.mem.base != ZYDIS_REGISTER_RIP))
      jumps_anywhere_ = true;
    const bool ends = jumps || one.is_in(ZYDIS_CATEGORY_RET) ||
                      one.decoded.mnemonic == ZYDIS_MNEMONIC_HLT ||
                      one.decoded.mnemonic == ZYDIS_MNEMONIC_UD2;
    if (ends) return;
    before_.emplace(next, at);
    follows_.insert(next);
  }

  std::map<size_t, FullInstruction> instructions_;
  std::multimap<size_t, size_t> before_;
  std::set<size_t> follows_;  // an instruction that does not jump
  bool jumps_anywhere_ = false;
};

bool is_any_of(const std::optional<std::vector<uint64_t>>& numbers,
               std::span<const uint32_t> wanted) {
  return !numbers || std::any_of(numbers->begin(), numbers->end(), [&](uint64_t number) {
    return std::find(wanted.begin(), wanted.end(), number) != wanted.end();
  });
}

}  // namespace

std::vector<size_t> find_system_call_bytes(std::span<const uint8_t> code) {
  return find_bytes(code, kSyscallBytes);
}

std::vector<size_t> find_old_call_bytes(std::span<const uint8_t> code) {
  return find_bytes(code, kOldCallBytes);
}

bool is_instruction(std::span<const uint8_t> function, size_t at) {
  size_t here = 0;
  while (here < at) {
    ZydisDecodedInstruction one;
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(
            &full_decoder(), nullptr, function.data() + here, function.size() - here, &one)))
      return true;
    here += one.length;
  }
  return here == at;
}

// Goes backwards from the call, on all paths, to what sets the register, and to what sets the
// register that it was copied from. Parts of the function that lie elsewhere, and jump back, are
// not seen: they come back with what the function had set.
std::optional<std::vector<uint64_t>> system_call_numbers(std::span<const uint8_t> function,
                                                         size_t at) {
  const auto flow = Predecessors::of(function);
  if (!flow) return std::nullopt;
  const FullInstruction* const call = flow->at(at);
  if (call == nullptr || call->decoded.mnemonic != ZYDIS_MNEMONIC_SYSCALL)
    return std::vector<uint64_t>();
  std::set<uint64_t> numbers;
  std::set<std::pair<size_t, ZydisRegister>> seen;
  std::vector<std::pair<size_t, ZydisRegister>> left = {{at, ZYDIS_REGISTER_RAX}};
  while (!left.empty()) {
    const auto [here, wanted] = left.back();
    left.pop_back();
    if (!seen.emplace(here, wanted).second) continue;
    const std::vector<size_t> before = flow->before(here);
    if (here == 0 || (before.empty() && !flow->is_filling(here))) return std::nullopt;
    for (const size_t one : before) {
      const Effect effect = flow->at(one)->effect_on(wanted);
      switch (effect.kind) {
        case Effect::Kind::none:
          left.emplace_back(one, wanted);
          break;
        case Effect::Kind::number:
          numbers.insert(effect.number);
          break;
        case Effect::Kind::copies:
          left.emplace_back(one, effect.source);
          break;
        case Effect::Kind::unknown:
          return std::nullopt;
      }
    }
  }
  return std::vector<uint64_t>(numbers.begin(), numbers.end());
}

bool may_install_filter(const std::optional<std::vector<uint64_t>>& numbers) {
  constexpr uint32_t kCalls[] = {SYS_seccomp, SYS_prctl};
  return is_any_of(numbers, kCalls);
}

std::span<const uint32_t> unmapping_calls() {
  constexpr uint32_t kPkeyMprotect = 329, kProcessMadvise = 440;  // older headers lack them
  static constexpr uint32_t kCalls[] = {
      SYS_mmap,    SYS_mprotect, SYS_munmap,           SYS_brk,       SYS_mremap,
      SYS_madvise, SYS_shmat,    SYS_remap_file_pages, kPkeyMprotect, kProcessMadvise};
  return kCalls;
}

bool may_unmap(const std::optional<std::vector<uint64_t>>& numbers) {
  return is_any_of(numbers, unmapping_calls());
}

bool has_number_before(std::span<const uint8_t> function, size_t at) {
  constexpr uint8_t kMovEax = 0xb8;
  if (at < kNumberLength || function[at - kNumberLength] != kMovEax) return false;
  const auto flow = Predecessors::of(function);
  return flow && flow->at(at - kNumberLength) != nullptr &&
         flow->before(at) == std::vector{at - kNumberLength};
}

}  // namespace pinprick::arch
