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
  // If the reader of our output goes away, or a size limit is reached, we still must remove probes.
  for (int signal : {SIGPIPE, SIGXFSZ}) ::signal(signal, [](int) {});
  // If SIGCHLD is ignored, the kernel does not report a child's exit status.
  ::signal(SIGCHLD, SIG_DFL);
  descriptor_ = Fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

void Interrupts::accept_requests() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  request_descriptor_ = Fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

bool Interrupts::requested() {
  signalfd_siginfo info;
  return request_descriptor_.get() >= 0 &&
         ::read(request_descriptor_.get(), &info, sizeof info) == sizeof info;
}

bool Interrupts::arrived() {
  signalfd_siginfo info;
  if (::read(descriptor_.get(), &info, sizeof info) != sizeof info) return false;
  signal_ = static_cast<int>(info.ssi_signo);
  return true;
}

}  // namespace pinprick::cli
