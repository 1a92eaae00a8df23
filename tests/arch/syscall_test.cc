// The code of remote calls, run by this thread in a sandbox: its home is an int3 there, at which
// the restored state can be examined.
#include "arch/syscall.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "arch/differential.h"
#include "bytes.h"

namespace pinprick::arch {
namespace {

constexpr uint64_t signal_bit(int signal) {
  return uint64_t{1} << (signal - 1);
}

uint64_t own_signal_mask() {
  uint64_t mask = 0;
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &mask, sizeof mask);
  return mask;
}
void set_own_signal_mask(uint64_t mask) {
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, nullptr, sizeof mask);
}

class RemoteCall : public testing::Test {
 protected:
  void SetUp() override { mask_before_ = own_signal_mask(); }
  void TearDown() override { set_own_signal_mask(mask_before_); }

  static user_regs_struct registers_of(const MachineState& state) {
    user_regs_struct registers = {};
    registers.rax = state[Reg::rax];
    registers.rbx = state[Reg::rbx];
    registers.rcx = state[Reg::rcx];
    registers.rdx = state[Reg::rdx];
    registers.rsi = state[Reg::rsi];
    registers.rdi = state[Reg::rdi];
    registers.rbp = state[Reg::rbp];
    registers.rsp = state[Reg::rsp];
    registers.r8 = state[Reg::r8];
    registers.r9 = state[Reg::r9];
    registers.r10 = state[Reg::r10];
    registers.r11 = state[Reg::r11];
    registers.r12 = state[Reg::r12];
    registers.r13 = state[Reg::r13];
    registers.r14 = state[Reg::r14];
    registers.r15 = state[Reg::r15];
    registers.rip = state.rip;
    registers.eflags = state.flags;
    return registers;
  }

  MachineState random_home() {
    MachineState home = random_state(random, sandbox);
    home.rip = sandbox.home();
    return home;
  }

  // Starts the code for `home` with the call's registers, as the controller does.
  Outcome run(const MachineState& home, uint64_t mask, uint64_t number,
              std::array<uint64_t, 6> arguments = {}) {
    sandbox.place_home({});
    sandbox.place_away(remote_call(sandbox.away(), registers_of(home), mask));
    MachineState start = home;
    start.rip = sandbox.away();
    start[Reg::rax] = number;
    start[Reg::rdi] = arguments[0];
    start[Reg::rsi] = arguments[1];
    start[Reg::rdx] = arguments[2];
    start[Reg::r10] = arguments[3];
    start[Reg::r8] = arguments[4];
    start[Reg::r9] = arguments[5];
    start.flags = start_flags.value_or(home.flags);
    return sandbox.run(start);
  }

  // The calls lie at the start of the sandbox's memory, followed by what the script writes and
  // reads.
  Outcome run_script(const MachineState& home, std::vector<ScriptedCall>& calls,
                     int32_t descriptor) {
    const auto at = [&](size_t call) { return sandbox.data() + call * sizeof(ScriptedCall); };
    for (size_t i = 0; i + 1 < calls.size(); ++i) calls[i].next = at(i + 1);
    const size_t size = calls.size() * sizeof(ScriptedCall);
    std::memcpy(sandbox.memory().data(), calls.data(), size);
    sandbox.set_word(at(calls.size()), 0);
    sandbox.set_word(at(calls.size()) + 8, static_cast<uint32_t>(descriptor));
    sandbox.place_home({});
    sandbox.place_away(remote_call(sandbox.away(), registers_of(home), 0));
    user_regs_struct registers = registers_of(home);
    start_script(registers, sandbox.away(), at(0), at(calls.size() - 1), at(calls.size()),
                 at(calls.size()) + 8);
    MachineState start = home;
    start.rip = registers.rip;
    start[Reg::rbx] = registers.rbx;
    start[Reg::r13] = registers.r13;
    start[Reg::r14] = registers.r14;
    start[Reg::r15] = registers.r15;
    const Outcome outcome = sandbox.run(start);
    std::memcpy(calls.data(), sandbox.memory().data(), size);
    std::memcpy(&told, sandbox.memory().data() + size, sizeof told);
    told -= sandbox.data();
    return outcome;
  }

  Address told = 0;  // written by the script: the address of the latest call
  Sandbox sandbox;
  std::mt19937_64 random{31415926};
  std::optional<uint64_t> start_flags;

 private:
  uint64_t mask_before_ = 0;
};

TEST_F(RemoteCall, ReturnsWithEveryRegisterAndFlagAndOnItsOwnStack) {
  for (int trial = 0; trial < 200; ++trial) {
    const MachineState home = random_home();
    const Outcome outcome = run(home, 0, SYS_getpid);
    ASSERT_EQ(outcome.signal, 0);
    ASSERT_EQ(outcome.state.rip, home.rip);
    ASSERT_EQ(outcome.state.general, home.general);
    ASSERT_EQ(outcome.state.flags & kVisibleFlags, home.flags);
  }
}

TEST_F(RemoteCall, RestoresEveryCombinationOfFlagsWhateverTheyWereInBetween) {
  for (uint64_t bits = 0; bits < 128; ++bits) {
    MachineState home = random_home();
    home.flags = 0;
    uint64_t rest = bits;
    for (uint64_t flag : {0x1u, 0x4u, 0x10u, 0x40u, 0x80u, 0x400u, 0x800u}) {  // CF ... DF OF
      if (rest & 1) home.flags |= flag;
      rest >>= 1;
    }
    for (uint64_t on_the_way : {uint64_t{0}, kVisibleFlags}) {
      start_flags = on_the_way;
      EXPECT_EQ(run(home, 0, SYS_getpid).state.flags & kVisibleFlags, home.flags);
    }
  }
}

TEST_F(RemoteCall, MakesTheCallWithAllSixArguments) {
  const MachineState home = random_home();
  const Address wanted = sandbox.data() + (1 << 20);  // nothing is mapped there yet
  const Outcome outcome =
      run(home, 0, SYS_mmap,
          {wanted, kPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
           static_cast<uint64_t>(-1), 0});
  EXPECT_EQ(outcome.state.general, home.general);
  sandbox.set_word(wanted, 1);  // would fault
  EXPECT_EQ(mprotect(reinterpret_cast<void*>(wanted), kPageSize, PROT_NONE), 0);
}

TEST_F(RemoteCall, MakesTheCallOnce) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  sandbox.memory()[0] = 'x';
  run(random_home(), 0, SYS_write, {static_cast<uint64_t>(ends[1]), sandbox.data(), 1});
  close(ends[1]);
  char received[4];
  EXPECT_EQ(read(ends[0], received, sizeof received), 1);
  EXPECT_EQ(received[0], 'x');
  close(ends[0]);
}

TEST_F(RemoteCall, ReturnsEvenIfTheCallFails) {
  const MachineState home = random_home();
  const Outcome outcome = run(home, 0, SYS_close, {static_cast<uint64_t>(-1)});
  EXPECT_EQ(outcome.state.general, home.general);
  EXPECT_EQ(outcome.state.flags & kVisibleFlags, home.flags);
}

TEST_F(RemoteCall, MakesTheCallsOfAScriptInOrderAndReturns) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Address text = sandbox.data() + 2048;
  std::memcpy(sandbox.memory().data() + 2048, "abc", 3);
  const auto end = static_cast<uint64_t>(ends[1]);
  const MachineState home = random_home();
  std::vector<ScriptedCall> calls = {
      {SYS_write, {end, text, 1}}, {SYS_write, {end, text + 1, 2}}, {SYS_getpid}};
  const Outcome outcome = run_script(home, calls, -1);
  EXPECT_EQ(outcome.signal, 0);
  EXPECT_EQ(outcome.state.rip, home.rip);
  EXPECT_EQ(outcome.state.general, home.general);
  EXPECT_EQ(outcome.state.flags & kVisibleFlags, home.flags);
  EXPECT_EQ(calls[0].result, 1u);
  EXPECT_EQ(calls[1].result, 2u);
  EXPECT_EQ(calls[2].result, static_cast<uint64_t>(getpid()));
  EXPECT_EQ(told, 2 * sizeof(ScriptedCall));
  char received[4] = {};
  EXPECT_EQ(read(ends[0], received, sizeof received), 3);
  EXPECT_STREQ(received, "abc");
  close(ends[0]);
  close(ends[1]);
}

TEST_F(RemoteCall, ContinuesWithTheLastCallOfAScriptWhenOneFails) {
  const MachineState home = random_home();
  constexpr uint64_t kNotMade = 42;
  std::vector<ScriptedCall> calls = {{SYS_getpid},
                                     {SYS_close, {static_cast<uint64_t>(-1)}},
                                     {SYS_getpid, {}, 0, kNotMade},
                                     {SYS_close, {static_cast<uint64_t>(-1)}}};
  const Outcome outcome = run_script(home, calls, -1);
  EXPECT_EQ(outcome.state.general, home.general);
  EXPECT_EQ(calls[1].result, static_cast<uint64_t>(-EBADF));
  EXPECT_EQ(calls[2].result, kNotMade);
  EXPECT_EQ(calls[3].result, static_cast<uint64_t>(-EBADF));
  EXPECT_EQ(told, 3 * sizeof(ScriptedCall));
}

TEST_F(RemoteCall, GivesTheCallsOfAScriptTheDescriptorAndFiveArguments) {
  const int file = memfd_create("script", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, 2 * kPageSize), 0);
  const uint64_t word = 0x1234;
  ASSERT_EQ(pwrite(file, &word, sizeof word, kPageSize), ssize_t{sizeof word});
  const Address wanted = sandbox.data() + (2 << 20);  // nothing is mapped there yet
  std::vector<ScriptedCall> calls = {
      {SYS_mmap, {wanted, kPageSize, PROT_READ, MAP_SHARED | MAP_FIXED}, kPageSize}, {SYS_getpid}};
  run_script(random_home(), calls, file);
  ASSERT_EQ(calls[0].result, wanted);
  EXPECT_EQ(*reinterpret_cast<const uint64_t*>(wanted), word);
  EXPECT_EQ(mprotect(reinterpret_cast<void*>(wanted), kPageSize, PROT_NONE), 0);
  close(file);
}

TEST_F(RemoteCall, GivesTheDescriptorFirstToTheCallsOfAScriptThatAskForIt) {
  const int file = memfd_create("script", MFD_CLOEXEC);
  std::vector<ScriptedCall> calls = {{SYS_ftruncate | kOfDescriptor, {0, 5}},
                                     {SYS_close | kOfDescriptor, {~uint64_t{0}}},
                                     {SYS_getpid}};
  ASSERT_GE(file, 0);
  run_script(random_home(), calls, file);
  EXPECT_EQ(calls[0].result, 0u);
  EXPECT_EQ(calls[1].result, 0u);
  EXPECT_EQ(calls[2].result, static_cast<uint64_t>(getpid()));
  EXPECT_EQ(fcntl(file, F_GETFD), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST(CallOfAThread, HasJustExecutedIfThatIsTheCallThatIsOver) {
  const auto registers = [](uint64_t number, int64_t result) {
    Registers all = {};
    all.orig_rax = number;
    all.rax = static_cast<uint64_t>(result);
    return all;
  };
  EXPECT_TRUE(has_just_executed(registers(SYS_execve, 0)));
  EXPECT_TRUE(has_just_executed(registers(SYS_execveat, 0)));
  EXPECT_FALSE(has_just_executed(registers(SYS_execve, -ENOENT)));
  EXPECT_FALSE(has_just_executed(registers(SYS_execve, -EINTR)));
  EXPECT_FALSE(has_just_executed(registers(SYS_close, 0)));
  Registers running = registers(SYS_execve, 0);
  running.r12 = 1;
  EXPECT_FALSE(has_just_executed(running)) << "olduname, if it was called by the 32-bit entry";
  EXPECT_FALSE(has_just_executed(registers(static_cast<uint64_t>(-1), 0)));
}

TEST_F(RemoteCall, RestoresTheSignalMask) {
  const uint64_t kMask = signal_bit(SIGUSR1) | signal_bit(SIGCHLD) | signal_bit(64);
  const uint64_t kOnTheWay = signal_bit(SIGUSR2) | signal_bit(SIGUSR1) | signal_bit(63);
  set_own_signal_mask(kOnTheWay);
  run(random_home(), kMask, SYS_getpid);
  EXPECT_EQ(own_signal_mask(), kMask);
  run(random_home(), 0, SYS_getpid);
  EXPECT_EQ(own_signal_mask(), 0u);
}

TEST_F(RemoteCall, TouchesNoMemory) {
  // Not even below rsp: the stack may be full, or be a coroutine's few bytes.
  fill_randomly(sandbox.memory(), random);
  const Bytes before(sandbox.memory().begin(), sandbox.memory().end());
  run(random_home(), 0, SYS_getpid);
  EXPECT_EQ(Bytes(sandbox.memory().begin(), sandbox.memory().end()), before);
}

TEST_F(RemoteCall, NeedsNoUsableStack) {
  MachineState home = random_home();
  home[Reg::rsp] = 8;
  const Outcome outcome = run(home, 0, SYS_getpid);
  EXPECT_EQ(outcome.signal, 0);
  EXPECT_EQ(outcome.state.general, home.general);
}

TEST_F(RemoteCall, ReturnsHoweverFarThatIs) {
  MachineState home = random_home();
  home.rip = 0x1234;  // below what may be mapped: arriving there faults
  const Outcome outcome = run(home, 0, SYS_getpid);
  EXPECT_EQ(outcome.signal, SIGSEGV);
  EXPECT_EQ(outcome.state.rip, 0x1234u);
  EXPECT_EQ(outcome.state.general, home.general);
}

TEST_F(RemoteCall, FitsIntoTheSpaceReservedForIt) {
  user_regs_struct all_ones;
  std::memset(&all_ones, 0xff, sizeof all_ones);
  EXPECT_LE(remote_call(sandbox.away(), all_ones, UINT64_MAX).size(), kRemoteCallMaxSize);
}

TEST(Restarted, RewindsToTheSystemCallInstructionAsTheKernelDoes) {
  Registers registers = {};
  registers.rip = 0x1002;
  registers.orig_rax = SYS_futex;
  for (int64_t code : {-512, -513, -514, -EINTR}) {
    registers.rax = static_cast<uint64_t>(code);
    const auto again = restarted(registers);
    EXPECT_EQ(again.rip, 0x1000u);
    EXPECT_EQ(again.rax, static_cast<uint64_t>(SYS_futex));
    EXPECT_EQ(again.orig_rax, static_cast<uint64_t>(-1));
  }
  registers.rax = static_cast<uint64_t>(int64_t{-516});
  EXPECT_EQ(restarted(registers).rax, static_cast<uint64_t>(SYS_restart_syscall));
  registers.rax = 5;  // a call that is over
  EXPECT_EQ(restarted(registers).rip, 0x1002u);
  registers.orig_rax = static_cast<uint64_t>(-1);  // no call at all
  registers.rax = static_cast<uint64_t>(int64_t{-512});
  EXPECT_EQ(restarted(registers).rip, 0x1002u);
}

TEST(CallState, SaysWhatTheKernelWillDoAboutACall) {
  Registers registers = {};
  registers.orig_rax = static_cast<uint64_t>(-1);
  EXPECT_EQ(call_state(registers), CallState::none);
  registers.orig_rax = SYS_futex;
  EXPECT_EQ(call_state(registers), CallState::over);
  restart_unless_handled(registers);
  EXPECT_EQ(syscall_result(registers), -514);  // ERESTARTNOHAND
  EXPECT_EQ(call_state(registers), CallState::restarts);
  registers.rax = static_cast<uint64_t>(int64_t{-516});  // ERESTART_RESTARTBLOCK
  EXPECT_EQ(call_state(registers), CallState::continues);
}

TEST(EndsThread, IsTrueOfWhatCLibrariesHaveAfterTheCallOfAThreadsFunction) {
  using Code = std::vector<uint8_t>;
  const Code ends[] = {
      {0x48, 0x89, 0xc7, 0xb8, 0x3c, 0, 0, 0, 0x0f, 0x05},  // glibc 2.36
      {0x89, 0xc7, 0xb8, 0x3c, 0, 0, 0, 0x0f, 0x05},
      {0x89, 0xc7, 0x31, 0xc0, 0xb0, 0x3c, 0x0f, 0x05, 0xcc},  // musl
      {0x48, 0x89, 0xc7, 0x6a, 0x3c, 0x58, 0x0f, 0x05},
  };
  for (const Code& code : ends) {
    EXPECT_TRUE(ends_thread(code));
    EXPECT_FALSE(ends_thread(std::span(code).first(7))) << "there is no more to be read";
    EXPECT_LE(code.size(), kLongestThreadEnd);
  }
  const Code others[] = {
      {},
      {0x48, 0x89, 0xc7, 0xb8, 0xe7, 0, 0, 0, 0x0f, 0x05},  // exit_group
      {0x48, 0x89, 0xc6, 0xb8, 0x3c, 0, 0, 0, 0x0f, 0x05},  // mov rsi, rax
      {0x90, 0x48, 0x89, 0xc7, 0xb8, 0x3c, 0, 0, 0, 0x0f, 0x05},
  };
  for (const Code& code : others) EXPECT_FALSE(ends_thread(code));
}

}  // namespace
}  // namespace pinprick::arch
