#include "arch/syscall.h"

#include <signal.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string_view>

#include "arch/assembler.h"

namespace pinprick::arch {
namespace {

// Internal codes of the kernel, which programs never see: how an interrupted call is to be
// restarted.
constexpr int64_t kRestartSys = 512, kRestartNoInterrupt = 513, kRestartNoHandler = 514,
                  kRestartBlock = 516;

constexpr uint64_t kOverflowFlag = 1 << 11;
constexpr uint64_t kDirectionFlag = 1 << 10;
// What the code restores: carry, parity, adjust, zero, sign, direction, overflow.
constexpr uint64_t kRestoredFlags = 0xcd5;

// Offsets in the code of the values that it restores.
constexpr size_t kArithmeticFlags = 34;  // lahf's byte
constexpr size_t kOverflow = 33;
constexpr size_t kDirection = 40;  // the instruction cld or std
constexpr uint8_t kStd = 0xfd;
constexpr size_t kFirstRegister = 41;  // movabs each: two bytes, then the value
constexpr size_t kPerRegister = 10;
using Register = decltype(Registers::rax);
constexpr Register Registers::*kRestored[] = {
    &Registers::rax, &Registers::rbx, &Registers::rcx, &Registers::rdx, &Registers::rsi,
    &Registers::rdi, &Registers::rbp, &Registers::r8,  &Registers::r9,  &Registers::r10,
    &Registers::r11, &Registers::r12, &Registers::r13, &Registers::r14, &Registers::r15};
constexpr size_t kInstructionPointer = kFirstRegister + std::size(kRestored) * kPerRegister + 6;
constexpr size_t kSignalMask = kInstructionPointer + 8;
constexpr size_t kScript = kSignalMask + 8;
constexpr size_t kCallEnd = kScript + 87;

// Some 40 us where a pause takes longest.
constexpr uint32_t kPauses = 1000;

// Registers of the script. System calls preserve all of them.
constexpr Reg kCall = Reg::rbx, kTold = Reg::r13, kDescriptor = Reg::r14, kLast = Reg::r15;

void emit_script(Assembler& code, Assembler::Label home) {
  const auto script = code.new_label(), fine = code.new_label(), out = code.new_label();
  const auto has_arguments = code.new_label(), again = code.new_label(), awake = code.new_label();
  const auto field = [](size_t offset) { return static_cast<int32_t>(offset); };
  code.bind(script);
  code.store(kTold, 0, kCall);
  // The last call sleeps, and to wake a processor takes longer than to interrupt it.
  code.cmp(kCall, kLast);
  code.jump_if(Condition::not_equal, awake);
  code.mov_imm32(Reg::rcx, kPauses);
  code.bind(again);
  code.pause();
  code.loop(again);
  code.bind(awake);
  // The number's low half; the high half is not 0 for a call of the descriptor.
  code.load_sx32(Reg::rax, kCall, field(offsetof(ScriptedCall, number)));
  code.load_sx32(Reg::rcx, kCall, field(offsetof(ScriptedCall, number)) + 4);
  constexpr Reg kArguments[] = {Reg::rdi, Reg::rsi, Reg::rdx, Reg::r10};
  for (size_t i = 0; i < std::size(kArguments); ++i)
    code.load(kArguments[i], kCall, field(offsetof(ScriptedCall, arguments) + i * 8));
  code.load_sx32(Reg::r8, kDescriptor, 0);
  code.load(Reg::r9, kCall, field(offsetof(ScriptedCall, sixth)));
  code.jrcxz(has_arguments);
  code.mov(Reg::rdi, Reg::r8);
  code.bind(has_arguments);
  code.syscall();
  code.store(kCall, field(offsetof(ScriptedCall, result)), Reg::rax);
  code.load(Reg::rcx, kCall, field(offsetof(ScriptedCall, next)));
  code.jrcxz(out);
  code.shift_right(Reg::rax, 63);
  code.test(Reg::rax);
  code.jump_if(Condition::equal, fine);
  code.mov(Reg::rcx, kLast);
  code.bind(fine);
  code.mov(kCall, Reg::rcx);
  code.jmp_short(script);
  code.bind(out);
  code.jmp(home);
}

}  // namespace

CallState call_state(const Registers& registers) {
  if (static_cast<int64_t>(registers.orig_rax) < 0) return CallState::none;
  switch (-syscall_result(registers)) {
    case kRestartSys:
    case kRestartNoInterrupt:
    case kRestartNoHandler:
    case EINTR:
      return CallState::restarts;
    case kRestartBlock:
      return CallState::continues;
    default:
      return CallState::over;
  }
}

bool has_just_executed(const Registers& registers) {
  const uint64_t number = syscall_number(registers);
  // The kernel clears all registers for the program. A number alone may be another call's, made
  // through the 32-bit entry.
  return (number == SYS_execve || number == SYS_execveat) &&
         std::all_of(std::begin(kRestored), std::end(kRestored),
                     [&](auto one) { return registers.*one == 0; });
}

uint64_t syscall_number(const Registers& registers) {
  return registers.orig_rax;
}

uint64_t syscall_argument(const Registers& registers, size_t number) {
  return number == 0 ? registers.rdi : registers.rsi;
}

int64_t syscall_result(const Registers& registers) {
  return static_cast<int64_t>(registers.rax);
}

void restart_unless_handled(Registers& registers) {
  registers.rax = static_cast<uint64_t>(-kRestartNoHandler);
}

Registers restarted(const Registers& registers) {
  const CallState state = call_state(registers);
  if (state == CallState::none) return registers;
  Registers out = registers;
  out.orig_rax = static_cast<uint64_t>(-1);
  if (state == CallState::over) return out;
  out.rax = state == CallState::continues ? SYS_restart_syscall : registers.orig_rax;
  out.rip -= kSyscallLength;
  return out;
}

void set_returned_to(Registers& registers, Address address) {
  registers.rcx = address;
}

Registers registers_for_call(const Registers& home, Address code, uint64_t number,
                             const SyscallArguments& arguments) {
  Registers registers = home;
  registers.rip = code;
  registers.orig_rax = static_cast<uint64_t>(-1);
  registers.rax = number;
  registers.rdi = arguments[0];
  registers.rsi = arguments[1];
  registers.rdx = arguments[2];
  registers.r10 = arguments[3];
  registers.r8 = arguments[4];
  registers.r9 = arguments[5];
  return registers;
}

std::vector<uint8_t> remote_call(Address at, const Registers& home, uint64_t signal_mask) {
  Assembler code(at);
  const auto mask = code.new_label();
  const auto target = code.new_label();
  const auto way_home = code.new_label();
  code.syscall();

  code.bind(way_home);
  code.mov_imm32(Reg::rax, SYS_rt_sigprocmask);
  code.mov_imm32(Reg::rdi, SIG_SETMASK);
  code.lea(Reg::rsi, mask);
  code.mov_imm32(Reg::rdx, 0);
  code.mov_imm32(Reg::r10, sizeof signal_mask);
  code.syscall();

  // lahf's layout in ah, and a value in al that overflows when 127 is added iff the overflow flag
  // is to be set.
  const auto arithmetic = static_cast<uint32_t>(home.eflags & 0xff) << 8;
  code.mov_imm32(Reg::rax, arithmetic | ((home.eflags & kOverflowFlag) != 0 ? 1 : 0));
  code.add_al(127);
  code.sahf();
  if (home.eflags & kDirectionFlag)
    code.std_();
  else
    code.cld();

  code.mov_imm64(Reg::rax, home.rax);
  code.mov_imm64(Reg::rbx, home.rbx);
  code.mov_imm64(Reg::rcx, home.rcx);
  code.mov_imm64(Reg::rdx, home.rdx);
  code.mov_imm64(Reg::rsi, home.rsi);
  code.mov_imm64(Reg::rdi, home.rdi);
  code.mov_imm64(Reg::rbp, home.rbp);
  code.mov_imm64(Reg::r8, home.r8);
  code.mov_imm64(Reg::r9, home.r9);
  code.mov_imm64(Reg::r10, home.r10);
  code.mov_imm64(Reg::r11, home.r11);
  code.mov_imm64(Reg::r12, home.r12);
  code.mov_imm64(Reg::r13, home.r13);
  code.mov_imm64(Reg::r14, home.r14);
  code.mov_imm64(Reg::r15, home.r15);
  code.jmp_memory(target);
  code.bind(target);
  code.u64(home.rip);
  code.bind(mask);
  code.u64(signal_mask);
  emit_script(code, way_home);
  auto bytes = code.finish();
  assert(bytes && bytes->size() == kCallEnd && kCallEnd <= kRemoteCallMaxSize);
  return *bytes;
}

bool ends_thread(std::span<const uint8_t> code) {
  using namespace std::string_view_literals;
  constexpr std::array kResultToStatus = {"\x48\x89\xc7"sv, "\x89\xc7"sv};  // mov rdi, rax
  constexpr std::array kExit = {
      "\xb8\x3c\0\0\0\x0f\x05"sv,    // mov eax, SYS_exit; syscall
      "\x31\xc0\xb0\x3c\x0f\x05"sv,  // xor eax, eax; mov al, SYS_exit; syscall
      "\x6a\x3c\x58\x0f\x05"sv,      // push SYS_exit; pop rax; syscall
  };
  static_assert(SYS_exit == 0x3c);
  const std::string_view bytes(reinterpret_cast<const char*>(code.data()), code.size());
  return std::any_of(kResultToStatus.begin(), kResultToStatus.end(), [&](std::string_view first) {
    return bytes.starts_with(first) &&
           std::any_of(kExit.begin(), kExit.end(), [&](std::string_view exit) {
             return bytes.substr(first.size()).starts_with(exit);
           });
  });
}

void start_script(Registers& registers, Address code, Address first, Address last, Address told,
                  Address descriptor) {
  registers.orig_rax = static_cast<uint64_t>(-1);
  registers.rip = code + kScript;
  registers.rbx = first;
  registers.r13 = told;
  registers.r14 = descriptor;
  registers.r15 = last;
}

std::optional<RemoteCallOrigin> origin_of_remote_call(Address at, std::span<const uint8_t> bytes) {
  if (bytes.size() < kCallEnd) return std::nullopt;
  const auto value_at = [&](size_t offset) {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
  };
  RemoteCallOrigin home;
  for (size_t i = 0; i < std::size(kRestored); ++i)
    home.registers.*kRestored[i] = value_at(kFirstRegister + i * kPerRegister + 2);
  home.registers.rip = value_at(kInstructionPointer);
  home.signal_mask = value_at(kSignalMask);
  home.registers.eflags = bytes[kArithmeticFlags] | (bytes[kOverflow] != 0 ? kOverflowFlag : 0) |
                          (bytes[kDirection] == kStd ? kDirectionFlag : 0);
  // If values were read from other code, the bytes differ.
  const auto again = remote_call(at, home.registers, home.signal_mask);
  if (!std::equal(again.begin(), again.end(), bytes.begin())) return std::nullopt;
  home.registers.eflags &= kRestoredFlags;
  return home;
}

Registers registers_at_origin(const RemoteCallOrigin& home, const Registers& now) {
  Registers registers = home.registers;
  registers.eflags |= now.eflags & ~kRestoredFlags;
  registers.orig_rax = static_cast<uint64_t>(-1);
  registers.rsp = now.rsp;
  registers.cs = now.cs;
  registers.ss = now.ss;
  registers.ds = now.ds;
  registers.es = now.es;
  registers.fs = now.fs;
  registers.gs = now.gs;
  registers.fs_base = now.fs_base;
  registers.gs_base = now.gs_base;
  return registers;
}

}  // namespace pinprick::arch
