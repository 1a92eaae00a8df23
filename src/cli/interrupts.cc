#include "cli/interrupts.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

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

void Interrupts::accept_requests(Keys keys) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  request_descriptor_ = Fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  reads_keys_ = keys == Keys::read && ::isatty(STDIN_FILENO) == 1;
  // If the shell moves us to the background just before a read, that fails instead of stopping us.
  if (reads_keys_) ::signal(SIGTTIN, SIG_IGN);
}

// Only the foreground may read the terminal: a process in the background is stopped if it does.
static bool has_terminal() {
  return ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
}

std::vector<int> Interrupts::request_descriptors() const {
  std::vector<int> all;
  if (request_descriptor_.get() >= 0) all.push_back(request_descriptor_.get());
  if (reads_keys_ && has_terminal()) all.push_back(STDIN_FILENO);
  return all;
}

std::optional<Interrupts::Request> Interrupts::requested() {
  signalfd_siginfo info;
  if (request_descriptor_.get() >= 0 &&
      ::read(request_descriptor_.get(), &info, sizeof info) == sizeof info)
    return Request::signal;
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  if (!reads_keys_ || !has_terminal() || ::poll(&input, 1, 0) != 1) return std::nullopt;
  char line[256];  // a terminal hands out one line at a time
  const ssize_t size = ::read(STDIN_FILENO, line, sizeof line);
  // After Ctrl-D, and when the terminal has gone, no more is read. EIO says that we are in the
  // background by now.
  if (size == 0 || (size < 0 && errno != EIO && errno != EINTR)) reads_keys_ = false;
  if (size <= 0 || line[size - 1] != '\n') return std::nullopt;
  return Request::key;
}

bool Interrupts::arrived() {
  signalfd_siginfo info;
  if (::read(descriptor_.get(), &info, sizeof info) != sizeof info) return false;
  signal_ = static_cast<int>(info.ssi_signo);
  return true;
}

}  // namespace pinprick::cli
