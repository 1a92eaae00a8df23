#include "target/remote_target.h"

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/process_folder.h"
#include "target/held_thread.h"

namespace pinprick::target {
namespace {

constexpr unsigned kOfThread = O_EXCL;  // PIDFD_THREAD, since Linux 6.9

// Is the program a 64-bit ELF file? Returns nullopt if unknown.
std::optional<bool> is_64_bit_process(pid_t pid) {
  auto fd = open_file(process_folder(pid) + "/exe", O_RDONLY);
  if (!fd) return std::nullopt;
  uint8_t identity[EI_NIDENT] = {};
  if (!read_at(fd->get(), identity, 0)) return std::nullopt;
  return identity[EI_CLASS] == ELFCLASS64;
}

}  // namespace

Result<RemoteTarget, AttachError> RemoteTarget::open(pid_t pid) {
  const auto refuse = [&](AttachCause cause, int error = 0, pid_t other = 0) {
    return fail(AttachError{cause, pid, other, error, {}});
  };
  if (pid == ::getpid()) return refuse(AttachCause::is_ourselves);
  const auto status = read_status(pid);
  if (!status) return refuse(AttachCause::no_such_process);
  if (status->kernel_thread || status->state == 'Z' || status->state == 'X')
    return refuse(AttachCause::kernel_thread);

  RemoteTarget target;
  target.pid_ = pid;
  target.start_time_ = status->start_time;
  target.command_ = status->command;
  auto memory = Memory::open(pid);
  if (!memory) {
    const int error = memory.error().number;
    if (error == ENOENT || error == ESRCH) return refuse(AttachCause::no_such_process);
    return refuse(AttachCause::not_permitted, error);
  }
  target.memory_ = std::make_shared<const Memory>(*std::move(memory));
  const bool is_ours = status->tracer == ::gettid() && HeldThread::holds_any_of(pid);
  if (status->tracer != 0 && !is_ours && !lets_go(status->tracer))
    return refuse(AttachCause::already_traced, 0, status->tracer);
  if (const auto wide = is_64_bit_process(pid); wide && !*wide)
    return refuse(AttachCause::not_64_bit);
  if (status->shadow_stack) return refuse(AttachCause::shadow_stack);
  Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) return refuse(AttachCause::no_such_process, errno);
  target.pidfd_ = std::make_shared<Fd>(std::move(pidfd));
  return target;
}

image::MemoryReader RemoteTarget::reader() const {
  return [memory = memory_](Address address, std::span<uint8_t> out) {
    return memory->read(address, out);
  };
}

bool RemoteTarget::has_exited() const {
  pollfd poll_set = {pidfd_->get(), POLLIN, 0};
  return ::poll(&poll_set, 1, 0) == 1;
}

Result<Fd, SystemError> RemoteTarget::copy_descriptor(int descriptor) const {
  const auto copy_by = [&](int pidfd) {
    return Fd(static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd, descriptor, 0)));
  };
  if (Fd copy = copy_by(pidfd_->get())) return copy;
  const int error = errno;
  // A first thread that has ended has no descriptors.
  for (pid_t tid : list_threads(pid_)) {
    const Fd thread(static_cast<int>(::syscall(SYS_pidfd_open, tid, kOfThread)));
    if (!thread) continue;
    if (Fd copy = copy_by(thread.get())) return copy;
  }
  return fail(SystemError{error});
}

bool RemoteTarget::ends() const {
  constexpr int kMomentMs = 1000;
  if (has_exited()) return true;
  const auto status = read_status(pid_);
  if (status && !status->ending) return false;
  pollfd poll_set = {pidfd_->get(), POLLIN, 0};
  return ::poll(&poll_set, 1, kMomentMs) == 1;
}

}  // namespace pinprick::target
