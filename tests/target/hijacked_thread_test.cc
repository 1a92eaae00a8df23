#include "target/hijacked_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "image/process.h"
#include "target/child.h"
#include "target/handover.h"
#include "target/remote_target.h"

namespace pinprick::target {
namespace {

constexpr uint64_t kRoomSize = 320;

// The tail of a page of this program's code; the child, a copy of this process, has the same page.
Room find_room(const RemoteTarget& target) {
  auto image = image::load_process(target.pid(), target.reader());
  EXPECT_TRUE(image.ok());
  for (const auto& object : image->objects) {
    for (Range code : object->executable_ranges()) {
      const Address begin = align_up(code.end, 16);
      if (begin + kRoomSize > align_up(code.end, kPageSize)) continue;
      Room room{begin, std::vector<uint8_t>(kRoomSize)};
      EXPECT_TRUE(target.memory().read(begin, room.original));
      return room;
    }
  }
  ADD_FAILURE() << "no object has room after its code";
  return {};
}

// A loop whose result is only right if every register keeps its value.
void compute(Shared& shared) {
  uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7;
  double x = 1, y = 2;
  for (uint64_t i = 1; !shared.stop; ++i) {
    asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g));
    asm volatile("" : "+x"(x), "+x"(y));
    a += b;
    b += c;
    c += d;
    d += e;
    e += f;
    f += g;
    g += 1;
    x += 1;
    y = x + 1;
    // Checks relations between registers, as closed forms of the sums would be long.
    if (g != 7 + i || f != 6 + 7 * i + i * (i - 1) / 2 || y != static_cast<double>(i) + 2)
      shared.failures = shared.failures + 1;
    shared.rounds = i;
  }
}

void wait_in_read(Shared& shared) {
  int ends[2];
  if (pipe(ends) != 0) _exit(9);
  if (fork() == 0) {
    // Writes a byte each millisecond, so that the reader waits most of the time.
    for (uint8_t byte = 0; !shared.stop; ++byte) {
      if (write(ends[1], &byte, 1) != 1) _exit(1);
      usleep(1000);
    }
    _exit(0);
  }
  close(ends[1]);
  for (uint8_t expected = 0;; ++expected) {
    uint8_t byte = 0;
    const ssize_t n = read(ends[0], &byte, 1);
    if (shared.stop) return;  // the feeder may have ended first
    if (n != 1 || byte != expected) shared.failures = shared.failures + 1;
    shared.rounds = shared.rounds + 1;
  }
}

void nap(Shared& shared) {
  while (!shared.stop) {
    const timespec wait = {0, 2'000'000};
    if (nanosleep(&wait, nullptr) != 0) shared.failures = shared.failures + 1;
    shared.rounds = shared.rounds + 1;
  }
}

struct Work {
  const char* name;
  void (*run)(Shared&);
};
void PrintTo(const Work& work, std::ostream* out) {
  *out << work.name;
}

class HijackedThreads : public testing::TestWithParam<Work> {};
INSTANTIATE_TEST_SUITE_P(While, HijackedThreads,
                         testing::Values(Work{"Computing", compute}, Work{"Reading", wait_in_read},
                                         Work{"Sleeping", nap}),
                         [](const auto& work) { return work.param.name; });

TEST_P(HijackedThreads, MakeCallsInTheTargetAndRestoreEveryRegister) {
  Child child(GetParam().run);
  child.wait_for_rounds(5);
  auto target = RemoteTarget::open(child.pid());
  ASSERT_TRUE(target.ok());
  const Room room = find_room(*target);
  for (int i = 0; i < 100; ++i) {
    {
      auto stop = Stop::all_threads(child.pid());
      ASSERT_TRUE(stop.ok());
      const user_regs_struct before = stop->threads()[0].registers;
      {
        auto thread = HijackedThread::hijack(*stop, target->memory(), room);
        ASSERT_TRUE(thread.ok());
        EXPECT_EQ(*thread->call(SYS_getpid), static_cast<uint64_t>(child.pid()));
        auto mapped = thread->call(SYS_mmap, 0, kPageSize, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, static_cast<uint64_t>(-1), 0);
        ASSERT_TRUE(mapped.ok());
        EXPECT_TRUE(target->memory().write_value(*mapped, uint64_t{42}).ok());
        EXPECT_TRUE(thread->call(SYS_munmap, *mapped, kPageSize).ok());
        auto bad = thread->call(SYS_close, 12345);
        ASSERT_FALSE(bad.ok());
        EXPECT_EQ(bad.error().number, EBADF);
      }
      user_regs_struct after = {};
      ASSERT_EQ(ptrace(PTRACE_GETREGS, stop->threads()[0].tid, nullptr, &after), 0);
      EXPECT_EQ(std::memcmp(&before, &after, sizeof after), 0);
      std::vector<uint8_t> bytes(room.original.size());
      ASSERT_TRUE(target->memory().read(room.address, bytes));
      EXPECT_EQ(bytes, room.original);
    }
    child.wait_for_rounds(1);
  }
  EXPECT_EQ(child.finish(), 0);
}

// A script that receives a file of ours and maps it, as arming does.
class Mapping {
 public:
  static constexpr uint64_t kWord = 0x1234'5678;

  Mapping(HijackedThread& thread, const RemoteTarget& target)
      : thread_(thread),
        memory_(target.memory()),
        scratch_(*thread.call(SYS_mmap, 0, kPageSize, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, static_cast<uint64_t>(-1), 0)),
        handover_(thread, target, scratch_, [](const Handover::Descriptors&) {}),
        file_(::memfd_create("script", MFD_CLOEXEC)) {
    EXPECT_EQ(::ftruncate(file_.get(), kPageSize), 0);
    EXPECT_EQ(::pwrite(file_.get(), &kWord, sizeof kWord, 0), ssize_t{sizeof kWord});
  }

  // `more`: further calls.
  Result<void, SystemError> run(std::vector<arch::ScriptedCall> more = {}) {
    EXPECT_TRUE(handover_.send(file_.get()).ok());
    calls = handover_.receiving();
    calls.push_back({SYS_mmap, {0, kPageSize, PROT_READ, MAP_SHARED}});
    calls.insert(calls.end(), more.begin(), more.end());
    calls.push_back(handover_.waiting());
    const Address told = scratch_ + Handover::kScratchSize, first = told + 8;
    const auto at = [&](size_t call) { return first + call * sizeof(arch::ScriptedCall); };
    for (size_t i = 0; i + 1 < calls.size(); ++i) calls[i].next = at(i + 1);
    const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(calls.data()),
                                   calls.size() * sizeof calls[0]);
    EXPECT_TRUE(memory_.write(first, bytes).ok());
    auto done = thread_.run({first, at(calls.size() - 1), told, handover_.received_at()});
    EXPECT_TRUE(memory_.read(first, bytes));
    return done;
  }
  bool is_there() {
    uint64_t word = 0;
    return handover_.received().ok() && memory_.read_value(calls[2].result, word) && word == kWord;
  }
  void unmap() {
    static_cast<void>(thread_.call(SYS_munmap, calls[2].result, kPageSize));
    static_cast<void>(thread_.call(SYS_munmap, scratch_, kPageSize));
  }

  std::vector<arch::ScriptedCall> calls;

 private:
  HijackedThread& thread_;
  const Memory& memory_;
  Address scratch_;
  Handover handover_;
  Fd file_;
};

size_t open_descriptors(pid_t pid) {
  const std::filesystem::directory_iterator folder("/proc/" + std::to_string(pid) + "/fd");
  return static_cast<size_t>(std::distance(begin(folder), end(folder)));
}

TEST_P(HijackedThreads, MakeAScriptOfCallsAndLeaveNothing) {
  Child child(GetParam().run);
  child.wait_for_rounds(5);
  auto target = RemoteTarget::open(child.pid());
  ASSERT_TRUE(target.ok());
  const Room room = find_room(*target);
  const size_t open = open_descriptors(child.pid());
  for (int i = 0; i < 50; ++i) {
    {
      auto stop = stop_one_to_hijack(child.pid(), target->memory(), room.address);
      ASSERT_TRUE(stop.ok());
      const user_regs_struct before = stop->threads()[0].registers;
      {
        auto thread = HijackedThread::hijack(*stop, target->memory(), room);
        ASSERT_TRUE(thread.ok());
        Mapping mapping(*thread, *target);
        ASSERT_TRUE(mapping.run().ok());
        EXPECT_TRUE(mapping.is_there());
        mapping.unmap();
      }
      user_regs_struct after = {};
      ASSERT_EQ(ptrace(PTRACE_GETREGS, stop->threads()[0].tid, nullptr, &after), 0);
      EXPECT_EQ(std::memcmp(&before, &after, sizeof after), 0);
      std::vector<uint8_t> bytes(room.original.size());
      ASSERT_TRUE(target->memory().read(room.address, bytes));
      EXPECT_EQ(bytes, room.original);
    }
    EXPECT_EQ(open_descriptors(child.pid()), open);
    child.wait_for_rounds(1);
  }
  EXPECT_EQ(child.finish(), 0);
}

TEST(HijackedThread, RecordsWhichCallOfAScriptFailedAndMakesNoneAfterIt) {
  Child child(compute);
  child.wait_for_rounds(5);
  auto target = RemoteTarget::open(child.pid());
  ASSERT_TRUE(target.ok());
  const Room room = find_room(*target);
  {
    auto stop = stop_one_to_hijack(child.pid(), target->memory(), room.address);
    ASSERT_TRUE(stop.ok());
    auto thread = HijackedThread::hijack(*stop, target->memory(), room);
    ASSERT_TRUE(thread.ok());
    Mapping mapping(*thread, *target);
    constexpr uint64_t kNotMade = 42;
    ASSERT_TRUE(mapping.run({{SYS_close, {12345}}, {SYS_getpid, {}, 0, kNotMade}}).ok());
    EXPECT_TRUE(mapping.is_there());
    EXPECT_EQ(mapping.calls[3].result, static_cast<uint64_t>(-EBADF));
    EXPECT_EQ(mapping.calls[4].result, kNotMade);
    mapping.unmap();
  }
  child.wait_for_rounds(5);
  EXPECT_EQ(child.finish(), 0);
}

// As when we are held up for too long, and the last call times out.
TEST(HijackedThread, IsNoLongerHijackedOnceItHasResumedByItself) {
  Child child(compute);
  child.wait_for_rounds(5);
  auto target = RemoteTarget::open(child.pid());
  ASSERT_TRUE(target.ok());
  const Room room = find_room(*target);
  std::vector<uint8_t> code(room.original.size());
  {
    auto stop = stop_one_to_hijack(child.pid(), target->memory(), room.address);
    ASSERT_TRUE(stop.ok());
    auto thread = HijackedThread::hijack(*stop, target->memory(), room);
    ASSERT_TRUE(thread.ok());
    ASSERT_TRUE(target->memory().read(room.address, code));
    // The last call of this script does not wait, so the thread may be found restoring itself, or
    // in its own code.
    const Address table = *thread->call(SYS_mmap, 0, kPageSize, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS, static_cast<uint64_t>(-1), 0);
    const arch::ScriptedCall last = {SYS_getpid};
    ASSERT_TRUE(target->memory().write_value(table, last).ok());
    const auto done = thread->run({table, table, table + 64, table + 72});
    if (done) GTEST_SKIP() << "it was stopped before it had come home";
    EXPECT_EQ(done.error().number, ETIMEDOUT);
    EXPECT_TRUE(thread->resumed_itself());
    EXPECT_FALSE(thread->call(SYS_getpid).ok());
  }
  std::vector<uint8_t> there(code.size());
  ASSERT_TRUE(target->memory().read(room.address, there));
  EXPECT_EQ(there, code) << "a signal handler may yet return there";
  child.wait_for_rounds(5);
  EXPECT_EQ(child.finish(), 0);
}

enum class Death { after_hijacking, after_a_call, between_calls, before_a_script_ends };

// A controller that hijacks a thread, and is killed before it gives the thread back.
void hijack_and_die(pid_t pid, const Room& room, Death death) {
  auto target = RemoteTarget::open(pid);
  if (!target) _exit(2);
  auto stop = Stop::all_threads(pid);
  if (!stop) _exit(3);
  auto thread = HijackedThread::hijack(*stop, target->memory(), room);
  if (!thread) _exit(4);
  if (death != Death::after_hijacking && !thread->call(SYS_getpid)) _exit(5);
  if (death == Death::between_calls && !thread->call(SYS_getppid)) _exit(6);
  if (death == Death::before_a_script_ends) {
    Mapping mapping(*thread, *target);
    if (!mapping.run()) _exit(7);
    // Resumes it as if it had not been interrupted, so that it goes on waiting for us.
    ptrace(PTRACE_CONT, stop->threads()[0].tid, nullptr, nullptr);
    kill(getpid(), SIGKILL);
  }
  kill(getpid(), SIGKILL);
}

TEST_P(HijackedThreads, RestoreThemselvesWhenTheControllerIsKilled) {
  Child child(GetParam().run);
  child.wait_for_rounds(5);
  auto target = RemoteTarget::open(child.pid());
  ASSERT_TRUE(target.ok());
  const Room room = find_room(*target);
  for (Death death : {Death::after_hijacking, Death::after_a_call, Death::between_calls,
                      Death::before_a_script_ends}) {
    for (int i = 0; i < 20; ++i) {
      const pid_t controller = fork();
      if (controller == 0) hijack_and_die(child.pid(), room, death);
      int status = 0;
      waitpid(controller, &status, 0);
      ASSERT_TRUE(WIFSIGNALED(status)) << "exit " << WEXITSTATUS(status);
      child.wait_for_rounds(2);
      ASSERT_EQ(child.shared().failures, 0u);
    }
  }
  ASSERT_TRUE(target->memory().write(room.address, room.original).ok());
  EXPECT_EQ(child.finish(), 0);
}

volatile sig_atomic_t handled = 0;

TEST(HijackedThread, GetsItsSignalsAfterwards) {
  Child child([](Shared& shared) {
    struct sigaction action = {};
    action.sa_handler = [](int) { handled = handled + 1; };
    sigaction(SIGUSR1, &action, nullptr);
    while (!shared.stop) shared.rounds = shared.rounds + 1;
    if (handled != 20) shared.failures = 1;
  });
  child.wait_for_rounds(100);
  auto target = RemoteTarget::open(child.pid());
  ASSERT_TRUE(target.ok());
  const Room room = find_room(*target);
  for (int i = 0; i < 20; ++i) {
    {
      auto stop = Stop::all_threads(child.pid());
      ASSERT_TRUE(stop.ok());
      auto thread = HijackedThread::hijack(*stop, target->memory(), room);
      ASSERT_TRUE(thread.ok());
      ASSERT_TRUE(thread->call(SYS_getpid).ok());
      kill(child.pid(), SIGUSR1);
      ASSERT_TRUE(thread->call(SYS_getpid).ok());
    }
    child.wait_for_rounds(100);
  }
  EXPECT_EQ(child.finish(), 0);
}

TEST(HijackedThread, IsTheOnlyThreadThatIsStopped) {
  // Each of two threads counts its own rounds.
  Child child([](Shared& shared) {
    pthread_t other;
    pthread_create(
        &other, nullptr,
        [](void* s) -> void* {
          auto& own = *static_cast<Shared*>(s);
          while (!own.stop) own.rounds = own.rounds + 1;
          return nullptr;
        },
        &shared);
    while (!shared.stop) shared.others_rounds = shared.others_rounds + 1;
    pthread_join(other, nullptr);
  });
  const auto both_go_round = [&] {
    const uint64_t before = child.shared().others_rounds;
    child.wait_for_rounds(100);
    while (child.shared().others_rounds == before) sched_yield();
  };
  both_go_round();
  auto target = RemoteTarget::open(child.pid());
  ASSERT_TRUE(target.ok());
  const Room room = find_room(*target);
  for (int i = 0; i < 20; ++i) {
    {
      auto stop = stop_one_to_hijack(child.pid(), target->memory(), room.address);
      ASSERT_TRUE(stop.ok());
      EXPECT_FALSE(stop->holds()) << "no proof that the process stands still";
      ASSERT_EQ(stop->threads().size(), 1u);
      auto thread = HijackedThread::hijack(*stop, target->memory(), room);
      ASSERT_TRUE(thread.ok());
      EXPECT_EQ(*thread->call(SYS_gettid), static_cast<uint64_t>(stop->threads()[0].tid));
      const bool is_first = stop->threads()[0].tid == child.pid();
      const volatile uint64_t& rounds =
          is_first ? child.shared().rounds : child.shared().others_rounds;
      const uint64_t before = rounds;
      while (rounds < before + 100) sched_yield();
      EXPECT_EQ(*thread->call(SYS_getpid), static_cast<uint64_t>(child.pid()));
    }
    both_go_round();
  }
  EXPECT_EQ(child.finish(), 0);
}

TEST(HijackedThread, IsChosenAmongThreadsThatEndMeanwhile) {
  // Short-lived threads, and one that stays.
  Child child([](Shared& shared) {
    while (!shared.stop) {
      pthread_t brief[4];
      for (pthread_t& one : brief)
        pthread_create(
            &one, nullptr, [](void*) -> void* { return nullptr; }, nullptr);
      for (const pthread_t one : brief) pthread_join(one, nullptr);
      shared.rounds = shared.rounds + 1;
    }
  });
  child.wait_for_rounds(10);
  auto target = RemoteTarget::open(child.pid());
  ASSERT_TRUE(target.ok());
  const Room room = find_room(*target);
  for (int i = 0; i < 100; ++i) {
    auto stop = stop_one_to_hijack(child.pid(), target->memory(), room.address);
    ASSERT_TRUE(stop.ok());
    auto thread = HijackedThread::hijack(*stop, target->memory(), room);
    ASSERT_TRUE(thread.ok());
    EXPECT_EQ(*thread->call(SYS_getpid), static_cast<uint64_t>(child.pid()));
  }
  child.wait_for_rounds(10);
  EXPECT_EQ(child.finish(), 0);
}

TEST(HijackedThread, EndsWithAProcessThatIsKilled) {
  Child child([](Shared& shared) {
    pthread_t other;
    pthread_create(
        &other, nullptr,
        [](void* s) -> void* {
          auto& own = *static_cast<Shared*>(s);
          while (!own.stop) own.rounds = own.rounds + 1;
          return nullptr;
        },
        &shared);
    while (!shared.stop) continue;
  });
  child.wait_for_rounds(100);
  auto target = RemoteTarget::open(child.pid());
  ASSERT_TRUE(target.ok());
  const Room room = find_room(*target);
  {
    auto stop = Stop::all_threads(child.pid());
    ASSERT_TRUE(stop.ok());
    auto thread = HijackedThread::hijack(*stop, target->memory(), room);
    ASSERT_TRUE(thread.ok());
    ASSERT_TRUE(thread->call(SYS_getpid).ok());
    kill(child.pid(), SIGKILL);
    for (int i = 0; i < 2; ++i) EXPECT_FALSE(thread->call(SYS_getpid).ok());
    EXPECT_TRUE(thread->has_ended());
  }
  EXPECT_EQ(child.finish(), -1);
}

// For a system call that the program dispatches itself, the kernel sends SIGSYS. All signals are
// blocked in a hijacked thread, so that would end the process.
TEST(HijackedThread, IsNoThreadThatDispatchesItsSystemCallsItself) {
  Child child([](Shared& shared) {
    static volatile char selector = SYSCALL_DISPATCH_FILTER_ALLOW;
    if (prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &selector) != 0) {
      shared.failures = 1;
      shared.rounds = 1;
      return;
    }
    selector = SYSCALL_DISPATCH_FILTER_BLOCK;
    while (!shared.stop) shared.rounds = shared.rounds + 1;
    selector = SYSCALL_DISPATCH_FILTER_ALLOW;
  });
  child.wait_until_running();
  if (child.shared().failures != 0) GTEST_SKIP() << "this kernel has no such calls";
  const auto target = RemoteTarget::open(child.pid());
  ASSERT_TRUE(target);
  {
    auto stop = Stop::all_threads(child.pid());
    ASSERT_TRUE(stop);
    constexpr int kGetConfiguration = 0x4211;
    uint64_t configuration[4];
    if (ptrace(static_cast<__ptrace_request>(kGetConfiguration), child.pid(),
               reinterpret_cast<void*>(sizeof configuration), configuration) != 0)
      GTEST_SKIP() << "this kernel does not tell which threads do so";
    const auto thread = HijackedThread::hijack(*stop, target->memory(), find_room(*target));
    ASSERT_FALSE(thread);
    EXPECT_EQ(thread.error().cause, AttachCause::user_dispatch);
  }
  const auto stopped = stop_one_to_hijack(child.pid(), target->memory(), 0);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().cause, AttachCause::user_dispatch);
  child.wait_for_rounds(1000);
  EXPECT_EQ(child.finish(), 0);
}

// Wine's threads do so in Windows code alone, and say by the selector when they do.
TEST(HijackedThread, MayBeOneWhoseSelectorLetsSystemCallsThrough) {
  Child child([](Shared& shared) {
    static volatile char selector = SYSCALL_DISPATCH_FILTER_ALLOW;
    if (prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &selector) != 0)
      shared.failures = 1;
    do shared.rounds = shared.rounds + 1;
    while (!shared.stop && shared.failures == 0);
  });
  child.wait_until_running();
  if (child.shared().failures != 0) GTEST_SKIP() << "this kernel has no such calls";
  const auto target = RemoteTarget::open(child.pid());
  ASSERT_TRUE(target);
  {
    auto stop = stop_one_to_hijack(child.pid(), target->memory(), 0);
    ASSERT_TRUE(stop);
    auto thread = HijackedThread::hijack(*stop, target->memory(), find_room(*target));
    ASSERT_TRUE(thread);
    const auto pid = thread->call(SYS_getpid);
    ASSERT_TRUE(pid);
    EXPECT_EQ(*pid, static_cast<uint64_t>(child.pid()));
  }
  child.wait_for_rounds(1000);
  EXPECT_EQ(child.finish(), 0);
}

TEST(HijackedThread, DoesNotLoseAGroupStopThatArrivesMeanwhile) {
  Child child([](Shared& shared) {
    while (!shared.stop) shared.rounds = shared.rounds + 1;
  });
  child.wait_for_rounds(100);
  auto target = RemoteTarget::open(child.pid());
  ASSERT_TRUE(target.ok());
  const Room room = find_room(*target);
  for (int i = 0; i < 20; ++i) {
    {
      auto stop = Stop::all_threads(child.pid());
      ASSERT_TRUE(stop.ok());
      auto thread = HijackedThread::hijack(*stop, target->memory(), room);
      ASSERT_TRUE(thread.ok());
      kill(child.pid(), SIGSTOP);
      ASSERT_TRUE(thread->call(SYS_getpid).ok());
      ASSERT_TRUE(thread->call(SYS_getpid).ok());
    }
    int status = 0;
    ASSERT_EQ(waitpid(child.pid(), &status, WUNTRACED), child.pid());
    ASSERT_TRUE(WIFSTOPPED(status));
    EXPECT_EQ(WSTOPSIG(status), SIGSTOP);
    kill(child.pid(), SIGCONT);
    child.wait_for_rounds(100);
  }
  EXPECT_EQ(child.finish(), 0);
}

}  // namespace
}  // namespace pinprick::target
