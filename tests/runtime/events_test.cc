// Events that hits record in this process, as the reader of the session's file finds them.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "event_recorder.h"

namespace pinprick::runtime {
namespace {

class Events : public OnEachPath {};

TEST_P(Events, TellTheirValuesInOrderTheThreadAndTheTime) {
  Recorder program(GetParam());
  const uint64_t before = read_tsc();
  for (uint32_t probe = 0; probe < kProbes; ++probe) program.hit(probe, 1000 + probe);
  const uint64_t after = read_tsc();
  const ledger::Events taken = program.take();
  std::vector<ledger::Event> events(taken.begin(), taken.end());
  std::sort(events.begin(), events.end(),
            [](const auto& a, const auto& b) { return a.tsc < b.tsc; });
  ASSERT_EQ(events.size(), kProbes);
  for (uint32_t probe = 0; probe < kProbes; ++probe) {
    const ledger::Event& event = events[probe];
    EXPECT_EQ(event.probe, probe);
    EXPECT_EQ(event.tid, static_cast<uint32_t>(gettid()));
    EXPECT_GE(event.tsc, before);
    EXPECT_LE(event.tsc, after);
    if (event.values.size() != 0) {
      EXPECT_EQ(event.values[0], 1000 + probe);
    }
    EXPECT_TRUE(is_whole(event)) << probe;
  }
  EXPECT_TRUE(program.take().empty()) << "each is taken once";
  EXPECT_FALSE(program.is_wrong());
}

TEST_P(Events, NameNoThreadWhereItsNumberIsNotKnown) {
  Recorder program(GetParam());
  program.context().tid_offset = 0;
  program.hit(0, 7);
  const auto events = program.take();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].tid, 0u);
}

// The ring ends in the middle of events of each size.
TEST_P(Events, OfAllSizesGoAroundTheRingUnharmed) {
  Recorder program(GetParam());
  std::mt19937_64 random(5);
  uint64_t number = 0;
  for (int round = 0; round < 400; ++round) {
    std::map<uint64_t, uint32_t> hits;
    uint32_t without_number = 0;
    for (uint64_t n = random() % 300; n != 0; --n) {
      const auto probe = static_cast<uint32_t>(random() % kProbes);
      program.hit(probe, ++number);
      if (Recorder::kSizes[probe] == 0)
        ++without_number;
      else
        hits[number] = probe;
    }
    for (const ledger::Event& event : program.take()) {
      ASSERT_TRUE(is_whole(event));
      if (event.values.size() == 0)
        --without_number;
      else
        EXPECT_EQ(hits.extract(event.values[0]).mapped(), event.probe);
    }
    ASSERT_TRUE(hits.empty());
    ASSERT_EQ(without_number, 0u);
  }
  EXPECT_EQ(program.dropped(), std::vector<uint64_t>(kProbes));
}

TEST_P(Events, WithoutRoomAreCountedByProbeAndThoseThatWereThereStay) {
  const OnOneCpu one;
  Recorder program(GetParam());
  std::array<uint64_t, kProbes> hits = {};
  const auto fill = [&] {
    for (uint64_t i = 0; i < 20'000; ++i) {
      program.hit(i % 3 == 0 ? 2 : 3, i);
      ++hits[i % 3 == 0 ? 2 : 3];
    }
  };
  for (int round = 0; round < 3; ++round) {
    fill();
    for (const ledger::Event& event : program.take()) {
      ASSERT_TRUE(is_whole(event));
      --hits[event.probe];
    }
    const auto dropped = program.dropped();
    EXPECT_EQ((std::vector<uint64_t>(hits.begin(), hits.end())), dropped);
    EXPECT_GT(dropped[2], 0u);
    EXPECT_GT(dropped[3], 0u);
  }
}

// --- Storms

// Takes events until it is told to stop, and checks them.
class Reader {
 public:
  explicit Reader(Recorder& program) : program_(program), thread_([this] { run(); }) {}
  void stop() {
    stops_ = true;
    thread_.join();
    look();
  }
  // By probe.
  std::array<uint64_t, kProbes> events = {};
  uint64_t torn = 0, doubled = 0;

 private:
  void run() {
    while (!stops_) {
      look();
      std::this_thread::yield();
    }
  }
  void look() {
    for (const ledger::Event& event : program_.take()) {
      if (!is_whole(event)) {
        ++torn;
        continue;
      }
      ++events[event.probe];
      if (event.values.size() != 0 && !seen_.insert(event.values[0]).second) ++doubled;
    }
  }

  Recorder& program_;
  std::set<uint64_t> seen_;
  std::atomic<bool> stops_ = false;
  std::thread thread_;
};

Recorder* interrupted = nullptr;
std::atomic<uint64_t> next_number = 0;
std::array<std::atomic<uint64_t>, kProbes> tried = {};

void hit_any(Recorder& program, uint64_t random) {
  const uint32_t probe = random % kProbes;
  ++tried[probe];
  program.hit(probe, ++next_number);
}

void hit_in_handler(int) {
  for (uint64_t i = 0; i < 3; ++i) hit_any(*interrupted, i);
}

void expect_accounts(const Recorder& program, const Reader& reader) {
  const auto dropped = program.dropped();
  for (uint32_t probe = 0; probe < kProbes; ++probe)
    EXPECT_EQ(reader.events[probe] + dropped[probe], tried[probe]) << probe;
  EXPECT_EQ(reader.torn, 0u);
  EXPECT_EQ(reader.doubled, 0u);
  EXPECT_FALSE(program.is_wrong());
}

TEST_P(Events, OfThreadsAndTheirSignalHandlersAreReadOrDroppedEachOnce) {
  Recorder program(GetParam());
  interrupted = &program;
  for (auto& one : tried) one = 0;
  struct sigaction before = {}, action = {};
  action.sa_handler = hit_in_handler;
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  Reader reader(program);
  std::vector<std::thread> threads;
  std::atomic<int> running = 4;
  for (uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < 60'000; ++i) {
        hit_any(program, random());
        if (i % 64 == 0) std::this_thread::yield();
      }
      --running;
    });
  for (uint64_t i = 0; running > 0; ++i) {
    for (std::thread& thread : threads) ::pthread_kill(thread.native_handle(), SIGUSR1);
    sleep_ns(50'000);
  }
  for (std::thread& thread : threads) thread.join();
  reader.stop();
  expect_accounts(program, reader);
  ASSERT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
}

// A killed process leaves an event or none, and what others record goes on. In rings that threads
// share, one that was killed in the midst may leave a ring that takes no more.
TEST_P(Events, OfProcessesThatAreKilledAreWholeOrNotThere) {
  Recorder program(GetParam());
  std::mt19937_64 random(11);
  std::set<uint64_t> seen;
  uint64_t numbers = 0;
  for (int round = 0; round < 60; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0)
      for (uint64_t i = 0;; ++i)
        program.hit(2, (uint64_t{1} << 40) * static_cast<uint64_t>(round) + i);
    for (uint64_t until = monotonic_ns() + random() % 3'000'000; monotonic_ns() < until;)
      for (const ledger::Event& event : program.take()) {
        ASSERT_TRUE(is_whole(event));
        ASSERT_TRUE(seen.insert(event.values[0]).second);
      }
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    for (const ledger::Event& event : program.take()) {
      ASSERT_TRUE(is_whole(event));
      ASSERT_TRUE(seen.insert(event.values[0]).second);
    }
    numbers = std::max<uint64_t>(numbers, seen.size());
  }
  // Where the first ones that are killed leave a ring that takes no more, there are few events.
  EXPECT_GT(numbers, GetParam() == Path::rseq ? 1000u : 0u);
  if (GetParam() != Path::rseq) return;
  program.hit(3, 1);
  EXPECT_EQ(program.take().size(), 1u);
}

TEST_P(Events, AreNotRecordedInAChildThatMustNotCount) {
  Recorder program(GetParam());
  layout::RuntimeContext& context = program.context();
  std::fill(std::begin(context.locked_areas), std::end(context.locked_areas), 0);
  std::fill(std::begin(context.cpu_areas), std::end(context.cpu_areas), 0);
  for (uint32_t probe = 0; probe < kProbes; ++probe) program.hit(probe, 1);
  EXPECT_TRUE(program.take().empty());
  EXPECT_EQ(program.dropped(), std::vector<uint64_t>(kProbes));
  EXPECT_FALSE(program.is_wrong());
}

// --- What others have written

// Whatever head and tail say, only the ring is written: no counter, and no other ring.
TEST_P(Events, AreWrittenIntoTheRingWhateverItsPositionsSay) {
  Recorder program(GetParam());
  std::mt19937_64 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::vector<uint64_t> before;
    for (uint64_t area = 0; area < program.areas(); ++area) {
      layout::EventRing& ring = program.ring(area);
      ring.head = random() >> (random() % 64);
      ring.tail = random() % 2 == 0 ? ring.head - random() % 4096 : random();
      before.push_back(ring.tail);
    }
    for (uint32_t probe = 0; probe < kProbes; ++probe) program.hit(probe, 9);
    for (uint64_t area = 0; area < program.areas(); ++area)
      ASSERT_EQ(program.ring(area).tail, before[area]);
    program.take();
  }
  EXPECT_FALSE(program.is_wrong());
}

TEST_P(Events, AreReadAgainOnceWhatIsNoneWasSkipped) {
  Recorder program(GetParam());
  std::mt19937_64 random(3);
  for (int round = 0; round < 500; ++round) {
    for (uint64_t area = 0; area < program.areas(); ++area) {
      layout::EventRing& ring = program.ring(area);
      for (uint64_t i = 0; i < program.capacity() / 8; i += 1 + random() % 64)
        program.words(area)[i] = random() >> (random() % 64);
      ring.head = random() >> (random() % 64);
      ring.tail = random() % 2 == 0 ? ring.head - random() % program.capacity() : random();
    }
    for (const ledger::Event& event : program.take()) {
      EXPECT_LE(event.values.size(), PP_MOST_EVENT_VALUES);
      EXPECT_LT(event.tid, 1u << 24);
    }
    // An event that is never completed holds up those after it.
    for (uint64_t area = 0; area < program.areas(); ++area) {
      std::fill_n(program.words(area), program.capacity() / 8 + layout::kMostEventWords, 0);
      program.ring(area).head = program.ring(area).tail = 0;
    }
    program.hit(2, 5);
    const auto events = program.take();
    ASSERT_EQ(events.size(), 1u) << round;
    EXPECT_TRUE(is_whole(events[0]));
  }
}

// In a ring that threads share, one has taken its place, and was interrupted before it wrote.
TEST(EventsOfSharedRings, WaitForThoseBeforeThemToBeComplete) {
  Recorder program(Path::locked);
  program.hit(3, 1);
  ASSERT_EQ(program.take().size(), 1u);
  uint64_t used = 0;
  while (program.ring(used).head == 0) ++used;
  layout::EventRing& ring = program.ring(used);
  uint64_t* const place = program.words(used) + ring.head / sizeof(uint64_t);
  ring.head += 3 * sizeof(uint64_t);
  program.hit(3, 2);
  EXPECT_TRUE(program.take().empty());
  place[1] = 77;
  place[2] = 42;
  place[0] = 3 | uint64_t{5} << 8;
  const auto events = program.take();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].values[0], 42u);
  EXPECT_EQ(events[0].tid, 5u);
  EXPECT_EQ(events[1].values[0], 2u);
}

INSTANTIATE_TEST_SUITE_P(Paths, Events, kPaths, name_of_path);

}  // namespace
}  // namespace pinprick::runtime
