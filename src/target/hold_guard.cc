#include "target/hold_guard.h"

#include <signal.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <mutex>
#include <optional>

namespace pinprick::target {
namespace {

// Later than an ExecGate's timer, which is a second, so that what it promises stays true.
constexpr timespec kLongest = {1, 500'000'000};

class Timer {
 public:
  void begin() {
    const std::lock_guard lock(mutex_);
    if (guards_++ == 0) set(kLongest);
  }
  void end() {
    const std::lock_guard lock(mutex_);
    if (--guards_ == 0) set({});
  }

 private:
  // Again and again, as we may be stopped more than once.
  void set(timespec period) {
    if (const pid_t self = ::getpid(); made_by_ != self) {
      made_by_ = self;
      make();
    }
    const itimerspec both = {period, period};
    if (timer_) ::timer_settime(*timer_, 0, &both, nullptr);
  }
  // A forked process does not have its parent's timer.
  void make() {
    timer_.reset();
    struct sigevent continue_us = {};
    continue_us.sigev_notify = SIGEV_SIGNAL;
    continue_us.sigev_signo = SIGCONT;
    timer_t made = nullptr;
    if (::timer_create(CLOCK_MONOTONIC, &continue_us, &made) == 0) timer_ = made;
  }

  std::mutex mutex_;
  size_t guards_ = 0;
  pid_t made_by_ = 0;
  std::optional<timer_t> timer_;
};

Timer& timer() {
  static Timer one;
  return one;
}

}  // namespace

void HoldGuard::begin() {
  timer().begin();
}

void HoldGuard::end() {
  if (std::exchange(holds_, false)) timer().end();
}

}  // namespace pinprick::target
