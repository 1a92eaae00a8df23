#include "target/self_target.h"

#include <linux/membarrier.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>

#include "target/procfs.h"

namespace pinprick::target {
namespace {

long membarrier(int command) {
  return ::syscall(SYS_membarrier, command, 0, 0);
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

std::optional<TrapObstacle> trap_obstacle() {
  const pid_t pid = ::getpid();
  const auto status = read_status(pid);
  if (status && status->tracer != 0) return TrapObstacle::tracer;
  constexpr uint64_t kTrap = uint64_t{1} << (SIGTRAP - 1);
  for (pid_t tid : list_threads(pid)) {
    const auto thread = read_thread_status(pid, tid);
    if (thread && (thread->blocked_signals & kTrap) != 0) return TrapObstacle::blocked;
  }
  return std::nullopt;
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
