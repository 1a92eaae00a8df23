#include "target/loader_walk.h"

#include <elf.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "arch/code.h"
#include "image/loader.h"
#include "image/maps.h"
#include "target/hijacked_thread.h"
#include "target/memory.h"
#include "target/ptrace_data.h"
#include "target/thread_registers.h"

namespace pinprick::target {
namespace {

// Does a C library make this call while it sets up its thread?
bool sets_up_thread(uint64_t number) {
  return number == SYS_set_tid_address || number == SYS_set_robust_list || number == SYS_rseq ||
         number == SYS_arch_prctl;
}

bool is_call_next(pid_t tid, const arch::Registers& registers) {
  errno = 0;
  const long word =
      ptrace(PTRACE_PEEKTEXT, tid,
             ptrace_data(static_cast<long>(arch::instruction_pointer(registers))), nullptr);
  if (errno != 0) return false;
  uint8_t bytes[sizeof word];
  std::memcpy(bytes, &word, sizeof word);
  const auto next = arch::decode(bytes, arch::instruction_pointer(registers));
  return next && next->special == arch::Special::syscall;
}

}  // namespace

Range loader_code(pid_t pid) {
  const auto memory = Memory::open(pid);
  const auto maps = image::read_maps(pid);
  if (!memory || !maps) return {};
  const Address base = image::loader_base(pid, memory->reader());
  if (base == 0) return {};
  const auto first = std::find_if(maps->begin(), maps->end(), [&](const image::Mapping& mapping) {
    return mapping.range.contains(base);
  });
  for (auto at = first; at != maps->end() && at->inode == first->inode; ++at)
    if (at->executable) return at->range;
  return {};
}

// Runs the thread to its next stop. Signals are delivered on the way.
LoaderWalk::Stop LoaderWalk::resume(bool one_instruction) {
  const auto request = one_instruction ? PTRACE_SINGLESTEP : PTRACE_SYSCALL;
  for (long signal = 0;;) {
    if (ptrace(request, tid_, nullptr, ptrace_data(signal)) != 0) return Stop::ended;
    int status = 0;
    while (waitpid(tid_, &status, __WALL) != tid_)
      if (errno != EINTR) return Stop::ended;
    if (!WIFSTOPPED(status)) return Stop::ended;
    const int event = status >> 16;
    signal = 0;
    if (event == PTRACE_EVENT_EXEC) return Stop::executed;
    if (event != 0) continue;
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) return read_call();
    if (one_instruction && WSTOPSIG(status) == SIGTRAP) return Stop::stepped;
    signal = WSTOPSIG(status);
  }
}

LoaderWalk::Stop LoaderWalk::read_call() {
  __ptrace_syscall_info info = {};
  if (ptrace(PTRACE_GET_SYSCALL_INFO, tid_, ptrace_data(sizeof info), &info) <= 0)
    return Stop::ended;
  if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
    number_ = info.entry.nr;
    std::copy(std::begin(info.entry.args), std::end(info.entry.args), arguments_);
    return Stop::call_starts;
  }
  result_ = info.exit.rval;
  failed_ = info.exit.is_error != 0;
  return Stop::call_ends;
}

bool LoaderWalk::first_stop() {
  number_ = UINT64_MAX;  // the exec's own, whose beginning we have not seen
  return resume(false) == Stop::call_ends;
}

LoaderWalk::Step LoaderWalk::next() {
  arch::Registers registers;
  for (;;) {
    if (!is_ready_ && !read_registers(tid_, registers)) return {};
    const bool had_pointer = is_ready_ || registers.fs_base != 0;
    switch (resume(false)) {
      case Stop::call_starts:
      case Stop::stepped:
        continue;
      case Stop::executed:
        return {Event::executed, {}};
      case Stop::ended:
        return {};
      case Stop::call_ends:
        break;
    }
    if (!had_pointer && read_registers(tid_, registers) && registers.fs_base != 0) {
      is_ready_ = true;
      return run_to_rseq();
    }
    if (failed_) continue;
    if (number_ == SYS_mmap && (arguments_[2] & PROT_EXEC) != 0 &&
        (arguments_[3] & MAP_ANONYMOUS) == 0) {
      descriptor_ = static_cast<int>(arguments_[4]);
      const auto begin = static_cast<Address>(result_);
      code_ = {begin, begin + align_up(arguments_[1], kPageSize)};
      return {Event::code_mapped, code_};
    }
    if (number_ == SYS_mprotect && (arguments_[2] & PROT_EXEC) != 0)
      return {Event::code_mapped,
              {arguments_[0], arguments_[0] + align_up(arguments_[1], kPageSize)}};
    if (number_ == SYS_close && descriptor_ >= 0 &&
        static_cast<int>(arguments_[0]) == descriptor_) {
      descriptor_ = -1;
      return {Event::object_mapped, code_};
    }
  }
}

// The C library registers the area in its next few instructions, or never. The thread is stepped
// through these, so that it cannot leave the loader unnoticed. The kernel unblocks SIGTRAP in a
// thread that is stepped.
LoaderWalk::Step LoaderWalk::run_to_rseq() {
  uint64_t mask = 0;
  if (ptrace(PTRACE_GETSIGMASK, tid_, ptrace_data(sizeof mask), &mask) != 0) return {};
  const Step step = step_to_rseq();
  if (step.event == Event::thread_ready &&
      ptrace(PTRACE_SETSIGMASK, tid_, ptrace_data(sizeof mask), &mask) != 0)
    return {};
  return step;
}

LoaderWalk::Step LoaderWalk::step_to_rseq() {
  constexpr int kMostSteps = 1000;
  const Step ready = {Event::thread_ready, {}};
  for (int i = 0; i < kMostSteps && !rseq_registration(tid_); ++i) {
    arch::Registers registers;
    if (!read_registers(tid_, registers)) return {};
    if (!loader_.contains(arch::instruction_pointer(registers))) return ready;
    const bool calls = is_call_next(tid_, registers);
    Stop stop = resume(!calls);
    if (stop == Stop::call_starts) {
      if (!sets_up_thread(number_)) return ready;
      stop = resume(false);
    }
    if (stop == Stop::ended) return {};
    if (stop == Stop::executed) return {Event::executed, {}};
  }
  return ready;
}

}  // namespace pinprick::target
