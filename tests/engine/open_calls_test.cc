// Which calls that are timed by sleds are in flight, and which were left: in this process's own
// memory, which stands for that of a target.
#include "engine/calls/open_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "arch/native.h"

namespace pinprick::engine {
namespace {

using testing::ElementsAre;

constexpr size_t kSize = layout::kOpenCallsSize + sizeof(layout::RuntimeContext);

class OpenCalls : public testing::Test {
 protected:
  OpenCalls() {
    table_ = static_cast<layout::OpenCall*>(
        ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    context().magic = layout::kContextMagic;
    context().open_calls = reinterpret_cast<Address>(table_);
    journal_.header.histogram_count = 2;
  }
  ~OpenCalls() override { ::munmap(table_, kSize); }

  layout::RuntimeContext& context() {
    return *reinterpret_cast<layout::RuntimeContext*>(reinterpret_cast<uint8_t*>(table_) +
                                                      layout::kOpenCallsSize);
  }
  layout::MappingEntry mapping() const {
    return {reinterpret_cast<Address>(table_), kSize, layout::MappingEntry::Kind::runtime_data,
            layout::MappingEntry::Progress::mapped};
  }
  // A call of the function with that histogram, whose return address is `word`.
  void open(size_t entry, uint64_t histogram, const uint64_t& word) {
    table_[entry] = {
        reinterpret_cast<Address>(&word),
        layout::time_counters_offset(journal_.header, 0) + histogram * sizeof(layout::TimeCounters),
        1, word};
  }
  void take(OpenCallCount& count, std::vector<target::StoppedThread> threads = {},
            std::vector<Range> of_others = {}) {
    const std::vector<Range> code = {{0x7000, 0x8000}};
    count.take(*memory_, threads, code, of_others, open_calls(*memory_, mapping()), {});
  }
  size_t in_table() const { return open_calls(*memory_, mapping()).size(); }

  Result<target::Memory, SystemError> memory_ = target::Memory::open(::getpid());
  layout::OpenCall* table_ = nullptr;
  layout::Session journal_;
  uint64_t stack_[256] = {};
};

TEST_F(OpenCalls, AreInFlightAsLongAsTheirReturnAddressIsWhereItWas) {
  stack_[0] = 0xca11e0;
  stack_[1] = 0xca11e1;
  stack_[2] = 0xca11e2;
  open(7, 0, stack_[0]);
  open(layout::kOpenCalls - 1, 1, stack_[1]);
  open(3, 1, stack_[2]);
  table_[4].stack = PP_OPEN_CALL_FREE;
  stack_[1] = 0xdead;  // longjmp, and another call
  EXPECT_EQ(in_table(), 3u);
  OpenCallCount count(journal_);
  take(count);
  EXPECT_EQ(count.in_flight(), 2u);
  EXPECT_THAT(count.left(), ElementsAre(0, 1));
  EXPECT_EQ(in_table(), 0u) << "each is counted once";
}

TEST_F(OpenCalls, ThatHaveReturnedByTheSecondLookWereInFlight) {
  OpenCallCount count(journal_);
  take(count);
  stack_[0] = 0xca11e0;
  open(7, 0, stack_[0]);
  stack_[0] = 0;
  take(count);
  EXPECT_EQ(count.in_flight(), 1u);
  EXPECT_THAT(count.left(), ElementsAre(0, 0));
}

TEST_F(OpenCalls, OfAThreadInOurCodeAreLeftToIt) {
  stack_[10] = 0xca11e0;
  stack_[200] = 0xca11e1;  // a caller of it
  open(7, 0, stack_[10]);
  open(8, 0, stack_[200]);
  target::StoppedThread thread;
  arch::set_instruction_pointer(thread.registers, 0x7010);
  thread.registers.rsp = reinterpret_cast<Address>(&stack_[2]);
  OpenCallCount count(journal_);
  take(count, {thread});
  EXPECT_EQ(count.in_flight(), 1u);
  EXPECT_EQ(in_table(), 1u);
  take(count);  // the thread has entered the call, and gone
  EXPECT_EQ(count.in_flight(), 2u);
}

TEST_F(OpenCalls, ThatAnotherSessionTimesByASlotAreInFlight) {
  stack_[0] = 0xca11e0;
  open(7, 0, stack_[0]);
  stack_[0] = 0x9010;
  OpenCallCount count(journal_);
  take(count, {}, {{0x9000, 0xa000}});
  EXPECT_EQ(count.in_flight(), 1u);
}

TEST_F(OpenCalls, AreDroppedByAReset) {
  stack_[0] = 0xca11e0;
  open(7, 0, stack_[0]);
  const uint64_t start = table_[7].tsc;
  ASSERT_NE(start, 0u);
  drop_open_calls(*memory_, mapping());
  EXPECT_EQ(table_[7].tsc, start | layout::kTscDropped);
  EXPECT_EQ(table_[8].tsc, 0u);
}

TEST_F(OpenCalls, AreNoneWhereTheTableWouldLieElsewhere) {
  open(7, 0, stack_[0]);
  const Address begin = context().open_calls;
  for (const Address at : {Address{0}, begin - 8, begin + 8, begin + kSize, ~Address{0}}) {
    context().open_calls = at;
    EXPECT_EQ(in_table(), 0u) << at;
  }
}

TEST_F(OpenCalls, OfAHistogramThatThereIsNotAreNotCountedAsLeft) {
  stack_[0] = 0xca11e0;
  open(7, 2, stack_[0]);
  open(8, 0, stack_[0]);
  table_[8].counters -= sizeof(layout::TimeCounters);
  stack_[0] = 0;
  OpenCallCount count(journal_);
  take(count);
  EXPECT_THAT(count.left(), ElementsAre(0, 0));
}

}  // namespace
}  // namespace pinprick::engine
