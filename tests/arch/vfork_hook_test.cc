// Children that share their parent's memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <linux/sched.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "arch/vfork_hook.h"
#include "bytes.h"
#include "call_with_registers.h"
#include "executable_memory.h"

namespace pinprick::arch {
namespace {

// syscall; test %rax,%rax; jne 1f
// mov %fs:cpu_id,%eax; mov %eax,(%r8); mov $60,%eax; xor %edi,%edi; syscall
// 1: ret
const Bytes kCall = joined({{0x0f, 0x05, 0x48, 0x85, 0xc0, 0x75, 0x14},
                            {0x64, 0x8b, 0x04, 0x25},
                            little_endian(static_cast<int32_t>(__rseq_offset) + 4),
                            {0x41, 0x89, 0x00, 0xb8, 0x3c, 0x00, 0x00, 0x00, 0x31, 0xff},
                            {0x0f, 0x05, 0xc3}});

// A function that makes the system call that its registers say, and whose child reports what it
// finds as its CPU number and exits; with and without the hook.
class HookedCall {
 public:
  HookedCall() {
    memory_.write(0, kCall);
    Assembler code(memory_.address() + kStubAt);
    const Stub stub = emit_vfork_hook(code, {static_cast<int32_t>(__rseq_offset)},
                                      {memory_.address(), std::span(kCall).first(5)});
    const auto bytes = code.finish();
    EXPECT_TRUE(bytes);
    memory_.write(kStubAt, *bytes);
    memory_.seal();
    begin_ = stub.begin;
    EXPECT_EQ(stub.copies.size(), 2u) << "a thread may be sent to each";
  }
  void* original() { return memory_.data(); }
  void* hooked() { return reinterpret_cast<void*>(begin_); }

 private:
  static constexpr uint64_t kStubAt = 64;
  ExecutableMemory memory_{kPageSize};
  Address begin_ = 0;
};

CallRegisters unlike_each_other(uint64_t number) {
  CallRegisters r = {};
  uint64_t* const all = &r.rax;
  for (size_t i = 0; i < sizeof r / sizeof r.rax; ++i) all[i] = 0x1111'2222'3333'0000 + i;
  r.rax = number;
  r.flags = 0x202 | kArithmeticFlags;
  return r;
}

volatile struct ::rseq* area() {
  return reinterpret_cast<volatile struct ::rseq*>(static_cast<char*>(__builtin_thread_pointer()) +
                                                   __rseq_offset);
}

void expect_same(const CallRegisters& a, const CallRegisters& b) {
  const uint64_t* const x = &a.rax;
  const uint64_t* const y = &b.rax;
  for (size_t i = 0; i < sizeof a / sizeof a.rax; ++i) EXPECT_EQ(x[i], y[i]) << "register " << i;
}

TEST(VforkHook, LeavesAllRegistersAsTheCallDoes) {
  HookedCall call;
  for (uint64_t number : {uint64_t{SYS_getppid}, uint64_t{SYS_clone3}, uint64_t{SYS_clone}})
    for (uint64_t flags : {uint64_t{0x202}, 0x202 | kArithmeticFlags}) {
      CallRegisters expected = unlike_each_other(number);
      expected.flags = flags;
      // The kernel refuses CLONE_THREAD without the other flags that it needs.
      expected.rdi = CLONE_THREAD | CLONE_VM | CLONE_VFORK;
      CallRegisters found = expected;
      call_with_registers(call.original(), &expected);
      call_with_registers(call.hooked(), &found);
      expect_same(found, expected);
      EXPECT_EQ(area()->cpu_id, area()->cpu_id_start);
    }
}

// The kernel returns EFAULT; reading there ourselves would kill the program.
TEST(VforkHook, DoesNotFollowAnInvalidPointerOfClone) {
  HookedCall call;
  CallRegisters registers = unlike_each_other(SYS_clone3);
  registers.rdi = 16;
  registers.rsi = sizeof(clone_args);
  call_with_registers(call.hooked(), &registers);
  EXPECT_EQ(static_cast<int64_t>(registers.rax), -EFAULT);
}

class Children : public testing::Test {
 protected:
  void SetUp() override {
    if (__rseq_size == 0) GTEST_SKIP() << "glibc has registered no rseq area";
  }
  // What a child of the call found as its CPU number.
  int32_t cpu_of_child(uint64_t number, uint64_t rdi, uint64_t rsi = 0) {
    int32_t found = kNothing;
    CallRegisters registers = unlike_each_other(number);
    registers.rdi = rdi;
    registers.rsi = rsi;
    registers.r8 = reinterpret_cast<uint64_t>(&found);
    call_with_registers(call_.hooked(), &registers);
    EXPECT_EQ(area()->cpu_id, area()->cpu_id_start) << "right after the call";
    const auto child = static_cast<pid_t>(registers.rax);
    int status = -1;
    EXPECT_GT(child, 0);
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    return found;
  }
  static constexpr int32_t kNothing = -12345;
  HookedCall call_;
};

TEST_F(Children, AreMarkedIfTheyShareMemoryAndThreadPointer) {
  clone_args arguments = {};
  arguments.flags = CLONE_VM | CLONE_VFORK;
  arguments.exit_signal = SIGCHLD;
  const auto address = reinterpret_cast<uint64_t>(&arguments);
  EXPECT_EQ(cpu_of_child(SYS_vfork, 0), -1);
  EXPECT_EQ(cpu_of_child(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD), -1);
  EXPECT_EQ(cpu_of_child(SYS_clone3, address, sizeof arguments), -1);
}

// For example in the child of a child.
TEST(ChildrenOfAThreadWithoutARegistration, KeepItsArea) {
  if (__rseq_size == 0) GTEST_SKIP() << "glibc has registered no rseq area";
  EXPECT_EXIT(
      {
        const uint32_t kSize = 32;
        if (::syscall(SYS_rseq, area(), kSize, RSEQ_FLAG_UNREGISTER, RSEQ_SIG) != 0) ::_exit(2);
        area()->cpu_id = static_cast<uint32_t>(-2);
        HookedCall call;
        int32_t found = 0;
        CallRegisters registers = unlike_each_other(SYS_vfork);
        registers.r8 = reinterpret_cast<uint64_t>(&found);
        call_with_registers(call.hooked(), &registers);
        ::_exit(found == -2 && static_cast<int32_t>(area()->cpu_id) == -2 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(FindsVforks, ByTheNumberBeforeTheCall) {
  const auto call = [](uint32_t number) {
    return joined({{0x90, 0xb8}, little_endian(number), {0x0f, 0x05, 0xc3}});
  };
  EXPECT_THAT(find_vforks(call(SYS_vfork)), testing::ElementsAre(6));
  EXPECT_THAT(find_vforks(call(SYS_clone)), testing::ElementsAre(6));
  EXPECT_THAT(find_vforks(call(SYS_clone3)), testing::ElementsAre(6));
  EXPECT_THAT(find_vforks(call(SYS_fork)), testing::IsEmpty());
  const Bytes fork_flags = joined({{0xbf}, little_endian(uint32_t{0x1200011})});
  EXPECT_THAT(find_vforks(joined({fork_flags, call(SYS_clone)})), testing::IsEmpty())
      << "fork() of the C library";
  EXPECT_THAT(find_vforks(joined({call(SYS_vfork), call(SYS_clone)})), testing::ElementsAre(6, 15));
  EXPECT_THAT(find_vforks(Bytes{0x0f, 0x05}), testing::IsEmpty());
}

TEST(FindsExecs, WhereTheNumberIsLoadedRightBeforeTheCall) {
  const auto call = [](uint32_t number) {
    return joined({{0x90, 0xb8}, little_endian(number), {0x0f, 0x05, 0xc3}});
  };
  EXPECT_THAT(find_execs(call(SYS_execve)), testing::ElementsAre(1));
  EXPECT_THAT(find_execs(call(SYS_execveat)), testing::ElementsAre(1));
  EXPECT_THAT(find_execs(call(SYS_vfork)), testing::IsEmpty());
  EXPECT_THAT(find_execs(joined({call(SYS_execve), call(SYS_execveat)})),
              testing::ElementsAre(1, 10));
  EXPECT_THAT(find_execs(joined({{0xb8}, little_endian(uint32_t{SYS_execve}), {0xc3}})),
              testing::IsEmpty());
  EXPECT_THAT(find_execs(Bytes{0xb8, SYS_execve}), testing::IsEmpty()) << "cut off";
}

}  // namespace
}  // namespace pinprick::arch
