// Statistics that a program records about itself, as the program writes them and others read them.
#include <gtest/gtest.h>
#include <pinprick/kstats.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/rseq.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ledger/discovery.h"
#include "ledger/recorded_statistics.h"
#include "ledger/runtime_directory.h"
#include "library/in_child.h"
#include "library/process/children.h"
#include "scratch.h"
#include "stats/histogram.h"

namespace pinprick::library {
namespace {

using ledger::RecordedFile;
using ledger::RecordedStatistic;
using Access = RecordedFile::Access;

RecordedFile file_of(pid_t pid, Access access = Access::read) {
  auto found = ledger::find_recordings(pid, access);
  EXPECT_EQ(found.files.size(), 1u);
  if (found.files.empty()) std::abort();
  return std::move(found.files.front());
}

RecordedStatistic read_of(pid_t pid, const std::string& name) {
  auto statistic = file_of(pid).read(name);
  EXPECT_TRUE(statistic) << name;
  return statistic ? *statistic : RecordedStatistic{};
}

RecordedStatistic read(const std::string& name) {
  return read_of(::getpid(), name);
}

uint64_t count(const std::string& name) {
  return read(name).total().count();
}

bool has_file(pid_t pid) {
  return !ledger::find_recorded_files(pid).empty();
}

// Removes the files of ended processes until this one's is gone. A process that reads the file just
// now keeps it once; seconds are for a machine that does much else.
bool is_removed(pid_t pid) {
  for (int i = 0; i < 5000 && has_file(pid); ++i) {
    ledger::remove_files_of_dead();
    ::usleep(1000);
  }
  return !has_file(pid);
}

// The contract's formula, computed in another way than anywhere else: bit by bit.
struct Expected {
  explicit Expected(unsigned fraction_bits)
      : bits(fraction_bits), cells(((64 - fraction_bits + 1) << fraction_bits) + 1) {}
  void record(uint64_t value) {
    unsigned bucket = 0;
    while (bucket < 64 && (value >> bits) >> bucket != 0) ++bucket;
    uint64_t slot = value;
    if (bucket != 0) slot = uint64_t{bucket} << bits | ((value >> (bucket - 1)) % (1u << bits));
    if (slot > cells.size() - 2) slot = cells.size() - 1;
    cells[slot].count += 1;
    cells[slot].sum += bucket < 20 ? value : value >> (bucket - 20);
  }
  unsigned bits;
  std::vector<stats::Cell> cells;
};

TEST(Kstats, ValuesGoWhereTheFormulaPutsThem) {
  std::mt19937_64 random(2020);
  for (unsigned bits = stats::kMinFractionBits; bits <= stats::kMaxFractionBits; ++bits) {
    const std::string name = "formula-" + std::to_string(bits);
    Kstats statistic(name.c_str(), bits);
    ASSERT_TRUE(statistic);
    Expected expected(bits);
    stats::Histogram histogram(bits);
    const auto record = [&](uint64_t value) {
      statistic.record(value);
      expected.record(value);
      histogram.record(value);
    };
    for (unsigned bit = 0; bit < 64; ++bit)
      for (int less = 0; less < 2; ++less)
        record((uint64_t{1} << bit) - static_cast<unsigned>(less));
    record(UINT64_MAX);
    for (int i = 0; i < 1'000'000; ++i) record(random() >> random() % 64);

    const stats::Histogram recorded = read(name).total();
    ASSERT_EQ(recorded.cells().size(), expected.cells.size());
    for (uint32_t slot = 0; slot < expected.cells.size(); ++slot) {
      EXPECT_EQ(recorded.cells()[slot].count, expected.cells[slot].count) << bits << " " << slot;
      EXPECT_EQ(recorded.cells()[slot].sum, expected.cells[slot].sum) << bits << " " << slot;
      EXPECT_EQ(recorded.cells()[slot].count, histogram.cells()[slot].count) << slot;
      EXPECT_EQ(recorded.cells()[slot].sum, histogram.cells()[slot].sum) << slot;
    }
  }
}

TEST(Kstats, LockedRecordsFollowTheSameFormula) {
  // As without the kernel's help: the thread's area says that it is not registered.
  if (!can_mark_children()) GTEST_SKIP() << "no thread here has an rseq area that may be written";
  Kstats statistic("locked");
  ASSERT_TRUE(statistic);
  auto* const area = reinterpret_cast<volatile struct ::rseq*>(
      static_cast<char*>(__builtin_thread_pointer()) + __rseq_offset);
  const uint32_t cpu = area->cpu_id;
  area->cpu_id = static_cast<uint32_t>(RSEQ_CPU_ID_UNINITIALIZED);
  stats::Histogram expected(3);
  for (uint64_t value : {0ul, 7ul, 8ul, 480ul, 20130ul, 1061896ul, UINT64_MAX}) {
    area->cpu_id = static_cast<uint32_t>(RSEQ_CPU_ID_UNINITIALIZED);  // the kernel updates it
    statistic.record(value);
    expected.record(value);
  }
  area->cpu_id = cpu;
  const RecordedStatistic recorded = read("locked");
  ASSERT_EQ(recorded.cpus.back().cpu, -1) << "all were recorded by locked instructions";
  const auto& cells = recorded.cpus.back().histogram.cells();
  for (uint32_t slot = 0; slot < cells.size(); ++slot) {
    EXPECT_EQ(cells[slot].count, expected.cells()[slot].count) << slot;
    EXPECT_EQ(cells[slot].sum, expected.cells()[slot].sum) << slot;
  }
}

TEST(Kstats, ThreadsLoseNoRecord) {
  Kstats statistic("threads");
  ASSERT_TRUE(statistic);
  constexpr uint64_t kThreads = 8, kRecords = 500'000;
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (uint64_t n = 0; n < kRecords; ++n) statistic.record(n % 100);
    });
  for (std::thread& thread : threads) thread.join();
  const stats::Histogram total = read("threads").total();
  EXPECT_EQ(total.count(), kThreads * kRecords);
  EXPECT_EQ(total.sum(), kThreads * kRecords / 100 * 4950);
}

TEST(Kstats, MigrationLosesNoRecord) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  if (CPU_COUNT(&allowed) < 2) GTEST_SKIP() << "there is one CPU only";
  Kstats statistic("migration");
  ASSERT_TRUE(statistic);
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> recorded = 0;
  const auto work = [&] {
    uint64_t n = 0;
    for (; !stop; ++n) statistic.record(5);
    recorded += n;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(work);
  for (int move = 0; move < 20'000;)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &allowed)) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      for (std::thread& thread : threads)
        ::pthread_setaffinity_np(thread.native_handle(), sizeof one, &one);
      ++move;
    }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  const RecordedStatistic read_back = read("migration");
  EXPECT_EQ(read_back.total().count(), recorded);
  EXPECT_EQ(read_back.total().sum(), 5.0 * static_cast<double>(recorded));
  EXPECT_GE(read_back.cpus.size(), 2u) << "the threads were on several CPUs";
}

pinprick_kstats* interrupted = nullptr;
std::atomic<uint64_t> interruptions = 0;

TEST(Kstats, RecordsOfSignalHandlersAndOfWhatTheyInterruptAreAllCounted) {
  Kstats statistic("signals");
  ASSERT_TRUE(statistic);
  interrupted = statistic.get();
  struct sigaction action = {}, before = {};
  action.sa_handler = [](int) {
    pinprick_kstats_record(interrupted, 9);
    ++interruptions;
  };
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  std::atomic<bool> stop = false;
  uint64_t recorded = 0;
  std::thread thread([&] {
    for (; !stop; ++recorded) statistic.record(9);
  });
  for (int i = 0; i < 100'000; ++i) ::pthread_kill(thread.native_handle(), SIGUSR1);
  stop = true;
  thread.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  EXPECT_GT(interruptions, 0u);
  EXPECT_EQ(count("signals"), recorded + interruptions);
  EXPECT_EQ(read("signals").total().sum(), 9.0 * static_cast<double>(recorded + interruptions));
}

TEST(Kstats, TheFirstStartCountsAndOthersAreUnmatched) {
  Kstats statistic("starts");
  ASSERT_TRUE(statistic);
  statistic.end();
  statistic.start();
  ::usleep(20'000);
  statistic.start();
  statistic.end();
  statistic.end();
  const RecordedStatistic recorded = read("starts");
  EXPECT_EQ(recorded.total().count(), 1u);
  EXPECT_GE(recorded.total().sum(), 20e6) << "nanoseconds since the first start";
  EXPECT_EQ(recorded.unmatched_starts, 1u);
  EXPECT_EQ(recorded.unmatched_ends, 2u);
  EXPECT_EQ(recorded.missed, 0u);
}

TEST(Kstats, StartsOfThreadsAreApart) {
  Kstats statistic("apart");
  ASSERT_TRUE(statistic);
  statistic.start();
  std::thread([&] { statistic.end(); }).join();
  std::thread([&] { statistic.start(); }).join();
  // A new thread may get the record of the one that has just ended, but not its start.
  std::thread([&] { statistic.end(); }).join();
  statistic.end();
  const RecordedStatistic recorded = read("apart");
  EXPECT_EQ(recorded.total().count(), 1u);
  EXPECT_EQ(recorded.unmatched_ends, 2u);
}

TEST(Kstats, TimersNest) {
  Kstats statistic("timers");
  ASSERT_TRUE(statistic);
  {
    const Timer outer(statistic);
    const Timer inner(statistic);
  }
  EXPECT_EQ(count("timers"), 2u);
  EXPECT_EQ(read("timers").unmatched_starts, 0u);
}

TEST(Kstats, BadNamesAndTakenOnesAreRefused) {
  for (const char* name :
       {"", ".", "..", "a b", "a/b", "a\nb", "a\tb", "\x7f", "\xc2\x9b", "_control", "GAP-x",
        "0123456789012345678901234567890123456789012345678901234567890123"}) {
    errno = 0;
    EXPECT_EQ(pinprick_kstats_new(name, 3), nullptr) << name;
    EXPECT_EQ(errno, EINVAL) << name;
  }
  errno = 0;
  EXPECT_EQ(pinprick_kstats_new("bits", 6), nullptr);
  EXPECT_EQ(errno, EINVAL);
  const Kstats longest("012345678901234567890123456789012345678901234567890123456789012");
  EXPECT_TRUE(longest);
  const Kstats first("name"), second("name");
  EXPECT_TRUE(first);
  EXPECT_EQ(second.error(), EEXIST);
}

TEST(Kstats, AStatisticThatTakesThePlaceOfAnotherStartsEmpty) {
  {
    Kstats old("old");
    old.record(1);
    old.start();
    EXPECT_EQ(count("old"), 1u);
  }
  EXPECT_FALSE(file_of(::getpid()).read("old"));
  Kstats recent("recent");
  EXPECT_EQ(file_of(::getpid()).read()->size(), 1u);
  EXPECT_EQ(count("recent"), 0u);
  recent.end();
  EXPECT_EQ(count("recent"), 0u) << "the start was the old one's";
  EXPECT_EQ(read("recent").unmatched_ends, 1u);
}

// All of 4,096 statistics but one are removed, and the next ones have other fraction bits, or the
// same, in any order.
TEST(Kstats, ThatWereRemovedTakeNoRoomFromOthersWhateverTheirBits) {
  constexpr size_t kMost = 4096;
  Kstats stays("stays", 2);
  stays.record(1);
  const auto fill = [](unsigned bits, size_t count) {
    std::vector<Kstats> all;
    all.reserve(count);
    for (size_t i = 0; i < count; ++i)
      all.emplace_back(("s" + std::to_string(i)).c_str(), bits).record(i);
    return all;
  };
  for (const unsigned bits : {0, 1, 0}) {
    std::vector<Kstats> all = fill(bits, kMost - 1);
    for (size_t i = 0; i < all.size(); ++i) ASSERT_TRUE(all[i]) << i << ' ' << bits;
    EXPECT_EQ(Kstats("more", bits).error(), ENOSPC);
    EXPECT_EQ(Kstats("more", 5).error(), ENOSPC);
    EXPECT_EQ(count("s4094"), 1u);
    ASSERT_EQ(file_of(::getpid()).read()->size(), kMost);
    all.erase(all.begin(), all.begin() + 100);
    const std::vector<Kstats> others = fill(5 - bits, 100);
    for (const Kstats& one : others) EXPECT_TRUE(one) << bits;
    EXPECT_EQ(Kstats("more", bits).error(), ENOSPC);
    EXPECT_EQ(read("s99").bits, 5 - bits);
    EXPECT_EQ(read("s100").bits, bits);
  }
  for (unsigned bits = 0; bits <= PINPRICK_KSTATS_MAX_BITS; ++bits)
    EXPECT_TRUE(Kstats("any", bits));
  EXPECT_EQ(file_of(::getpid()).read()->size(), 1u);
  EXPECT_EQ(count("stays"), 1u);
}

// A child's file has the parent's statistics at the same places, and those that were removed
// between them.
TEST(KstatsOfChildren, HaveTheirStatisticsBesideThoseThatWereRemoved) {
  std::vector<Kstats> removed;
  for (unsigned bits = 0; bits <= PINPRICK_KSTATS_MAX_BITS; ++bits)
    removed.emplace_back(("r" + std::to_string(bits)).c_str(), bits);
  Kstats stays("stays", 3);
  removed.clear();
  in_child([&] {
    stays.record(7);
    Kstats added("added", 5);
    added.record(8);
    Kstats other("other", 4);
    const auto all = file_of(::getpid()).read();
    ASSERT_TRUE(all);
    std::set<std::string> names;
    for (const RecordedStatistic& one : *all) names.insert(one.name);
    EXPECT_EQ(names, (std::set<std::string>{"stays", "added", "other"}));
    EXPECT_EQ(count("stays"), 1u);
    EXPECT_EQ(count("added"), 1u);
  });
}

TEST(Kstats, FilesGrowWithTheStatistics) {
  std::vector<Kstats> all;
  constexpr uint64_t kMany = 300;
  for (uint64_t i = 0; i < kMany; ++i) {
    all.emplace_back(("many-" + std::to_string(i)).c_str(), static_cast<unsigned>(i % 6));
    ASSERT_TRUE(all.back());
    // Those from before still record where they are read.
    for (Kstats& one : all) one.record(i);
  }
  const auto read_all = file_of(::getpid()).read();
  ASSERT_TRUE(read_all);
  ASSERT_EQ(read_all->size(), kMany);
  for (const RecordedStatistic& one : *read_all) {
    ASSERT_TRUE(one.name.starts_with("many-"));
    const uint64_t number = std::stoull(one.name.substr(5));
    EXPECT_EQ(one.bits, number % 6);
    EXPECT_EQ(one.total().count(), kMany - number) << one.name;
  }
}

// ---------------------------------------------------------------------------- stop, resume, reset

// What may change a statistic: the program itself, or another process.
struct Controls {
  void (*set_running)(Kstats&, bool);
  void (*reset)(Kstats&);
};

const Controls kOwn = {[](Kstats& statistic, bool running) {
                         EXPECT_TRUE(running ? statistic.resume() : statistic.stop());
                       },
                       [](Kstats& statistic) { EXPECT_TRUE(statistic.reset()); }};
const Controls kOther = {
    [](Kstats&, bool running) {
      EXPECT_TRUE(file_of(::getpid(), Access::change).set_running("controlled", running));
    },
    [](Kstats&) { EXPECT_TRUE(file_of(::getpid(), Access::change).reset("controlled")); }};

class Controlled : public testing::TestWithParam<Controls> {
 protected:
  void set_running(bool running) { GetParam().set_running(statistic_, running); }
  void reset() { GetParam().reset(statistic_); }
  Kstats statistic_{"controlled"};
};
INSTANTIATE_TEST_SUITE_P(ByTheProgramAndByOthers, Controlled, testing::Values(kOwn, kOther));

TEST_P(Controlled, RecordsNothingWhileItIsStopped) {
  statistic_.record(1);
  set_running(false);
  EXPECT_FALSE(read("controlled").running);
  statistic_.record(1);
  statistic_.start();
  statistic_.end();
  statistic_.end();
  { const Timer timer(statistic_); }
  EXPECT_EQ(count("controlled"), 1u);
  EXPECT_EQ(read("controlled").unmatched_ends, 0u);
  set_running(true);
  EXPECT_TRUE(read("controlled").running);
  statistic_.record(1);
  EXPECT_EQ(count("controlled"), 2u);
}

TEST_P(Controlled, TimesThatIncludeAStopAreDropped) {
  statistic_.start();
  const pinprick_kstats_mark mark = pinprick_kstats_now(statistic_.get());
  set_running(false);
  set_running(true);
  statistic_.end();
  pinprick_kstats_record_since(statistic_.get(), mark);
  EXPECT_EQ(count("controlled"), 0u);
  EXPECT_EQ(read("controlled").unmatched_ends, 0u);
}

TEST_P(Controlled, ResetsForgetWhatWasAndWhatWasStarted) {
  for (uint64_t round = 1; round <= 4; ++round) {
    for (uint64_t i = 0; i < round; ++i) statistic_.record(100);
    statistic_.end();
    EXPECT_EQ(count("controlled"), round);
    EXPECT_EQ(read("controlled").total().sum(), 100.0 * static_cast<double>(round));
    EXPECT_EQ(read("controlled").unmatched_ends, 1u);
    statistic_.start();
    reset();
    EXPECT_EQ(count("controlled"), 0u);
    EXPECT_EQ(read("controlled").total().sum(), 0.0);
    EXPECT_EQ(read("controlled").unmatched_ends, 0u);
    statistic_.end();
    EXPECT_EQ(count("controlled"), 0u) << "the start was before the reset";
    EXPECT_TRUE(read("controlled").running);
  }
}

TEST_P(Controlled, EachResetHasAnotherNumberWhichNothingElseChanges) {
  std::set<uint64_t> numbers;
  for (int i = 0; i < 5; ++i) {
    const uint64_t number = read("controlled").resets;
    EXPECT_TRUE(numbers.insert(number).second) << number;
    statistic_.record(1);
    set_running(false);
    set_running(true);
    EXPECT_EQ(read("controlled").resets, number);
    reset();
  }
}

TEST_P(Controlled, ReadersSeeAllOfAResetOrNothingOfIt) {
  constexpr uint64_t kBefore = 1000;
  for (uint64_t i = 0; i < kBefore; ++i) statistic_.record(i);
  std::atomic<bool> stop = false;
  std::thread reader([&] {
    const RecordedFile file = file_of(::getpid());
    while (!stop) {
      const auto seen = file.read("controlled");
      ASSERT_TRUE(seen);
      const uint64_t total = seen->total().count();
      EXPECT_TRUE(total == 0 || total == kBefore) << total;
    }
  });
  for (int i = 0; i < 300; ++i) reset();
  stop = true;
  reader.join();
  EXPECT_EQ(count("controlled"), 0u);
}

// -------------------------------------------------------------------------------- processes

TEST(KstatsOfChildren, AForkedChildRecordsForItselfFromZero) {
  Kstats statistic("forks");
  Kstats stopped("stopped");
  ASSERT_TRUE(statistic);
  ASSERT_TRUE(stopped.stop());
  for (int i = 0; i < 3; ++i) statistic.record(7);
  statistic.start();
  in_child([&] {
    EXPECT_FALSE(has_file(::getpid())) << "it has recorded nothing yet";
    statistic.end();
    statistic.record(7);
    stopped.record(7);
    EXPECT_FALSE(statistic.is_private());
    EXPECT_EQ(count("forks"), 1u) << "neither the parent's records, nor its start";
    EXPECT_EQ(count("stopped"), 0u);
    EXPECT_EQ(pinprick_kstats_find("forks"), statistic.get());
    Kstats more("more");
    more.record(1);
    EXPECT_EQ(count("more"), 1u);
    in_child([&] {
      for (int i = 0; i < 5; ++i) statistic.record(7);
      EXPECT_EQ(count("forks"), 5u);
      EXPECT_EQ(count("more"), 0u);
    });
    statistic.record(7);
    EXPECT_EQ(count("forks"), 2u);
  });
  statistic.end();
  EXPECT_EQ(count("forks"), 4u);
  EXPECT_FALSE(file_of(::getpid()).read("more"));
  ledger::remove_files_of_dead();
}

TEST(KstatsOfChildren, ThreadsOfAChildMayAllMakeItsFirstRecord) {
  Kstats statistic("first");
  ASSERT_TRUE(statistic);
  in_child([&] {
    constexpr uint64_t kThreads = 6, kRecords = 10'000;
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < kThreads; ++i)
      threads.emplace_back([&] {
        for (uint64_t n = 0; n < kRecords; ++n) statistic.record(n);
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(count("first"), kThreads * kRecords);
  });
  EXPECT_EQ(count("first"), 0u);
  ledger::remove_files_of_dead();
}

TEST(KstatsOfChildren, ForksWhileThreadsRecordLoseNothing) {
  Kstats statistic("forking");
  ASSERT_TRUE(statistic);
  std::atomic<bool> stop = false;
  uint64_t recorded = 0;
  std::thread thread([&] {
    for (; !stop; ++recorded) statistic.record(3);
  });
  for (int i = 0; i < 50; ++i)
    in_child([&] {
      statistic.record(3);
      EXPECT_EQ(count("forking"), 1u);
      ::unlink(file_of(::getpid()).path().c_str());
    });
  stop = true;
  thread.join();
  EXPECT_EQ(count("forking"), recorded);
}

TEST(KstatsOfChildren, ExitRemovesTheFile) {
  Kstats statistic("exits");
  const pid_t child = ::fork();
  if (child == 0) {
    statistic.record(1);
    std::exit(has_file(::getpid()) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "there was no file";
  EXPECT_FALSE(has_file(child));
  EXPECT_TRUE(has_file(::getpid()));
}

TEST(KstatsOfChildren, AKilledProgramsStatisticsAreReadUntilTheyAreCleanedUp) {
  Kstats statistic("killed");
  const pid_t child = ::fork();
  if (child == 0) {
    statistic.record(1);
    ::raise(SIGKILL);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(read_of(child, "killed").total().count(), 1u);
  EXPECT_FALSE(file_of(child).process_lives());
  EXPECT_TRUE(file_of(::getpid()).process_lives());
  EXPECT_TRUE(is_removed(child));
  EXPECT_TRUE(has_file(::getpid())) << "this process maps its file";
}

TEST(KstatsOfChildren, WhatAProcessRecordedBeforeExecveIsCleanedUp) {
  Kstats statistic("exec");
  int gate[2];
  ASSERT_EQ(::pipe(gate), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    statistic.record(1);
    ::dup2(gate[0], 0);
    ::close(gate[1]);
    ::execlp("sh", "sh", "-c", "echo; read line", nullptr);
    ::_exit(1);
  }
  ::close(gate[0]);
  const std::string program = "/proc/" + std::to_string(child) + "/comm";
  while (read_file(program) && *read_file(program) != "sh\n") ::sched_yield();
  EXPECT_TRUE(has_file(child));
  EXPECT_TRUE(is_removed(child)) << "the process lives, but no program of it maps the file";
  ::close(gate[1]);
  ::waitpid(child, nullptr, 0);
}

[[gnu::noinline]] void record_in_vfork_child(pinprick_kstats* statistic, uint64_t records) {
  const pid_t child = ::vfork();
  if (child == 0) {
    for (uint64_t n = 0; n < records; ++n) pinprick_kstats_record(statistic, 3);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
}

TEST(KstatsOfChildren, ChildrenInTheSameMemoryRecordForTheirParent) {
  Kstats statistic("vforks");
  ASSERT_TRUE(statistic);
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> recorded = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      uint64_t n = 0;
      for (; !stop; ++n) statistic.record(3);
      recorded += n;
    });
  constexpr uint64_t kChildren = 200, kRecords = 1000;
  for (uint64_t i = 0; i < kChildren; ++i) {
    record_in_vfork_child(statistic.get(), kRecords);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count("vforks"), recorded + kChildren * kRecords);
}

// -------------------------------------------------------------------------------- private

void expect_that_it_works(Kstats& statistic) {
  EXPECT_TRUE(statistic.is_private());
  for (uint64_t i = 0; i < 10'000; ++i) statistic.record(i);
  EXPECT_TRUE(statistic.stop());
  EXPECT_EQ(*statistic.get()->control & 1, 0);
  EXPECT_TRUE(statistic.resume());
  EXPECT_TRUE(statistic.reset());
  EXPECT_TRUE(statistic.reset());
  statistic.start();
  statistic.end();
}

TEST(KstatsWithoutAFile, WorkPrivatelyWhereFilesMayNotGrow) {
  in_child([] {
    const struct rlimit none = {0, 0};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
    Kstats statistic("private");
    ASSERT_TRUE(statistic);
    EXPECT_FALSE(has_file(::getpid()));
    expect_that_it_works(statistic);
    in_child([&] { expect_that_it_works(statistic); });
  });
}

// The kernel ends a program that writes beyond the limit, even into a file that is longer already.
TEST(Kstats, ChangesFailWhereTheFileIsLongerThanTheProgramsFilesMayBe) {
  in_child([] {
    Kstats statistic("limited");
    ASSERT_TRUE(statistic);
    ASSERT_FALSE(statistic.is_private());
    statistic.record(1);
    const struct rlimit page = {kPageSize, kPageSize};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &page), 0);
    for (bool (Kstats::*change)() : {&Kstats::stop, &Kstats::resume, &Kstats::reset}) {
      errno = 0;
      EXPECT_FALSE((statistic.*change)());
      EXPECT_EQ(errno, EFBIG);
    }
    statistic.record(1);
    EXPECT_EQ(count("limited"), 2u);
    ::unlink(file_of(::getpid()).path().c_str());
  });
}

TEST(KstatsWithoutAFile, AreThoseForWhichTheFileSystemHasNoSpace) {
  if (has_file(::getpid()))
    GTEST_SKIP() << "earlier tests of this process have made statistics; ctest runs each alone";
  const Scratch scratch;
  in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) ||
        ::mount("none", scratch.path().c_str(), "tmpfs", 0, "size=128k") != 0) {
      std::printf("skipped: mounting a file system is not permitted here\n");
      return;
    }
    ::setenv("XDG_RUNTIME_DIR", scratch.path().c_str(), 1);
    std::vector<Kstats> all;
    for (int i = 0; i < 20; ++i) all.emplace_back(("full-" + std::to_string(i)).c_str(), 5);
    ASSERT_TRUE(all.front()) << all.front().error();
    EXPECT_FALSE(all.front().is_private());
    ASSERT_TRUE(all.back());
    for (Kstats& one : all)
      for (uint64_t value = 1; value != 0; value <<= 1) one.record(value);
    expect_that_it_works(all.back());
    EXPECT_EQ(count("full-0"), 64u);
    EXPECT_FALSE(file_of(::getpid()).read("full-19"));
    // There is no space for a second file, either.
    in_child([&] { expect_that_it_works(all.front()); });
  });
}

}  // namespace
}  // namespace pinprick::library
