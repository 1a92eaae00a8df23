#include "cli/interrupts.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace pinprick::cli {

Interrupts::Interrupts() : before_(session::SignalTreatment::current()) {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&set, signal);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  // Whoever reads our output may go away, or a limit be reached; then we have probes to remove.
  for (int signal : {SIGPIPE, SIGXFSZ}) ::signal(signal, [](int) {});
  // To whoever ignores it the kernel does not say how a child ended.
  ::signal(SIGCHLD, SIG_DFL);
  descriptor_ = Fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

bool Interrupts::arrived() {
  signalfd_siginfo info;
  if (::read(descriptor_.get(), &info, sizeof info) != sizeof info) return false;
  signal_ = static_cast<int>(info.ssi_signo);
  return true;
}

}  // namespace pinprick::cli
