#include "target/handover.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
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
  // Without waiting: the process says which socket that is, and may be wrong.
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

// The scratch page: arguments and results of the target's calls, with all pointers into the page
// itself. In one struct, so that no result overwrites another.
struct Scratch {
  int32_t ends[2] = {-1, -1};
  msghdr header = {};
  iovec part = {};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  char byte = 0;
};
static_assert(sizeof(Scratch) <= Handover::kScratchSize);

int32_t received_descriptor(const Scratch& scratch) {
  cmsghdr control;
  int32_t descriptor = -1;
  std::memcpy(&control, scratch.control, sizeof control);
  if (scratch.header.msg_controllen < CMSG_LEN(sizeof descriptor) ||
      control.cmsg_type != SCM_RIGHTS)
    return -1;
  std::memcpy(&descriptor, scratch.control + CMSG_LEN(0), sizeof descriptor);
  return descriptor;
}

}  // namespace

Handover::Handover(HijackedThread& thread, const RemoteTarget& target, Address scratch,
                   Journal journal)
    : thread_(thread), target_(target), scratch_(scratch), journal_(std::move(journal)) {}

Handover::~Handover() {
  close_all();
}

void Handover::close_all() {
  for (int32_t& descriptor : open_) {
    if (descriptor < 0) continue;
    // One that could not be closed stays in the journal.
    if (!thread_.call(SYS_close, static_cast<uint64_t>(descriptor))) continue;
    descriptor = -1;
    journal_(open_);
  }
}

AttachError Handover::failed(const char* what, int error) const {
  return AttachError{AttachCause::handover_failed, target_.pid(), 0, error, what};
}

Handover::Descriptors Handover::told(const Memory& memory, Address at) {
  Scratch scratch;
  // Equal ends are zeros: nothing was written there yet.
  if (!memory.read_value(at, scratch) || scratch.ends[0] == scratch.ends[1]) return {-1, -1, -1};
  return {scratch.ends[0], scratch.ends[1], received_descriptor(scratch)};
}

Result<void, AttachError> Handover::send(int descriptor) {
  Scratch scratch;
  const auto inside = [&](size_t offset) { return scratch_ + offset; };
  scratch.part = {reinterpret_cast<void*>(inside(offsetof(Scratch, byte))), 1};
  scratch.header.msg_iov = reinterpret_cast<iovec*>(inside(offsetof(Scratch, part)));
  scratch.header.msg_iovlen = 1;
  scratch.header.msg_control = reinterpret_cast<void*>(inside(offsetof(Scratch, control)));
  scratch.header.msg_controllen = sizeof scratch.control;
  constexpr int32_t kNone = -1;
  std::memcpy(scratch.control + CMSG_LEN(0), &kNone, sizeof kNone);
  if (auto written = target_.memory().write_value(scratch_, scratch); !written)
    return fail(failed("writing its memory", written.error().number));

  auto made = thread_.call(SYS_socketpair, AF_UNIX, kSocketType | SOCK_CLOEXEC, 0,
                           inside(offsetof(Scratch, ends)));
  if (!made) return fail(failed("socketpair", made.error().number));
  open_ = told(target_.memory(), scratch_);
  if (open_[0] < 0) return fail(failed("reading its memory", EFAULT));
  journal_(open_);

  auto ours = target_.copy_descriptor(open_[1]);
  auto theirs = target_.copy_descriptor(open_[0]);
  if (!ours || !theirs)
    return fail(failed("pidfd_getfd", ours ? theirs.error().number : ours.error().number));
  // An option of the socket, so it also applies to the target's descriptor.
  constexpr timeval kTimeout = {2, 0};
  if (::setsockopt(theirs->get(), SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof kTimeout) != 0)
    return fail(failed("setsockopt", errno));
  our_end_ = *std::move(ours);
  if (!send_descriptor(our_end_.get(), descriptor)) return fail(failed("sendmsg", errno));
  return {};
}

std::vector<arch::ScriptedCall> Handover::receiving() const {
  return {{SYS_close, {static_cast<uint64_t>(open_[1])}},
          {SYS_recvmsg,
           {static_cast<uint64_t>(open_[0]), scratch_ + offsetof(Scratch, header),
            MSG_CMSG_CLOEXEC | MSG_DONTWAIT}}};
}

arch::ScriptedCall Handover::waiting() const {
  return {SYS_recvfrom, {static_cast<uint64_t>(open_[0]), scratch_ + offsetof(Scratch, byte), 1}};
}

Address Handover::received_at() const {
  return scratch_ + offsetof(Scratch, control) + CMSG_LEN(0);
}

Result<int, AttachError> Handover::received() {
  open_ = told(target_.memory(), scratch_);
  open_[1] = -1;
  if (open_[2] < 0)  // usually, the target has reached its limit of descriptors
    return fail(failed("recvmsg", EMFILE));
  journal_(open_);
  return open_[2];
}

}  // namespace pinprick::target
