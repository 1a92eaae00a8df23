#include "arch/vfork_hook.h"

#include <linux/sched.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <optional>
#include <string_view>

#include "arch/code.h"
#include "arch/x86_64/full_decoder.h"
#include "arch/x86_64/stub/displaced.h"
#include "layout/runtime_offsets.h"

namespace pinprick::arch {
namespace {

constexpr uint8_t kSyscall[] = {0x0f, 0x05};
constexpr uint8_t kMovEax = 0xb8, kMovEdi = 0xbf;
constexpr size_t kMovLength = 5;
constexpr uint32_t kSharing = CLONE_VM | CLONE_VFORK;
// A caller's struct clone_args lies on its stack, within this distance. Elsewhere it may not be
// readable: the kernel refuses such a call, and we must not fault in its place.
constexpr int32_t kCloneArgsReach = 65536;

uint32_t read32(std::span<const uint8_t> code, size_t at) {
  uint32_t value;
  std::memcpy(&value, code.data() + at, sizeof value);
  return value;
}

bool starts_children(uint32_t number) {
  return number == SYS_vfork || number == SYS_clone || number == SYS_clone3;
}

// Recognises fork(): its flags are in the instructions before the call.
bool is_fork(std::span<const uint8_t> code, size_t number_at) {
  constexpr size_t kNear = 24;
  if (read32(code, number_at + 1) != SYS_clone) return false;
  const size_t begin = number_at - std::min(number_at, kNear);
  for (size_t at = begin; at + kMovLength <= number_at; ++at) {
    if (code[at] != kMovEdi) continue;
    const uint32_t flags = read32(code, at + 1);
    // An exit signal, and flags: other bytes do not look like this by chance.
    constexpr uint32_t kSigchld = 17;
    if ((flags & CSIGNAL) == kSigchld && (flags & CLONE_VM) == 0) return true;
  }
  return false;
}

class VforkHook {
 public:
  VforkHook(Assembler& code, RseqArea rseq, const Displaced& displaced)
      : code_(code), area_(rseq.thread_pointer_offset), displaced_(displaced) {}
  Stub emit();

 private:
  void choose();
  void mark();
  void restore_flags_and_number();

  Assembler& code_;
  int32_t area_;
  const Displaced& displaced_;
  Assembler::Label sharing_ = code_.new_label(), plain_ = code_.new_label();
};

// Jumps to `sharing_` if the child will share memory and thread pointer with a parent that waits.
// The number of the call is in r11. Changes rcx and flags.
void VforkHook::choose() {
  const auto flags = code_.new_label();
  code_.cmp32_imm32(Reg::r11, SYS_vfork);
  code_.jump_if(Condition::equal, sharing_);
  code_.mov(Reg::rcx, Reg::rdi);
  code_.cmp32_imm32(Reg::r11, SYS_clone);
  code_.jump_if(Condition::equal, flags);
  code_.cmp32_imm32(Reg::r11, SYS_clone3);
  code_.jump_if(Condition::not_equal, plain_);
  code_.sub(Reg::rcx, Reg::rsp);
  code_.cmp_imm32(Reg::rcx, kCloneArgsReach);
  code_.jump_if(Condition::above_or_equal, plain_);
  static_assert(offsetof(clone_args, flags) == 0);
  code_.load(Reg::rcx, Reg::rdi, 0);
  code_.bind(flags);
  code_.and32_imm32(Reg::rcx, kSharing | CLONE_SETTLS);
  code_.cmp32_imm32(Reg::rcx, kSharing);
  code_.jump_if(Condition::equal, sharing_);
}

void VforkHook::mark() {
  code_.store_fs32_imm32(area_ + PP_RSEQ_CPU_ID, UINT32_MAX);
}

void VforkHook::restore_flags_and_number() {
  code_.add_al(127);  // sets the overflow flag if seto stored 1
  code_.sahf();
  code_.mov(Reg::rax, Reg::r11);
}

//     descriptor: struct rseq_cs {begin, end, abort = again}
//   stub:
//                 [link to another session's hook, which does all of this itself]
//                 r11 = rax, the number; al, ah = flags
//                 goto sharing if the child shares memory and thread pointer, and its parent waits
//     plain:      flags, rax
//     copy:       syscall
//                 goto out
//     sharing:    goto plain if rseq.cpu_id < 0
//                 rseq.cpu_id = -1
//                 flags, rax
//                 syscall
//                 if rax == 0 goto child
//     again:      rseq.rseq_cs = &descriptor          after the signature
//     begin:      rseq.cpu_id = rseq.cpu_id_start
//     end:        rseq.rseq_cs = 0
//                 goto out
//     child:      rseq.cpu_id = -1
//     out:        rcx = the address after the original call
//                 the other displaced instructions, jump back
//
// A system call changes rcx and r11; the hook uses no other register, and no stack, since parent
// and child may share it. What is known before the call is known after it from where it returns to.
//
// **The child** sees the mark of its parent, and so do signal handlers that run before its first
// instruction. The child sets the mark again, because the kernel writes the parent's CPU whenever
// it interrupts the parent, which may have happened between the mark and the call.
//
// **The parent** has its CPU number back before it executes an instruction of the program. The
// child does not write cpu_id_start, which the kernel keeps equal to cpu_id. The copy from one to
// the other is a restartable sequence: a thread that is moved to another CPU between load and
// store, or gets a signal there, starts again. Linux up to 6.18 writes both when a thread that has
// slept returns; later kernels write them only if they changed.
//
// **Without a registration** (cpu_id < 0) there is nothing to mark, and nothing to restore. A
// thread that never had one is left as it is, and so is such a child that starts another. A new
// thread in the memory of one that ended may have that one's area, and gets back what was there.
//
// **Seccomp and restarted calls:** the call is made with all registers unchanged but rcx, which it
// changes itself, and is restarted where it is.
Stub VforkHook::emit() {
  const auto descriptor = code_.bind_here();
  const auto again = code_.new_label();
  const auto begin = code_.new_label();
  const auto end = code_.new_label();
  const auto child = code_.new_label();
  const auto out = code_.new_label();
  Stub stub;
  const auto next_is = [&](size_t offset) {
    stub.frames.note(code_.here(), static_cast<uint8_t>(offset), 0);
  };
  code_.u64(uint64_t{0});  // version and flags
  code_.u64(begin);
  code_.distance(begin, end);
  code_.u64(again);
  stub.begin = code_.here();
  if (displaced_.link) emit_link(code_, *displaced_.link, sizeof kSyscall, stub);
  next_is(0);
  code_.mov(Reg::r11, Reg::rax);
  code_.lahf();
  code_.seto_al();
  choose();
  code_.bind(plain_);
  restore_flags_and_number();
  stub.copy = code_.here();
  stub.copies.push_back({0, 0});
  code_.syscall();
  next_is(sizeof kSyscall);
  code_.jmp_short(out);

  code_.bind(sharing_);
  next_is(0);
  code_.load_fs_sx32(Reg::rcx, area_ + PP_RSEQ_CPU_ID);
  code_.test(Reg::rcx);
  code_.jump_if(Condition::negative, plain_);
  restore_flags_and_number();
  mark();
  code_.syscall();
  next_is(sizeof kSyscall);
  code_.mov(Reg::rcx, Reg::rax);
  code_.jrcxz(child);
  code_.mov_imm32(Reg::rcx, PP_RSEQ_SIGNATURE);
  code_.bind(again);
  code_.lea(Reg::rcx, descriptor);
  code_.store_fs(area_ + PP_RSEQ_CS, Reg::rcx);
  code_.bind(begin);
  code_.load_fs_sx32(Reg::rcx, area_ + PP_RSEQ_CPU_ID_START);
  code_.store_fs32(area_ + PP_RSEQ_CPU_ID, Reg::rcx);
  code_.bind(end);
  code_.store_fs_imm32(area_ + PP_RSEQ_CS, 0);
  code_.jmp_short(out);
  code_.bind(child);
  mark();
  code_.bind(out);
  code_.lea(Reg::rcx, displaced_.address + sizeof kSyscall);
  emit_displaced(code_, displaced_, stub, sizeof kSyscall);
  stub.end = code_.here();
  return stub;
}

}  // namespace

std::vector<size_t> find_vforks(std::span<const uint8_t> code) {
  const std::string_view bytes(reinterpret_cast<const char*>(code.data()), code.size());
  const std::string_view call(reinterpret_cast<const char*>(kSyscall), sizeof kSyscall);
  std::vector<size_t> found;
  for (size_t at = bytes.find(call, kMovLength); at != bytes.npos; at = bytes.find(call, at + 1)) {
    const size_t number_at = at - kMovLength;
    if (code[number_at] == kMovEax && starts_children(read32(code, number_at + 1)) &&
        !is_fork(code, number_at))
      found.push_back(at);
  }
  return found;
}

std::vector<size_t> find_execs(std::span<const uint8_t> code) {
  std::vector<size_t> found;
  for (size_t at = 0; at < code.size();) {
    const auto instruction = decode(code.subspan(at), at);
    if (!instruction) break;
    if (code[at] == kMovEax && instruction->length == kMovLength &&
        code.size() - at >= kMovLength + sizeof kSyscall &&
        std::equal(std::begin(kSyscall), std::end(kSyscall), code.begin() + at + kMovLength)) {
      const uint32_t number = read32(code, at + 1);
      if (number == SYS_execve || number == SYS_execveat) found.push_back(at);
    }
    at += instruction->length;
  }
  return found;
}

std::optional<size_t> find_system_call(std::span<const uint8_t> code) {
  for (size_t at = 0; at < code.size();) {
    const auto instruction = decode(code.subspan(at), at);
    if (!instruction) break;
    if (instruction->special == Special::syscall) return at;
    at += instruction->length;
  }
  return std::nullopt;
}

Stub emit_vfork_hook(Assembler& code, RseqArea rseq, const Displaced& displaced) {
  assert(std::equal(std::begin(kSyscall), std::end(kSyscall), displaced.bytes.begin()));
  return VforkHook(code, rseq, displaced).emit();
}

}  // namespace pinprick::arch
