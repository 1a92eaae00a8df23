#include "target/handover.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/fd.h"

namespace pinprick::target {
namespace {

bool send_descriptor(int socket, int descriptor) {
  char byte = 0;
  iovec part = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

// A message to be received in the target, with all its pointers into the scratch page.
struct RemoteMessage {
  msghdr header = {};
  iovec part = {};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  char byte = 0;
};

}  // namespace

Handover::Handover(BorrowedThread& thread, const Memory& memory, pid_t pid, Address scratch,
                   Journal journal)
    : thread_(thread),
      memory_(memory),
      pid_(pid),
      scratch_(scratch),
      journal_(std::move(journal)) {}

Handover::~Handover() {
  close_all();
}

void Handover::close_all() {
  for (int32_t& descriptor : open_) {
    if (descriptor < 0) continue;
    static_cast<void>(thread_.call(SYS_close, static_cast<uint64_t>(descriptor)));
    descriptor = -1;
    journal_(open_);
  }
}

AttachError Handover::failed(const char* what, int error) const {
  return AttachError{AttachCause::handover_failed, pid_, 0, error, what};
}

Result<int, AttachError> Handover::give(int descriptor, int pidfd) {
  auto made = thread_.call(SYS_socketpair, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, scratch_);
  if (!made) return fail(failed("socketpair", made.error().number));
  int32_t ends[2] = {-1, -1};
  if (!memory_.read_value(scratch_, ends)) return fail(failed("reading its memory", EFAULT));
  open_ = {ends[0], ends[1], -1};
  journal_(open_);

  const Fd ours(static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd, ends[1], 0)));
  if (!ours) return fail(failed("pidfd_getfd", errno));
  if (!send_descriptor(ours.get(), descriptor)) return fail(failed("sendmsg", errno));

  RemoteMessage message;
  message.part = {reinterpret_cast<void*>(scratch_ + offsetof(RemoteMessage, byte)), 1};
  message.header.msg_iov = reinterpret_cast<iovec*>(scratch_ + offsetof(RemoteMessage, part));
  message.header.msg_iovlen = 1;
  message.header.msg_control = reinterpret_cast<void*>(scratch_ + offsetof(RemoteMessage, control));
  message.header.msg_controllen = sizeof message.control;
  if (auto written = memory_.write_value(scratch_, message); !written)
    return fail(failed("writing its memory", written.error().number));
  auto received =
      thread_.call(SYS_recvmsg, static_cast<uint64_t>(ends[0]),
                   scratch_ + offsetof(RemoteMessage, header), MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (!received) return fail(failed("recvmsg", received.error().number));
  if (!memory_.read_value(scratch_, message)) return fail(failed("reading its memory", EFAULT));
  cmsghdr control;
  int remote = -1;
  std::memcpy(&control, message.control, sizeof control);
  if (message.header.msg_controllen < CMSG_LEN(sizeof remote) ||
      control.cmsg_type != SCM_RIGHTS)  // no room for another descriptor, usually
    return fail(failed("recvmsg", EMFILE));
  std::memcpy(&remote, message.control + CMSG_LEN(0), sizeof remote);
  open_[2] = remote;
  journal_(open_);
  return remote;
}

}  // namespace pinprick::target
