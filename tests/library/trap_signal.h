// Blocks SIGTRAP in the calling thread, which all code that writes text must respect.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace pinprick {

class BlockedTrapSignal {
 public:
  BlockedTrapSignal() { change(SIG_BLOCK); }
  BlockedTrapSignal(const BlockedTrapSignal&) = delete;
  BlockedTrapSignal& operator=(const BlockedTrapSignal&) = delete;
  ~BlockedTrapSignal() { change(SIG_UNBLOCK); }

 private:
  static void change(int how) {
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGTRAP);
    ::pthread_sigmask(how, &set, nullptr);
  }
};

}  // namespace pinprick
