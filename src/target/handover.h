// Hands one of our file descriptors over to the target, through a socket pair that the target makes
// and that is closed again. So it does not depend on paths, permissions or mount namespaces.
//
// For the thread of the controller that holds the hijacked thread. The journal is told of every
// descriptor, so a later controller can close them if this one dies.
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
  // Descriptors of the target that we opened, for a journal: both ends of the socket pair, and the
  // file; -1 if not open.
  using Descriptors = std::array<int32_t, 3>;
  // A type that programs rarely use, by which the ends are recognised later.
  static constexpr int kSocketType = SOCK_SEQPACKET;
  // Called with the open descriptors after each change.
  using Journal = std::function<void(const Descriptors&)>;

  // `scratch` is a readable and writable page of the target that the program does not use.
  Handover(HijackedThread& thread, const RemoteTarget& target, Address scratch, Journal journal);
  ~Handover();
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;

  // Makes the socket pair and sends the descriptor. The target receives it by a script of calls.
  Result<void, AttachError> send(int descriptor);
  // The first calls of that script: the first one closes the target's copy of our end, so that only
  // we have it, and the second one receives the descriptor.
  std::vector<arch::ScriptedCall> receiving() const;
  // The last call of that script: it waits at the other end until we are gone, for two seconds at
  // most.
  arch::ScriptedCall waiting() const;
  // Where in the target the received descriptor is stored; -1 is stored there before.
  Address received_at() const;
  // Returns the target's descriptor for the same open file. Must be called after the script. The
  // destructor closes it and the socket, through the hijacked thread.
  Result<int, AttachError> received();

  // How much of the scratch page this class uses, from its start.
  static constexpr uint64_t kScratchSize = 256;

  // The descriptors that the scratch page names, open or not. The calls that open descriptors write
  // them there themselves, so the page may name some that the journal does not.
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
