// A child process of the test to stop, hijack and look into; killed at the end if it still lives.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <new>

namespace pinprick::target {

// What child and test both see.
struct Shared {
  volatile uint64_t rounds;         // how often the child went round its loop
  volatile uint64_t others_rounds;  // and a second loop of it
  volatile uint64_t failures;       // how often it saw something wrong
  volatile int stop;
};

class Child {
 public:
  explicit Child(const std::function<void(Shared&)>& body) {
    shared_ = new (mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                        -1, 0)) Shared{};
    pid_ = fork();
    if (pid_ == 0) {
      body(*shared_);
      _exit(shared_->failures == 0 ? 0 : 1);
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, __WALL);
    }
    munmap(shared_, sizeof(Shared));
  }

  pid_t pid() const { return pid_; }
  Shared& shared() { return *shared_; }

  // Until the child has begun; it may have gone round many times by then.
  void wait_until_running() {
    while (shared_->rounds == 0) sched_yield();
  }
  // Until the child has gone round some more times from now on. Only for children that do not wait
  // for the test between their rounds: such a one may have gone round before.
  void wait_for_rounds(uint64_t more) {
    const uint64_t wanted = shared_->rounds + more;
    while (shared_->rounds < wanted) sched_yield();
  }
  // Lets it end, and answers its exit status (-1: killed by a signal).
  int finish() {
    shared_->stop = 1;
    int status = 0;
    waitpid(pid_, &status, __WALL);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = 0;
  Shared* shared_;
};

}  // namespace pinprick::target
