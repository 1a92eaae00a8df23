// Gives one of our file descriptors to the target, through a socket pair that the target makes and
// that is closed again: no path, no permission and no mount namespace has a say in it.
#pragma once

#include <sys/socket.h>

#include <array>
#include <functional>

#include "target/borrowed_thread.h"

namespace pinprick::target {

class Handover {
 public:
  // Descriptors of the target that are open because of us, for a journal: both ends of the socket
  // pair and the file; -1: none.
  using Descriptors = std::array<int32_t, 3>;
  // A kind that programs rarely use, by which the ends are known later.
  static constexpr int kSocketType = SOCK_SEQPACKET;
  // Called with what is open, before and after each change.
  using Journal = std::function<void(const Descriptors&)>;

  // `scratch`: a readable and writable page of the target that nobody uses.
  Handover(BorrowedThread& thread, const Memory& memory, pid_t pid, Address scratch,
           Journal journal);
  ~Handover();
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;

  // The target's descriptor for the same open file; close() it through the borrowed thread is this
  // class's business.
  Result<int, AttachError> give(int descriptor, int pidfd);

  // What the kernel told the target: the descriptors that the scratch page names, open or not. The
  // calls that open them write there themselves, so it knows what a journal may not know yet.
  static Descriptors told(const Memory& memory, Address scratch);

 private:
  AttachError failed(const char* what, int error) const;
  void close_all();

  BorrowedThread& thread_;
  const Memory& memory_;
  pid_t pid_;
  Address scratch_;
  Journal journal_;
  Descriptors open_ = {-1, -1, -1};
};

}  // namespace pinprick::target
