// A thread that stands where a pun leads (plan/pun.h), and will not go on, does not keep probes
// from being taken out.
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
#include "survive/runtime_folder.h"
#include "survive/subjects.h"

namespace pinprick::survive {
namespace {

pid_t any_other_thread(pid_t pid) {
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task"))
    if (const pid_t tid = std::stoi(entry.path().filename()); tid != pid) return tid;
  return 0;
}

// jmp *0(%rip), as nothing else here has.
bool is_at_springboard(pid_t tid) {
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

// Steps a thread until it stands at a springboard, and leaves the process stopped there. Not for
// long at a time: a restartable sequence begins again with each step. It runs in between.
bool stop_at_springboard(Subject& subject, pid_t tid) {
  constexpr int kAttempts = 1000, kSteps = 100;
  if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) return false;
  bool found = false;
  for (int attempt = 0; attempt < kAttempts && !found; ++attempt) {
    ::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
    if (!stops(tid)) return false;
    for (int step = 0; step < kSteps && !(found = is_at_springboard(tid)); ++step)
      if (::ptrace(PTRACE_SINGLESTEP, tid, nullptr, nullptr) != 0 || !stops(tid)) return false;
    if (found) break;
    ::ptrace(PTRACE_CONT, tid, nullptr, nullptr);
    if (!subject.check().empty()) break;
  }
  if (!found) {
    ::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
    if (!stops(tid)) return false;
  }
  // It takes the signal before it executes anything.
  ::syscall(SYS_tgkill, subject.pid(), tid, SIGSTOP);
  int status = 0;
  do
    if (::ptrace(PTRACE_CONT, tid, nullptr, nullptr) != 0 || ::waitpid(tid, &status, __WALL) != tid)
      return false;
  while (WSTOPSIG(status) != SIGSTOP || status >> 16 != 0);
  ::ptrace(PTRACE_DETACH, tid, nullptr, SIGSTOP);
  return found;
}

TEST(Springboard, that_a_stopped_thread_stands_at_is_left_and_taken_away) {
  runtime_folder();
  const auto subject = start_punned_on_one_thread();  // another one might stop in a stub
  const std::string pid = std::to_string(subject->pid());
  ASSERT_EQ(subject->check(), "");
  const Footprint before = footprint_of(subject->pid());
  {
    Command watch = {"count", "-p", pid, "--json", "-d", "1000"};
    const Command patterns = subject->patterns();
    watch.insert(watch.end(), patterns.begin(), patterns.end());
    Program orphan(pinprick(watch));
    ASSERT_TRUE(orphan.hear_of("\"type\":\"armed\"")) << orphan.rest();
    orphan.kill(SIGKILL);
    orphan.wait();
  }
  ASSERT_TRUE(stop_at_springboard(*subject, any_other_thread(subject->pid())));
  ASSERT_TRUE(comes_to_stand(subject->pid()));
  const auto detach = run(pinprick({"detach", "-p", pid}));
  EXPECT_TRUE(detach.ending.exited_with(0)) << detach.output;
  EXPECT_TRUE(session_files().empty()) << detach.output;
  ::kill(subject->pid(), SIGCONT);
  EXPECT_EQ(subject->check(), "");
  EXPECT_EQ(differences(before, footprint_of(subject->pid())), "");
}

}  // namespace
}  // namespace pinprick::survive
