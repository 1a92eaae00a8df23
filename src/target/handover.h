// Gives one of our file descriptors to the target, through a socket pair that the target makes and
// that is closed again: no path, no permission and no mount namespace has a say in it.
#pragma once

#include <sys/socket.h>

#include <array>
#include <functional>
#include <vector>

#include "arch/syscall.h"
#include "base/fd.h"
#include "target/hijacked_thread.h"
#include "target/remote_target.h"

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
  Handover(HijackedThread& thread, const RemoteTarget& target, Address scratch, Journal journal);
  ~Handover();
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;

  // Sends the descriptor: the target has yet to receive it, by a script of calls.
  Result<void, AttachError> send(int descriptor);
  // Its first call closes the target's own copy of the end that we have, so that nobody has it but
  // us, and the next one receives the descriptor.
  std::vector<arch::ScriptedCall> receiving() const;
  // Its last one waits at the other end until we are no more, or for some seconds at most.
  arch::ScriptedCall waiting() const;
  // Where the received one stands in the target; -1 before.
  Address received_at() const;
  // After that: the target's descriptor for the same open file. To close it, and the socket,
  // through the hijacked thread is this class's business.
  Result<int, AttachError> received();

  // Of the scratch page: what this class uses of it, from its begin.
  static constexpr uint64_t kScratchSize = 256;

  // What the kernel told the target: the descriptors that the scratch page names, open or not. The
  // calls that open them write there themselves, so it knows what a journal may not know yet.
  static Descriptors told(const Memory& memory, Address scratch);

 private:
  AttachError failed(const char* what, int error) const;
  void close_all();

  HijackedThread& thread_;
  const RemoteTarget& target_;
  Address scratch_;
  Journal journal_;
  Descriptors open_ = {-1, -1, -1};
  Fd our_end_;
};

}  // namespace pinprick::target
