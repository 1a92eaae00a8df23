#include "target/self_target.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>

#include "target/procfs.h"

namespace pinprick::target {
namespace {

long membarrier(int command) {
  return ::syscall(SYS_membarrier, command, 0, 0);
}

// A filter of system calls may end the program for one that it does not expect.
bool has_system_call_filter() {
  constexpr int kNoSeccomp = 0;
  return ::prctl(PR_GET_SECCOMP) != kNoSeccomp;
}

}  // namespace

Result<SelfTarget, SystemError> SelfTarget::open() {
  for (int command : {MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
                      MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE})
    if (membarrier(command) != 0) return fail(SystemError{errno});
  auto memory = Memory::open(::getpid());
  if (!memory) return fail(memory.error());
  return SelfTarget(*std::move(memory));
}

void SelfTarget::synchronize_threads() const {
  [[maybe_unused]] const long done = membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE);
  assert(done == 0);
}

// CPUID serializes the processor. Membarrier does so for its caller only since Linux 5.10.
void SelfTarget::synchronize_this_thread() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d) : : "memory");
}

// This one fails for pages that the program itself may not read. It is asked for this thread's
// memory, as the process's first thread may have ended.
bool read_own_memory(Address address, std::span<uint8_t> out) {
  if (!has_system_call_filter()) {
    const iovec here = {out.data(), out.size()};
    const iovec there = {reinterpret_cast<void*>(address), out.size()};
    if (::process_vm_readv(::gettid(), &here, 1, &there, 1, 0) == static_cast<ssize_t>(out.size()))
      return true;
  }
  const auto memory = Memory::open(::getpid());
  return memory && memory->read(address, out);
}

std::optional<TrapObstacle> trap_obstacle() {
  const pid_t pid = ::getpid();
  const auto status = read_status(pid);
  if (status && status->tracer != 0) return TrapObstacle{TrapObstacle::Kind::tracer};
  for (pid_t thread : list_threads(pid))
    if (blocks_trap_signal(thread)) return TrapObstacle{TrapObstacle::Kind::blocked, thread};
  return std::nullopt;
}

bool blocks_trap_signal(pid_t thread) {
  constexpr uint64_t kTrap = uint64_t{1} << (SIGTRAP - 1);
  const auto status = read_thread_status(::getpid(), thread);
  return status && (status->blocked_signals & kTrap) != 0;
}

// Memory that no other thread shares needs no unsharing: then the kernel does nothing, and
// succeeds. Otherwise it fails. /proc does not tell who shares it.
bool is_only_thread() {
  return !has_system_call_filter() && ::unshare(CLONE_VM) == 0;
}

bool map_code(Range at) {
  void* const wanted = reinterpret_cast<void*>(at.begin);
  void* const mapped = ::mmap(wanted, at.size(), PROT_READ | PROT_EXEC,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (mapped == wanted) return true;
  // A kernel that does not know MAP_FIXED_NOREPLACE takes the address as a hint.
  if (mapped != MAP_FAILED) ::munmap(mapped, at.size());
  return false;
}

}  // namespace pinprick::target
