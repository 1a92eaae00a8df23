// Probes that are turned off and on in a program that runs.
#include "engine/switches.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "engine/arming_by_pattern.h"
#include "layout/session_file.h"
#include "ledger/discovery.h"
#include "scratch.h"

namespace pinprick::engine {
namespace {

constexpr uint64_t kCalls = 1000;

// What the child calls, once a turn. All of their instructions run: a sanitizer would add some that
// do not.
extern "C" {
#define WHOLE __attribute__((noinline, no_sanitize("undefined")))
WHOLE long switches_one(long x) {
  asm volatile("" : "+r"(x));
  return x + 1;
}
WHOLE long switches_two(long x) {
  asm volatile("" : "+r"(x));
  return x * 3;
}
WHOLE long switches_three(long x) {
  asm volatile("" : "+r"(x));
  return x ^ 5;
}
#undef WHOLE
}

long call_all(long x) {
  return switches_three(switches_two(switches_one(x)));
}

// A child of the test that calls kCalls times when it is told to, and says what came out; or calls
// on four threads from one word to the next.
class Caller {
 public:
  Caller() {
    int to[2], from[2];
    if (::pipe(to) != 0 || ::pipe(from) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(to[1]);
      ::close(from[0]);
      serve(to[0], from[1]);
    }
    ::close(to[0]);
    ::close(from[1]);
    in_ = Fd(to[1]);
    out_ = Fd(from[0]);
  }
  ~Caller() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  // Calls kCalls times. Returns false if the results were not those of the functions.
  bool calls() { return ask('c') == 1; }
  bool starts_threads() { return ask('s') == 1; }
  // Returns how often they called; 0 if a result was wrong.
  uint64_t stops_threads() { return ask('e'); }

 private:
  uint64_t ask(char word) {
    uint64_t answer = 0;
    if (::write(in_.get(), &word, 1) != 1) return 0;
    return ::read(out_.get(), &answer, sizeof answer) == sizeof answer ? answer : 0;
  }
  [[noreturn]] static void serve(int in, int out) {
    std::atomic<bool> ends = false, is_wrong = false;
    std::atomic<uint64_t> calls = 0;
    std::vector<std::thread> threads;
    const auto is_right = [](long i) { return call_all(i) == (((i + 1) * 3) ^ 5); };
    for (char word = 0; ::read(in, &word, 1) == 1;) {
      uint64_t answer = 1;
      if (word == 'c') {
        for (long i = 0; i < static_cast<long>(kCalls); ++i) answer &= is_right(i) ? 1 : 0;
      } else if (word == 's') {
        for (int t = 0; t < 4; ++t)
          threads.emplace_back([&] {
            uint64_t n = 0;
            for (; !ends; ++n)
              if (!is_right(static_cast<long>(n))) is_wrong = true;
            calls += n;
          });
      } else {
        ends = true;
        for (std::thread& thread : threads) thread.join();
        answer = is_wrong ? 0 : calls.load();
      }
      if (::write(out, &answer, sizeof answer) != sizeof answer) break;
    }
    ::_exit(0);
  }
  pid_t pid_ = 0;
  Fd in_, out_;
};

class Switches : public testing::Test {
 protected:
  Switches() { ::setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1); }

  Result<Session, ledger::SessionError> arm(placement::Kind kind, const char* pattern,
                                            Sites sites = Sites::entries) {
    return arming_.arm(caller_.pid(), kind, pattern, sites);
  }

  static std::vector<uint32_t> all_of(const Session& session) {
    std::vector<uint32_t> probes;
    for (const ArmedProbe& probe : session.probes()) probes.push_back(probe.index);
    return probes;
  }
  static uint32_t probe_of(const Session& session, std::string_view name) {
    for (const ArmedProbe& probe : session.probes())
      if (session.name_of(probe).function == name) return probe.index;
    ADD_FAILURE() << "no probe in " << name;
    return 0;
  }
  void expect_clean(Session& session) {
    const auto report = session.disarm();
    ASSERT_TRUE(report);
    EXPECT_FALSE(report->memory_left);
    EXPECT_EQ(report->foreign, 0u);
    EXPECT_TRUE(caller_.calls());
  }

  const Scratch folder_;
  Caller caller_;
  ArmingByPattern arming_;
};

TEST_F(Switches, LetEachProbeCountOnlyWhileItIsOn) {
  auto session = arm(placement::Kind::count, "switches_*");
  ASSERT_TRUE(session);
  ASSERT_EQ(session->probes().size(), 3u);
  const uint32_t one = probe_of(*session, "switches_one");
  const uint32_t two = probe_of(*session, "switches_two");
  const uint32_t three = probe_of(*session, "switches_three");
  const auto expect = [&](uint64_t ones, uint64_t twos, uint64_t threes) {
    ASSERT_TRUE(caller_.calls());
    const auto counters = session->counters();
    EXPECT_EQ(counters[one], ones * kCalls);
    EXPECT_EQ(counters[two], twos * kCalls);
    EXPECT_EQ(counters[three], threes * kCalls);
  };
  expect(1, 1, 1);
  const auto off = session->turn({{one, three}}, Switched::off);
  ASSERT_TRUE(off);
  EXPECT_EQ(off->changed, 2u);
  EXPECT_EQ(off->unswitched, 0u);
  EXPECT_GT(off->stopped_ns, 0u);
  expect(1, 2, 1);
  const auto again = session->turn({{one}}, Switched::off);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->changed, 0u) << "it was off";
  const auto on = session->turn({{one}}, Switched::on);
  ASSERT_TRUE(on);
  EXPECT_EQ(on->changed, 1u);
  expect(2, 3, 1);
  expect_clean(*session);
}

TEST_F(Switches, AreOneForEachProbeOfAWindow) {
  auto session = arm(placement::Kind::count, "switches_*", Sites::each_instruction);
  ASSERT_TRUE(session);
  const auto probes = all_of(*session);
  ASSERT_GT(probes.size(), 6u) << "more than the entries";
  std::vector<uint32_t> off;
  for (size_t i = 0; i < probes.size(); i += 2) off.push_back(probes[i]);
  const auto turned = session->turn(off, Switched::off);
  ASSERT_TRUE(turned);
  EXPECT_EQ(turned->changed, off.size());
  ASSERT_TRUE(caller_.calls());
  for (size_t i = 0; i < probes.size(); ++i)
    EXPECT_EQ(session->counters()[probes[i]], i % 2 == 0 ? 0 : kCalls)
        << session->name_of(session->probes()[i]).function << '+'
        << session->name_of(session->probes()[i]).offset;
  ASSERT_TRUE(session->turn(off, Switched::on));
  ASSERT_TRUE(session->turn(probes, Switched::on));
  ASSERT_TRUE(caller_.calls());
  for (size_t i = 0; i < probes.size(); ++i)
    EXPECT_EQ(session->counters()[probes[i]], (i % 2 == 0 ? 1 : 2) * kCalls);
  expect_clean(*session);
}

TEST_F(Switches, LetCallsBeTimedOnlyWhileTheyAreOn) {
  auto session = arm(placement::Kind::latency, "switches_*");
  ASSERT_TRUE(session);
  ASSERT_EQ(session->probes().size(), 3u);
  const auto recorded = [&] {
    uint64_t calls = 0;
    for (const auto& histogram : session->histograms()) calls += histogram.count();
    return calls;
  };
  ASSERT_TRUE(caller_.calls());
  EXPECT_EQ(recorded(), 3 * kCalls);
  ASSERT_TRUE(session->turn(all_of(*session), Switched::off));
  ASSERT_TRUE(caller_.calls());
  EXPECT_EQ(recorded(), 3 * kCalls);
  ASSERT_TRUE(session->turn({{probe_of(*session, "switches_two")}}, Switched::on));
  ASSERT_TRUE(caller_.calls());
  EXPECT_EQ(recorded(), 4 * kCalls);
  expect_clean(*session);
}

TEST_F(Switches, LeaveOtherOwnersOfTheSameFunctionsAlone) {
  auto first = arm(placement::Kind::count, "switches_*");
  auto second = arm(placement::Kind::latency, "switches_*");
  ASSERT_TRUE(first);
  ASSERT_TRUE(second);
  ASSERT_EQ(second->probes().size(), 3u);
  ASSERT_TRUE(first->turn(all_of(*first), Switched::off));
  ASSERT_TRUE(caller_.calls());
  ASSERT_TRUE(second->turn(all_of(*second), Switched::off));
  ASSERT_TRUE(first->turn(all_of(*first), Switched::on));
  ASSERT_TRUE(caller_.calls());
  uint64_t timed = 0, counted = 0;
  for (const auto& histogram : second->histograms()) timed += histogram.count();
  for (const uint64_t counter : first->counters()) counted += counter;
  EXPECT_EQ(timed, 3 * kCalls);
  EXPECT_EQ(counted, 3 * kCalls);
  expect_clean(*first);
  expect_clean(*second);
}

TEST_F(Switches, AreTurnedManyTimesWhileThreadsRunThroughThem) {
  auto session = arm(placement::Kind::count, "switches_*", Sites::each_instruction);
  ASSERT_TRUE(session);
  const auto probes = all_of(*session);
  ASSERT_TRUE(caller_.starts_threads());
  uint64_t seed = 1;
  for (int i = 0; i < 150; ++i) {
    std::vector<uint32_t> some;
    for (const uint32_t probe : probes) {
      seed = seed * 6364136223846793005 + 1442695040888963407;
      if (seed >> 63 != 0) some.push_back(probe);
    }
    const auto turned = session->turn(some, i % 2 == 0 ? Switched::off : Switched::on);
    ASSERT_TRUE(turned);
    EXPECT_EQ(turned->unswitched, 0u);
  }
  const uint64_t calls = caller_.stops_threads();
  EXPECT_GT(calls, 0u) << "with the right results";
  for (const uint32_t probe : probes) EXPECT_LE(session->counters()[probe], calls);
  ASSERT_TRUE(session->turn(probes, Switched::on));
  const auto before = session->counters();
  ASSERT_TRUE(caller_.calls());
  for (const uint32_t probe : probes) EXPECT_EQ(session->counters()[probe] - before[probe], kCalls);
  expect_clean(*session);
}

// The file is enough, so a controller that did not arm the session can do it.
TEST_F(Switches, AreTurnedByAnotherControllerWhenTheirOwnIsGone) {
  const pid_t controller = ::fork();
  if (controller == 0) {
    auto session = arm(placement::Kind::count, "switches_*");
    ::_exit(session && session->probes().size() == 3 ? 0 : 1);
  }
  int status = -1;
  ::waitpid(controller, &status, 0);
  ASSERT_EQ(status, 0);
  const auto found = ledger::find_sessions(caller_.pid()).sessions;
  ASSERT_EQ(found.size(), 1u);
  auto file = ledger::SessionFile::open(found[0].file.path(), ledger::SessionFile::Lock::exclusive);
  ASSERT_TRUE(file);
  auto journal = *file->read();
  auto target = target::RemoteTarget::open(caller_.pid());
  ASSERT_TRUE(target);
  const std::vector<uint32_t> all = {0, 1, 2};
  ASSERT_TRUE(caller_.calls());
  const auto off = switch_probes(*target, *file, journal, all, Switched::off);
  ASSERT_TRUE(off);
  EXPECT_EQ(off->changed, 3u);
  ASSERT_TRUE(caller_.calls());
  EXPECT_EQ(file->read_counters(journal), std::vector<uint64_t>(3, kCalls));
  const auto read = file->read();
  ASSERT_TRUE(read);
  for (const layout::SwitchEntry& entry : read->switches) EXPECT_EQ(entry.is_on, 0u);
  const auto image = image::load_process(caller_.pid(), target->reader());
  ASSERT_TRUE(image);
  const auto report = disarm(*target, *image, *file, journal);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->foreign, 0u);
  EXPECT_TRUE(caller_.calls());
}

// A damaged file must not make us write elsewhere.
TEST_F(Switches, AreNotLookedForOutsideOfTheSessionsStubs) {
  auto session = arm(placement::Kind::count, "switches_*");
  ASSERT_TRUE(session);
  const auto found = ledger::find_sessions(caller_.pid()).sessions;
  ASSERT_EQ(found.size(), 1u);
  auto file = ledger::SessionFile::open(found[0].file.path(), ledger::SessionFile::Lock::none);
  ASSERT_TRUE(file);
  auto journal = *file->read();
  ASSERT_EQ(journal.switches.size(), 3u);
  journal.switches[0].at = INT32_MIN;
  journal.switches[1].at += 1;
  auto target = target::RemoteTarget::open(caller_.pid());
  ASSERT_TRUE(target);
  const auto turned = switch_probes(*target, *file, journal, {{0, 1, 7}}, Switched::off);
  ASSERT_TRUE(turned);
  EXPECT_EQ(turned->changed, 0u);
  EXPECT_EQ(turned->unswitched, 3u);
  for (layout::MappingEntry& mapping : journal.mappings)
    if (mapping.kind == layout::MappingEntry::Kind::stubs) mapping.size = 0;
  const auto without = switch_probes(*target, *file, journal, {{2}}, Switched::off);
  ASSERT_TRUE(without);
  EXPECT_EQ(without->changed, 0u) << "the file says that there are no stubs";
  ASSERT_TRUE(caller_.calls());
  expect_clean(*session);
}

// A controller that is killed between two pages must have written a link or a switch whole.
TEST_F(Switches, AndLinksLieInOnePageEach) {
  const auto check = [](const layout::Session& journal) {
    const auto lies_in_one_page = [](Address at) {
      return align_down(at, kPageSize) == align_down(at + layout::kLongSiteLength - 1, kPageSize);
    };
    size_t looked_at = 0, crossing = 0;
    for (const layout::SiteEntry& site : journal.sites) {
      if (site.link != layout::SiteEntry::Link::before_copy || site.copy_distance == 0) continue;
      ++looked_at;
      crossing += lies_in_one_page(site.copy() - layout::kLongSiteLength) ? 0 : 1;
    }
    for (size_t i = 0; i < journal.switches.size(); ++i) {
      const layout::SiteEntry& site = journal.sites[journal.probes[i].site];
      if (site.copy_distance == 0) continue;
      ++looked_at;
      crossing +=
          lies_in_one_page(site.copy() + static_cast<uint64_t>(int64_t{journal.switches[i].at}))
              ? 0
              : 1;
    }
    EXPECT_GT(looked_at, 3000u);
    EXPECT_EQ(crossing, 0u);
  };
  for (const placement::Kind kind : {placement::Kind::count, placement::Kind::latency}) {
    auto session = arm(kind, "libc:*");
    ASSERT_TRUE(session);
    const auto found = ledger::find_sessions(caller_.pid()).sessions;
    ASSERT_EQ(found.size(), 1u);
    check(found[0].journal);
    expect_clean(*session);
  }
}

}  // namespace
}  // namespace pinprick::engine
