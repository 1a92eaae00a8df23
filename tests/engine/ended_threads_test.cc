// Which calls were made by threads that have ended, from the stacks of this process's own threads.
#include "engine/calls/ended_threads.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <semaphore>

#include "base/clock.h"

namespace pinprick::engine {
namespace {

constexpr uint64_t kSecondsAgo = 100;

// A thread that says where its stack is, and waits until it may end.
class Thread {
 public:
  Thread() {
    EXPECT_EQ(::pthread_create(&thread_, nullptr, &run, this), 0);
    began_.acquire();
  }
  ~Thread() { end(); }
  void end() {
    if (std::exchange(has_ended_, true)) return;
    may_end_.release();
    ::pthread_join(thread_, nullptr);
  }
  Address stack() const { return stack_; }
  target::StoppedThread stopped() const {
    target::StoppedThread stopped;
    stopped.tid = tid_;
    stopped.registers.rip = 1;
    stopped.registers.rsp = stack_ - 256;
    stopped.registers.fs_base = control_block_;
    return stopped;
  }

 private:
  static void* run(void* self) {
    auto& thread = *static_cast<Thread*>(self);
    uint64_t here = 0;
    thread.stack_ = reinterpret_cast<Address>(&here);
    thread.tid_ = static_cast<pid_t>(::syscall(SYS_gettid));
    thread.control_block_ = static_cast<Address>(::pthread_self());
    thread.began_.release();
    thread.may_end_.acquire();
    return nullptr;
  }

  pthread_t thread_ = 0;
  std::binary_semaphore began_{0}, may_end_{0};
  Address stack_ = 0, control_block_ = 0;
  pid_t tid_ = 0;
  bool has_ended_ = false;
};

class EndedThreadsTest : public testing::Test {
 protected:
  bool has_ended(const EndedThreads::Call& call,
                 const std::vector<target::StoppedThread>& threads) {
    maps_ = *image::read_maps(::getpid());
    return EndedThreads(::getpid(), threads, maps_, *memory_, ns_multiplier()).have_made(call);
  }
  static target::StoppedThread first_thread() {
    target::StoppedThread stopped;
    uint64_t here = 0;
    stopped.tid = ::getpid();
    stopped.registers.rip = 1;
    stopped.registers.rsp = reinterpret_cast<Address>(&here);
    return stopped;
  }
  static uint64_t long_ago() {
    return read_tsc() - kSecondsAgo * static_cast<uint64_t>(tsc_frequency());
  }

  Result<target::Memory, SystemError> memory_ = target::Memory::open(::getpid());
  std::vector<image::Mapping> maps_;
};

TEST_F(EndedThreadsTest, ACallOfALivingThreadMayReturn) {
  const Thread thread;
  EXPECT_FALSE(has_ended({thread.stack(), 1, read_tsc()}, {first_thread(), thread.stopped()}));
}

TEST_F(EndedThreadsTest, AnEndedThreadsCallIsKnownByTheStackThatGlibcKeeps) {
  Thread thread;
  thread.end();
  EXPECT_TRUE(has_ended({thread.stack(), 1, read_tsc()}, {first_thread()}));
}

TEST_F(EndedThreadsTest, AnEndedThreadsCallIsKnownByTheLaterStartOfTheThreadThatHasItsStack) {
  const Thread thread;
  const std::vector<target::StoppedThread> threads = {first_thread(), thread.stopped()};
  EXPECT_TRUE(has_ended({thread.stack(), 1, long_ago()}, threads));
  EXPECT_FALSE(has_ended({thread.stack(), 1, read_tsc()}, threads));
}

TEST_F(EndedThreadsTest, ACallOnAStackOfNoThreadIsACoroutines) {
  constexpr size_t kSize = 16 * kPageSize;
  void* const stack =
      ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const Address at = reinterpret_cast<Address>(stack) + kSize / 2;
  EXPECT_FALSE(has_ended({at, 1, long_ago()}, {first_thread()}));
  ::munmap(stack, kSize);
}

TEST_F(EndedThreadsTest, ACallOnMemoryThatIsGoneWasEndedWithIt) {
  void* const stack =
      ::mmap(nullptr, kPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ::munmap(stack, kPageSize);
  EXPECT_TRUE(has_ended({reinterpret_cast<Address>(stack), 1, read_tsc()}, {first_thread()}));
}

TEST_F(EndedThreadsTest, TheFirstThreadsCallsHaveEndedIfItHas) {
  const Thread thread;
  const EndedThreads::Call call = {first_thread().stack_pointer(), 1, read_tsc()};
  EXPECT_FALSE(has_ended(call, {first_thread(), thread.stopped()}));
  EXPECT_TRUE(has_ended(call, {thread.stopped()}));
}

TEST_F(EndedThreadsTest, ACallOnNoStackThatWouldReturnToTheEndOfItsThreadHasEndedWithIt) {
  const Thread thread;
  const std::vector<target::StoppedThread> threads = {first_thread(), thread.stopped()};
  // mov rdi, rax; mov eax, SYS_exit; syscall; and the same with another call.
  const std::array<uint8_t, 16> ends = {0x48, 0x89, 0xc7, 0xb8, 0x3c, 0, 0, 0, 0x0f, 0x05};
  const std::array<uint8_t, 16> pauses = {0x48, 0x89, 0xc7, 0xb8, 0x22, 0, 0, 0, 0x0f, 0x05};
  const auto address = [](const auto& code) { return reinterpret_cast<Address>(code.data()); };
  EXPECT_TRUE(has_ended({thread.stack(), address(ends), read_tsc()}, threads));
  EXPECT_FALSE(has_ended({thread.stack(), address(pauses), read_tsc()}, threads));
  EXPECT_FALSE(has_ended({thread.stack(), address(ends), read_tsc(), true}, threads))
      << "it may yet return";
}

}  // namespace
}  // namespace pinprick::engine
