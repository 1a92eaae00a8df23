// A thread that is stopped at an island, where a pun leads (plan/pun.h), does not keep probes from
// being taken out.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/fd.h"
#include "survive/footprint.h"
#include "survive/program.h"
#include "survive/runtime_folder.h"

namespace pinprick::survive {
namespace {

pid_t any_other_thread(pid_t pid) {
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task"))
    if (const pid_t tid = std::stoi(entry.path().filename()); tid != pid) return tid;
  return 0;
}

// jmp *0(%rip), which nothing else here contains.
bool is_at_trampoline(pid_t tid) {
  user_regs_struct registers = {};
  if (::ptrace(PTRACE_GETREGS, tid, nullptr, &registers) != 0) return false;
  constexpr uint8_t kJump[] = {0xff, 0x25, 0, 0, 0, 0};
  const long word = ::ptrace(PTRACE_PEEKTEXT, tid, registers.rip, nullptr);
  return std::memcmp(&word, kJump, sizeof kJump) == 0;
}

bool stops(pid_t tid) {
  int status = 0;
  return ::waitpid(tid, &status, __WALL) == tid && WIFSTOPPED(status);
}

// A target with nothing but puns, through which all its threads go, and with probes whose
// controller was killed. It has one thread besides the one that answers, as another one might stop
// in a stub.
struct Case {
  const char* name;
  const char* program;  // tests/targets/punned.c
  Command patterns;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class Trampoline : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    runtime_folder();
    detach_everything();  // sessions of programs that have ended
    ASSERT_TRUE(is_right());
    before_ = footprint_of(program_.pid());
    Command count = {"count", "-p", pid(), "--json", "-d", "1000"};
    count.insert(count.end(), GetParam().patterns.begin(), GetParam().patterns.end());
    Program orphan(pinprick(count));
    ASSERT_TRUE(orphan.hear_of("\"type\":\"armed\"")) << orphan.rest();
    orphan.kill(SIGKILL);
    orphan.wait();
  }
  void TearDown() override { detach_everything(); }

  std::string pid() const { return std::to_string(program_.pid()); }
  // Makes it report, which waits for more results, and checks that they are right.
  bool is_right() {
    program_.say("");
    return program_.hear() == "ok";
  }
  bool interrupt_at_trampoline(int signal);

  Program program_{{GetParam().program, "1"}};
  Footprint before_;
};

// Steps the thread until it is at an island, and sends it the signal there. Lets it run in between,
// as a restartable sequence starts again with each step.
bool Trampoline::interrupt_at_trampoline(int signal) {
  constexpr int kAttempts = 1000, kSteps = 100;
  const pid_t tid = any_other_thread(program_.pid());
  if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) return false;
  bool found = false;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    ::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
    if (!stops(tid)) return false;
    for (int step = 0; step < kSteps && !(found = is_at_trampoline(tid)); ++step)
      if (::ptrace(PTRACE_SINGLESTEP, tid, nullptr, nullptr) != 0 || !stops(tid)) return false;
    if (found) break;
    ::ptrace(PTRACE_CONT, tid, nullptr, nullptr);
    if (!is_right()) break;
  }
  if (!found) {
    ::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
    if (!stops(tid)) return false;
  }
  // The signal is delivered before it executes anything.
  ::syscall(SYS_tgkill, program_.pid(), tid, signal);
  int status = 0;
  do
    if (::ptrace(PTRACE_CONT, tid, nullptr, nullptr) != 0 || ::waitpid(tid, &status, __WALL) != tid)
      return false;
  while (WSTOPSIG(status) != signal || status >> 16 != 0);
  ::ptrace(PTRACE_DETACH, tid, nullptr, signal);
  return found;
}

TEST_P(Trampoline, at_which_a_stopped_thread_is_is_taken_out) {
  ASSERT_TRUE(interrupt_at_trampoline(SIGSTOP));
  ASSERT_TRUE(comes_to_stand(program_.pid()));
  const auto detach = run(pinprick({"detach", "-p", pid()}));
  EXPECT_TRUE(detach.ending.exited_with(0)) << detach.output;
  EXPECT_TRUE(session_files().empty()) << detach.output;
  program_.kill(SIGCONT);
  EXPECT_TRUE(is_right());
  EXPECT_EQ(differences(before_, footprint_of(program_.pid())), "");
}

TEST_P(Trampoline, that_a_signal_interrupts_is_unwound_from) {
  ASSERT_TRUE(interrupt_at_trampoline(SIGUSR1));
  EXPECT_EQ(program_.hear(), "whole");
  EXPECT_TRUE(is_right());
}

const Case kAll[] = {
    {"of_puns",
     TARGETS "punned",
     {"punned:one", "punned:looped+0xb", "punned:locked+0x5", "punned:prefixed", "punned:edge"}},
    // Both the pun's island and that of the next instruction's jump.
    {"of_puns_that_evict",
     TARGETS "punned_nopie",
     {"punned_nopie:one", "punned_nopie:looped+0xb", "punned_nopie:prefixed"}},
};

INSTANTIATE_TEST_SUITE_P(, Trampoline, testing::ValuesIn(kAll),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace pinprick::survive
