// A child process of the test, to stop, to hijack and to read. It is killed at the end of the test.
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

// Memory that the child shares with the test.
struct Shared {
  volatile uint64_t rounds;         // rounds of the child's loop
  volatile uint64_t others_rounds;  // rounds of its second loop
  volatile uint64_t failures;       // how often it found an error
  volatile int stop;
};

class Child {
 public:
  explicit Child(const std::function<void(Shared&)>& run) {
    shared_ = new (mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                        -1, 0)) Shared{};
    pid_ = fork();
    if (pid_ == 0) {
      run(*shared_);
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

  // Waits until the child has started its loop; it may have done many rounds by then.
  void wait_until_running() {
    while (shared_->rounds == 0) sched_yield();
  }
  // Waits until the child has done some more rounds. Only for children that do not wait for the
  // test between their rounds, as those may have done the rounds already.
  void wait_for_rounds(uint64_t more) {
    const uint64_t wanted = shared_->rounds + more;
    while (shared_->rounds < wanted) sched_yield();
  }
  // Lets it end, and returns its exit status; -1 if it was killed by a signal.
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
