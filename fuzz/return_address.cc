// Any bytes as a function that may look at its return address. Another decoder walks a path through
// it, as the input's first bytes say: if the path reads the return address, or leaves the function
// with it on top of the stack, that must have been found.
#include "arch/return_address.h"

#include <capstone/capstone.h>

#include <algorithm>
#include <optional>
#include <set>

#include "fuzzer.h"

namespace {

using pinprick::Address;
using pinprick::arch::ReturnAddressUse;

struct Walk {
  bool reads = false;
  std::optional<Address> left_for;
};

constexpr int64_t kUnknown = INT64_MIN;

// How far below the return address the stack pointer and rbp point.
struct Frame {
  int64_t rsp = 0;
  int64_t rbp = kUnknown;
};

int64_t distance(const cs_x86_op& operand, const Frame& frame) {
  if (operand.type != X86_OP_MEM || operand.mem.index != X86_REG_INVALID ||
      operand.mem.segment != X86_REG_INVALID)
    return kUnknown;
  const int64_t base = operand.mem.base == X86_REG_RSP   ? frame.rsp
                       : operand.mem.base == X86_REG_RBP ? frame.rbp
                                                         : kUnknown;
  return base == kUnknown ? kUnknown : base - operand.mem.disp;
}

class Walker {
 public:
  Walker() {
    CHECK(cs_open(CS_ARCH_X86, CS_MODE_64, &handle_) == CS_ERR_OK);
    cs_option(handle_, CS_OPT_DETAIL, CS_OPT_ON);
    instruction_ = cs_malloc(handle_);
  }
  Walker(const Walker&) = delete;
  Walker& operator=(const Walker&) = delete;
  ~Walker() {
    cs_free(instruction_, 1);
    cs_close(&handle_);
  }

  // `choices`: of each conditional jump in turn, a bit, whether it is taken. Ends where it meets
  // what it does not know, or has been.
  Walk walk(std::span<const uint8_t> code, Address begin, uint64_t choices) {
    Walk walk;
    Frame frame;
    Address at = begin;
    std::set<Address> seen;
    while (seen.insert(at).second) {
      if (at - begin >= code.size()) {
        if (frame.rsp == 0) walk.left_for = at;
        return walk;
      }
      const uint8_t* bytes = code.data() + (at - begin);
      size_t size = code.size() - (at - begin);
      Address next = at;
      if (!cs_disasm_iter(handle_, &bytes, &size, &next, instruction_)) return walk;
      const cs_x86& x86 = instruction_->detail->x86;
      switch (instruction_->id) {
        case X86_INS_JMP:
        case X86_INS_JE:
        case X86_INS_JNE:
          if (x86.operands[0].type != X86_OP_IMM || x86.prefix[2] != 0) return walk;
          if (instruction_->id != X86_INS_JMP) {
            const bool taken = (choices & 1) != 0;
            choices >>= 1;
            if (!taken) break;
          }
          next = static_cast<Address>(x86.operands[0].imm);
          break;
        case X86_INS_PUSH:
          if (x86.operands[0].type != X86_OP_REG || x86.operands[0].size != 8) return walk;
          frame.rsp += 8;
          break;
        case X86_INS_POP:
          if (x86.operands[0].type != X86_OP_REG || x86.operands[0].size != 8 ||
              x86.operands[0].reg == X86_REG_RSP)
            return walk;
          if (frame.rsp == 0) walk.reads = true;
          if (x86.operands[0].reg == X86_REG_RBP) frame.rbp = kUnknown;
          frame.rsp -= 8;
          break;
        case X86_INS_MOV:
          if (!move(x86, frame)) return walk;
          if (std::any_of(x86.operands, x86.operands + x86.op_count, [&](const cs_x86_op& one) {
                return (one.access & CS_AC_READ) != 0 && distance(one, frame) == 0;
              }))
            walk.reads = true;
          break;
        case X86_INS_NOP:
        case X86_INS_ENDBR64:
          break;
        default:
          return walk;
      }
      if (walk.reads) return walk;
      at = next;
    }
    return walk;
  }

 private:
  // False: not known.
  static bool move(const cs_x86& x86, Frame& frame) {
    const cs_x86_op& to = x86.operands[0];
    const cs_x86_op& from = x86.operands[1];
    if (x86.op_count != 2 || x86.addr_size != 8) return false;
    if (to.type != X86_OP_REG) return true;
    const auto is = [](const cs_x86_op& one, x86_reg reg) {
      return one.type == X86_OP_REG && one.reg == reg;
    };
    if (is(to, X86_REG_RBP) && is(from, X86_REG_RSP)) {
      frame.rbp = frame.rsp;
      return true;
    }
    // Any other that changes them, or a part of them.
    constexpr x86_reg kOther[] = {X86_REG_RSP, X86_REG_ESP, X86_REG_SP, X86_REG_SPL,
                                  X86_REG_RBP, X86_REG_EBP, X86_REG_BP, X86_REG_BPL};
    return std::find(std::begin(kOther), std::end(kOther), to.reg) == std::end(kOther);
  }

  csh handle_ = 0;
  cs_insn* instruction_ = nullptr;
};

bool contains(const std::vector<Address>& all, Address one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using pinprick::arch::use_of_return_address;
  static Walker walker;
  // No operand relative to the instruction pointer is at address 0 in either place.
  constexpr Address kBegin = 0x550000400000, kElsewhere = 0x7f0012345678;
  pinprick::fuzz::Numbers numbers({data, size});
  const auto choices = numbers.take<uint64_t>();
  const auto function = numbers.rest();
  const ReturnAddressUse use = use_of_return_address(function, kBegin);
  const Walk walk = walker.walk(function, kBegin, choices);
  CHECK(!walk.reads || use.is_read);
  CHECK(!walk.left_for || use.is_read || contains(use.forwards_to, *walk.left_for));
  // Where it lies makes no difference.
  const ReturnAddressUse moved = use_of_return_address(function, kElsewhere);
  CHECK(moved.is_read == use.is_read);
  CHECK(moved.forwards_to.size() == use.forwards_to.size());
  for (size_t i = 0; i < use.forwards_to.size(); ++i)
    CHECK(moved.forwards_to[i] - kElsewhere == use.forwards_to[i] - kBegin);
  CHECK(moved.forwards_through.size() == use.forwards_through.size());
  CHECK(moved.forwards_elsewhere == use.forwards_elsewhere);
  CHECK(moved.loads.size() == use.loads.size());
  return 0;
}

std::vector<Input> seeds() {
  std::vector<Input> all = {
      {0x48, 0x8b, 0x04, 0x24, 0xc3},                          // mov (%rsp), %rax; ret
      {0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x45, 0x08, 0xc3},  // push %rbp; ...; mov 8(%rbp), %rax
      {0x5e, 0xff, 0xe6},                                      // pop %rsi; jmp *%rsi
      {0x53, 0x74, 0x02, 0x5b, 0xc3, 0x5b, 0x5a, 0xeb, 0xf7},  // push; je; pop; ret; pop; pop; jmp
      {0x31, 0xf6, 0xe9, 0x00, 0x10, 0x00, 0x00},              // xor %esi, %esi; jmp elsewhere
      {0x48, 0x8b, 0x05, 0x00, 0x01, 0x00, 0x00, 0xff, 0xe0},  // mov 0x100(%rip), %rax; jmp *%rax
  };
  for (Input& function : all) function.insert(function.begin(), 8, 0x5a);
  const Input library = pinprick::fuzz::file("/lib/x86_64-linux-gnu/libc.so.6");
  for (size_t at = library.size() / 5; at + 256 < library.size() && all.size() < 50;
       at += library.size() / 100)
    all.emplace_back(library.begin() + static_cast<ptrdiff_t>(at),
                     library.begin() + static_cast<ptrdiff_t>(at + 256));
  return all;
}
