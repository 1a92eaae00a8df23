// Events that hits record in this process, as the reader of the session's file finds them.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "ledger/session_file.h"
#include "probed_function.h"
#include "scratch.h"

namespace pinprick::runtime {
namespace {

constexpr uint8_t kRdi = 7;
constexpr uint32_t kProbes = 4;

// What an event tells of a hit: its number, and others that follow from it.
arch::Expression times_and_plus(uint64_t factor, uint64_t more) {
  using arch::Operation, arch::Source;
  return arch::Expression({{.source = {.register_number = kRdi}},
                           {.source = {.instead = Source::Constant{factor}}},
                           {.operation = Operation::multiply, .left = 0, .right = 1},
                           {.source = {.instead = Source::Constant{more}}},
                           {.operation = Operation::add, .left = 2, .right = 3}});
}
uint64_t told(uint64_t number, size_t value) {
  return value == 0 ? number : number * (2 * value + 1) + value;
}

// Functions that return their argument; the event of probe n has as many values as sizes[n].
class Recorder {
 public:
  static constexpr std::array<uint8_t, kProbes> kSizes = {1, 0, PP_MOST_EVENT_VALUES, 4};

  explicit Recorder(Path path, uint32_t log2 = layout::kLeastEventLog2)
      : cpus_(std::max(2u, std::thread::hardware_concurrency())),
        extent_(runtime_extent(1, cpus_)),
        runtime_memory_(extent_.size()),
        stub_memory_(65536) {
    session_.header = layout::lay_out({.sites = 1,
                                       .probes = kProbes,
                                       .name_bytes = 1,
                                       .cpus = path == Path::shared ? 1 : cpus_,
                                       .fraction_bits = 3,
                                       .event_log2 = log2});
    session_.sites.resize(1);
    session_.probes.resize(kProbes);
    session_.names.resize(1);
    auto made = ledger::SessionFile::create(scratch_ / "1-1.session", session_);
    EXPECT_TRUE(made);
    file_.emplace(*std::move(made));
    const layout::FileHeader& header = session_.header;
    size_ = (uint64_t{header.cpu_count} + 1) * header.area_size;
    areas_ =
        static_cast<uint8_t*>(::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED,
                                     file_->descriptor(), static_cast<off_t>(header.areas_offset)));
    EXPECT_NE(areas_, MAP_FAILED);
    RuntimeSpec spec;
    spec.slot_count = spec.capacity = 1;
    spec.cpu_count = cpus_;
    if (path != Path::locked) spec.rseq = own_rseq();
    if (path == Path::shared) spec.area_count = 1;
    spec.ns_multiplier = uint64_t{1} << 32;
    spec.areas = reinterpret_cast<Address>(areas_);
    spec.area_size = header.area_size;
    spec.event_log2 = log2;
    spec.ring = layout::ring_offset(header);
    spec.dropped = layout::dropped_offset(header, 0);
    spec.thread_pointer = thread_pointer_here();
    spec.tid_offset = tid_offset();
    const auto runtime = build_runtime(runtime_memory_.address(), spec);
    EXPECT_TRUE(runtime.has_value());
    for (const Piece& piece : runtime->pieces)
      runtime_memory_.write(piece.address - runtime_memory_.address(), piece.bytes);
    runtime_memory_.seal(extent_.data_size);
    write_stubs(spec, *runtime);
  }
  ~Recorder() { ::munmap(areas_, size_); }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void hit(uint32_t probe, uint64_t number) {
    const uint64_t same = stub_memory_.function<uint64_t(uint64_t)>(entries_[probe])(number);
    if (same != number) wrong_ = true;
  }
  bool is_wrong() const { return wrong_; }
  ledger::Events take() {
    ledger::Events events;
    file_->take_events(session_, events);
    return events;
  }
  std::vector<uint64_t> dropped() const { return file_->read_dropped(session_); }
  layout::EventRing& ring(uint64_t area) {
    const layout::FileHeader& header = session_.header;
    return *reinterpret_cast<layout::EventRing*>(areas_ + area * header.area_size +
                                                 layout::ring_offset(header));
  }
  uint64_t areas() const { return uint64_t{session_.header.cpu_count} + 1; }
  uint64_t capacity() const { return uint64_t{1} << session_.header.event_log2; }
  uint64_t* words(uint64_t area) { return reinterpret_cast<uint64_t*>(&ring(area) + 1); }
  layout::RuntimeContext& context() {
    return *reinterpret_cast<layout::RuntimeContext*>(runtime_memory_.data() + extent_.data_size -
                                                      sizeof(layout::RuntimeContext));
  }

 private:
  static constexpr uint64_t kCode = 49152;
  // mov %rdi, %rax; ret; nop
  static constexpr uint8_t kReturnsArgument[] = {0x48, 0x89, 0xf8, 0xc3, 0x90};

  void write_stubs(const RuntimeSpec& spec, const RuntimeImage& runtime) {
    arch::Assembler code(stub_memory_.address());
    arch::ArenaSpec arena;
    arena.size = stub_memory_.size();
    arena.routines.event = runtime.event;
    arena.locked_areas = locked_areas(spec);
    const auto cpus = cpu_areas(spec);
    arena.cpu_areas = cpus;
    const auto entries = arch::emit_arena_header(code, arena);
    for (uint32_t probe = 0; probe < kProbes; ++probe) {
      arch::RecordEvent event = {probe, {}};
      for (uint64_t i = 0; i < kSizes[probe]; ++i)
        event.values.push_back(i == 0 ? arch::Expression(arch::Source{kRdi})
                                      : times_and_plus(2 * i + 1, i));
      const arch::StubAction records = {.what = event};
      const Address function = stub_memory_.address() + kCode + probe * 64;
      code.align(8, 0xcc);
      const auto stub =
          arch::emit_stub(code, entries, {.actions = {&records, 1}}, {function, kReturnsArgument});
      entries_[probe] = stub.begin - stub_memory_.address();
      stub_memory_.write(kCode + probe * 64, kReturnsArgument);
    }
    const auto bytes = code.finish();
    ASSERT_TRUE(bytes.has_value());
    ASSERT_LT(bytes->size(), kCode);
    stub_memory_.write(0, *bytes);
    stub_memory_.seal();
  }

  Scratch scratch_;
  uint32_t cpus_;
  layout::Session session_;
  std::optional<ledger::SessionFile> file_;
  uint8_t* areas_ = nullptr;
  uint64_t size_ = 0;
  RuntimeExtent extent_;
  ExecutableMemory runtime_memory_;
  ExecutableMemory stub_memory_;
  uint64_t entries_[kProbes] = {};
  std::atomic<bool> wrong_ = false;
};

// Are the values what a hit of the number would tell?
bool is_whole(const ledger::Event& event) {
  if (event.probe >= kProbes || event.values.size() != Recorder::kSizes[event.probe]) return false;
  for (size_t i = 0; i < event.values.size(); ++i)
    if (event.values[i] != told(event.values[0], i)) return false;
  return true;
}

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
