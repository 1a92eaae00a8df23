#include "engine/calls/calls_in_flight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "arch/stub.h"
#include "base/clock.h"
#include "image/maps.h"

namespace pinprick::engine {
namespace {

using layout::MappingEntry;
using layout::Slot;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr size_t kSlots = 64;
constexpr uint64_t kSlotsSize = kSlots * sizeof(Slot);
constexpr uint64_t kSize = kSlotsSize + layout::kOpenCallsSize + sizeof(layout::RuntimeContext);
static_assert(kSlotsSize % kPageSize == 0);

// A session in our own process, whose slots and entries are written here as its code would write
// them. No code runs.
class Owner {
 public:
  explicit Owner(Address code) : code_(code) {
    layout::SessionCounts counts;
    counts.mappings = 2;
    counts.objects = counts.sites = 1;
    counts.probes = counts.histograms = 2;
    counts.cpus = 1;
    counts.counters = 3;  // so that no metric is at 0
    journal.header = layout::lay_out(counts);
    journal.mappings = {
        {address(), kSize, MappingEntry::Kind::runtime_data, MappingEntry::Progress::mapped},
        {reinterpret_cast<Address>(records), sizeof records, MappingEntry::Kind::stubs,
         MappingEntry::Progress::mapped}};
    journal.objects.resize(1);
    journal.sites.resize(2);
    journal.probes.resize(2);
    for (uint32_t i = 0; i < 2; ++i) {
      journal.sites[i].address = uint64_t{0x1000} * (i + 1);
      journal.probes[i].site = i;
      journal.probes[i].kind = layout::ProbeEntry::Kind::latency;
      records[i].counters = layout::time_counters_offset(journal.header, i);
    }
    context().magic = layout::kContextMagic;
    context().slots = address();
    context().slot_count = context().fresh = kSlots;
    context().open_calls = address() + kSlotsSize;
    slot(0).code = code;
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() { ::munmap(memory_, kSize); }

  Address address() const { return reinterpret_cast<Address>(memory_); }
  Slot& slot(size_t i) { return static_cast<Slot*>(memory_)[i]; }
  layout::OpenCall& entry(size_t i) {
    return reinterpret_cast<layout::OpenCall*>(address() + kSlotsSize)[i];
  }
  layout::RuntimeContext& context() {
    return *reinterpret_cast<layout::RuntimeContext*>(address() + kSlotsSize +
                                                      layout::kOpenCallsSize);
  }
  // The address to which a call of the slot returns.
  Address returns_to(size_t i) const { return code_ + i * arch::kSlotCodeSize + arch::kSlotReturn; }
  // Fills the slot for a call whose return address is `word`, up to the call itself.
  void fill(size_t i, uint64_t& word, size_t probe = 0, uint64_t tsc = 1000) {
    slot(i).stack = reinterpret_cast<Address>(&word);
    slot(i).record = reinterpret_cast<Address>(&records[probe]);
    slot(i).return_address = word;
    slot(i).tsc = tsc;
  }
  void call(size_t i, uint64_t& word, size_t probe = 0, uint64_t tsc = 1000) {
    fill(i, word, probe, tsc);
    word = returns_to(i);
  }
  void open(size_t i, uint64_t& word, size_t probe = 0, uint64_t tsc = 1000) {
    entry(i) = {reinterpret_cast<Address>(&word), records[probe].counters, tsc, word};
  }

  layout::Session journal;
  layout::ProbeRecord records[2] = {};

 private:
  Address code_;
  void* memory_ =
      ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
};

class CallsInFlight : public testing::Test {
 protected:
  std::vector<CallInFlight> look(std::vector<const layout::Session*> sessions = {}) {
    if (sessions.empty()) sessions = {&owner_.journal};
    return look_at_calls(::getpid(), *memory_, *image::read_maps(::getpid()), sessions).calls;
  }
  static std::vector<uint64_t> starts(const std::vector<CallInFlight>& calls) {
    std::vector<uint64_t> all;
    all.reserve(calls.size());
    for (const CallInFlight& call : calls) all.push_back(call.tsc);
    return all;
  }

  Result<target::Memory, SystemError> memory_ = target::Memory::open(::getpid());
  Owner owner_{0x10000};
  std::vector<uint64_t> stack_ = std::vector<uint64_t>(64, 0xca11e0);
};

TEST_F(CallsInFlight, AreThoseWhoseSlotIsOnTheirStack) {
  owner_.call(3, stack_[0], 1, 77);
  owner_.call(4, stack_[1]);
  stack_[1] = 0xdead;  // left by longjmp
  const auto calls = look();
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].site, 0x2000u);
  EXPECT_EQ(calls[0].metric, 1u);
  EXPECT_EQ(calls[0].caller, 0xca11e0u);
  EXPECT_EQ(calls[0].tsc, 77u);
  EXPECT_EQ(calls[0].thread, 0) << "this is no thread's stack";
}

TEST_F(CallsInFlight, WhoseSlotIsStillBeingFilledAreNone) {
  owner_.call(3, stack_[0], 0, 77);
  stack_[0] = 0xca11e0;  // it has returned, and is made again: its start is the old one
  owner_.fill(3, stack_[0], 0, 77);
  EXPECT_THAT(look(), IsEmpty());
}

TEST_F(CallsInFlight, OfSeveralOwnersAndOfTailCallsHaveTheirReturnAddressInOnePlace) {
  Owner other(0x20000);
  owner_.call(3, stack_[0], 0, 10);
  other.call(5, stack_[0], 0, 20);   // the same function
  owner_.call(6, stack_[0], 1, 30);  // it has tail called the other one
  auto calls = look({&owner_.journal, &other.journal});
  EXPECT_THAT(starts(calls), testing::UnorderedElementsAre(10, 20, 30));
  for (const CallInFlight& call : calls) EXPECT_EQ(call.caller, 0xca11e0u);
  other.slot(5).return_address = 0;  // the line is broken there
  EXPECT_THAT(starts(look({&owner_.journal, &other.journal})), ElementsAre(30));
}

TEST_F(CallsInFlight, KeepTheirStartWhenAResetDropsThem) {
  owner_.call(3, stack_[0], 0, 77 | layout::kTscDropped);
  owner_.open(9, stack_[1], 0, 78 | layout::kTscDropped);
  EXPECT_THAT(starts(look()), ElementsAre(77, 78));
}

TEST_F(CallsInFlight, TimedBySledsHaveTheirReturnAddressAndACompleteEntry) {
  owner_.open(0, stack_[0], 0, 10);
  owner_.open(layout::kOpenCalls - 1, stack_[1], 1, 20);
  owner_.open(7, stack_[2], 1, 30);
  stack_[2] = 0xdead;
  owner_.open(8, stack_[3], 0, 40);
  owner_.entry(8).stack |= PP_OPEN_CALL_FILLING;
  owner_.entry(9).stack = PP_OPEN_CALL_FREE;
  EXPECT_THAT(starts(look()), ElementsAre(10, 20));
  // One that another owner times by a slot, in whose place its code lies.
  Owner other(0x20000);
  other.call(5, stack_[1], 1, 25);
  const auto calls = look({&owner_.journal, &other.journal});
  EXPECT_THAT(starts(calls), testing::UnorderedElementsAre(10, 20, 25));
}

TEST_F(CallsInFlight, OnTheStackOfAThreadHaveThatThread) {
  std::atomic<int> tid = 0;
  std::atomic<bool> ends = false;
  uint64_t* word = nullptr;
  std::thread thread([&] {
    uint64_t local = 0xca11e0;
    word = &local;
    tid = ::gettid();
    while (!ends) std::this_thread::yield();
  });
  while (tid == 0) std::this_thread::yield();
  uint64_t own = 0xca11e1;
  owner_.call(1, own, 0, read_tsc());
  owner_.call(2, *word, 1, read_tsc());
  owner_.call(3, stack_[0], 1, 5);  // long before the thread was there, but on no stack of its own
  std::vector<std::pair<Address, pid_t>> threads;
  for (const CallInFlight& call : look()) threads.emplace_back(call.caller, call.thread);
  EXPECT_THAT(threads, testing::UnorderedElementsAre(std::pair(0xca11e1, ::getpid()),
                                                     std::pair(0xca11e0, tid.load()),
                                                     std::pair(0xca11e0, 0)));
  // A later thread has the stack of one that made the call, and has ended.
  owner_.slot(2).tsc = read_tsc() - static_cast<uint64_t>(tsc_frequency());
  EXPECT_EQ(look().size(), 2u);
  ends = true;
  thread.join();
}

TEST_F(CallsInFlight, AreNoneWhereThingsLieElsewhereOrMakeNoSense) {
  owner_.call(3, stack_[0]);
  owner_.open(7, stack_[1]);
  ASSERT_EQ(look().size(), 2u);
  const auto changed = [&](auto& field, uint64_t value) {
    const auto before = field;
    field = static_cast<std::remove_reference_t<decltype(field)>>(value);
    const size_t calls = look().size();
    field = before;
    return calls;
  };
  for (const uint64_t value :
       {uint64_t{0}, uint64_t{1} << 63, ~uint64_t{0}, owner_.address() + 1}) {
    EXPECT_EQ(changed(owner_.slot(3).record, value), 1u) << value;
    EXPECT_EQ(changed(owner_.slot(3).stack, value), 1u) << value;
    EXPECT_EQ(changed(owner_.slot(0).code, value), 1u) << value;
    EXPECT_EQ(changed(owner_.records[0].counters, value), 1u) << value;
    EXPECT_EQ(changed(owner_.entry(7).stack, value), 1u) << value;
    EXPECT_EQ(changed(owner_.entry(7).counters, value), 1u) << value;
    EXPECT_EQ(changed(owner_.context().magic, value), 0u) << value;
    if (value != owner_.address() + 1) {
      EXPECT_EQ(changed(owner_.context().open_calls, value), 1u) << value;
    }
    changed(owner_.context().fresh, value);
    changed(owner_.context().slot_count, value);
    changed(owner_.context().threads, value);
  }
  // A slot that returns to itself.
  owner_.slot(3).return_address = owner_.returns_to(3);
  EXPECT_LE(look().size(), 2u);
}

}  // namespace
}  // namespace pinprick::engine
