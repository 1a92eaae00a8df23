#include "target/seccomp.h"

#include <sys/ptrace.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace pinprick::target {
namespace {

// The registers of classic BPF.
struct Machine {
  uint32_t a = 0;
  uint32_t x = 0;
  uint32_t memory[BPF_MEMWORDS] = {};
};

// Returns false if there is no such operation, or for a division by zero, which ends a filter.
bool calculate(uint16_t operation, uint32_t operand, uint32_t& a) {
  switch (operation) {
    case BPF_ADD:
      a += operand;
      return true;
    case BPF_SUB:
      a -= operand;
      return true;
    case BPF_MUL:
      a *= operand;
      return true;
    case BPF_DIV:
      if (operand != 0) a /= operand;
      return operand != 0;
    case BPF_AND:
      a &= operand;
      return true;
    case BPF_OR:
      a |= operand;
      return true;
    case BPF_XOR:
      a ^= operand;
      return true;
    case BPF_LSH:
      a <<= operand & 31;
      return true;
    case BPF_RSH:
      a >>= operand & 31;
      return true;
    case BPF_NEG:
      a = -a;
      return true;
    default:
      return false;
  }
}

bool load(const sock_filter& step, const seccomp_data& call, const Machine& machine,
          uint32_t& value) {
  switch (BPF_MODE(step.code)) {
    case BPF_IMM:
      value = step.k;
      return true;
    case BPF_MEM:
      if (step.k >= BPF_MEMWORDS) return false;
      value = machine.memory[step.k];
      return true;
    case BPF_ABS:
      if (BPF_CLASS(step.code) != BPF_LD || step.k % 4 != 0 || step.k > sizeof call - sizeof value)
        return false;
      std::memcpy(&value, reinterpret_cast<const uint8_t*>(&call) + step.k, sizeof value);
      return true;
    case BPF_LEN:
      value = sizeof call;
      return true;
    default:
      return false;
  }
}

bool jumps(uint16_t condition, uint32_t a, uint32_t operand) {
  switch (condition) {
    case BPF_JEQ:
      return a == operand;
    case BPF_JGT:
      return a > operand;
    case BPF_JGE:
      return a >= operand;
    default:
      return (a & operand) != 0;  // BPF_JSET
  }
}

}  // namespace

uint32_t run_seccomp_filter(std::span<const sock_filter> program, const seccomp_data& call) {
  Machine machine;
  uint32_t& a = machine.a;
  // All jumps lead forward, so this ends.
  for (size_t at = 0; at < program.size(); ++at) {
    const sock_filter& step = program[at];
    const uint32_t operand = BPF_SRC(step.code) == BPF_X ? machine.x : step.k;
    bool valid = true;
    switch (BPF_CLASS(step.code)) {
      case BPF_LD:
        valid = load(step, call, machine, a);
        break;
      case BPF_LDX:
        valid = load(step, call, machine, machine.x);
        break;
      case BPF_ST:
      case BPF_STX:
        valid = step.k < BPF_MEMWORDS;
        if (valid) machine.memory[step.k] = BPF_CLASS(step.code) == BPF_ST ? a : machine.x;
        break;
      case BPF_ALU:
        valid = calculate(BPF_OP(step.code), operand, a);
        break;
      case BPF_JMP:
        if (BPF_OP(step.code) == BPF_JA)
          at += step.k;
        else
          at += jumps(BPF_OP(step.code), a, operand) ? step.jt : step.jf;
        break;
      case BPF_RET:
        return BPF_RVAL(step.code) == BPF_A ? a : step.k;
      default:  // BPF_MISC
        (BPF_MISCOP(step.code) == BPF_TAX ? machine.x : a) =
            BPF_MISCOP(step.code) == BPF_TAX ? a : machine.x;
        break;
    }
    if (!valid) break;
  }
  return SECCOMP_RET_KILL_PROCESS;
}

Result<SeccompFilters, SystemError> SeccompFilters::read(pid_t tid) {
  SeccompFilters filters;
  const auto get = [&](size_t index, sock_filter* into) {
    return ptrace(PTRACE_SECCOMP_GET_FILTER, tid, reinterpret_cast<void*>(index), into);
  };
  for (size_t index = 0;; ++index) {
    const long length = get(index, nullptr);
    if (length < 0 && errno == ENOENT) return filters;  // there are no more
    if (length < 0) return fail(SystemError{errno});
    std::vector<sock_filter> program(static_cast<size_t>(length));
    if (get(index, program.data()) != length) return fail(SystemError{errno});
    filters.programs_.push_back(std::move(program));
  }
}

// As in the kernel: actions are signed, and the smallest wins.
uint32_t SeccompFilters::action(const seccomp_data& call) const {
  auto strictest = static_cast<int32_t>(SECCOMP_RET_ALLOW);
  for (const auto& program : programs_) {
    const uint32_t answer = run_seccomp_filter(program, call) & SECCOMP_RET_ACTION_FULL;
    strictest = std::min(strictest, static_cast<int32_t>(answer));
  }
  return static_cast<uint32_t>(strictest);
}

}  // namespace pinprick::target
