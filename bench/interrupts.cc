#include "interrupts.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>

#include <cerrno>

namespace pinprick::bench {

Interrupts::Interrupts() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&set, signal);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  // A program to which we write may end before we do.
  signal(SIGPIPE, SIG_IGN);
  signals_ = Fd(signalfd(-1, &set, SFD_CLOEXEC));
}

Result<void, cli::Message> Interrupts::wait_readable(int descriptor) const {
  constexpr int kMinute = 60'000;
  pollfd descriptors[] = {{signals_.get(), POLLIN, 0}, {descriptor, POLLIN, 0}};
  int ready = 0;
  do {
    ready = ::poll(descriptors, 2, kMinute);
  } while (ready < 0 && errno == EINTR);
  // The signal stays in its descriptor, so that later waits fail at once, too.
  if (descriptors[0].revents != 0) return fail(cli::Message{"interrupted", "interrupted"});
  if (ready <= 0) return fail(cli::Message{"timeout", "no answer within a minute"});
  return {};
}

}  // namespace pinprick::bench
