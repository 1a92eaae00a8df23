// Stacks that hits walk in this process, against those that the unwinder of libgcc finds.
#include <execinfo.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "call_with_registers.h"
#include "engine/memory/frame_rules.h"
#include "image/process.h"
#include "runtime/reader.h"

namespace pinprick::engine {
namespace {

using ::testing::ElementsAreArray;
using ::testing::SizeIs;

struct Walked {
  std::vector<uint64_t> frames;
  uint64_t end = 0;     // PP_STACK_COMPLETE and the like; PP_TEXT_OTHER: there is no stack
  int interrupted = 0;  // frames whose instruction is yet to come
};

const image::ProcessImage& own_image() {
  static const auto image =
      image::load_process(::getpid(), [](Address address, std::span<uint8_t> out) {
        std::memcpy(out.data(), reinterpret_cast<const void*>(address), out.size());
        return true;
      });
  return *image;
}

// A function that counts its callers' stacks.
class Walker {
 public:
  explicit Walker(uint8_t frames = PP_MOST_FRAMES, uint32_t text_log2 = 12)
      : rules_(own_image()),
        reader_(arch::Source{.instead = arch::Source::Stack{frames, true}}, text_log2, {},
                rules_.room()) {
    rules_.place(reader_.unwind(), reader_.address_of(&reader_.context().unwind));
    write_rules();
  }
  // Returns whether its objects are others than before.
  bool admit(const image::ProcessImage& image) {
    const bool is_new = rules_.update(image);
    if (is_new) write_rules();
    return is_new;
  }

  // A member function that calls it would have a frame of its own.
  using Function = void (*)();
  Function function() { return reinterpret_cast<Function>(reader_.entry()); }
  runtime::Reader& reader() { return reader_; }

  std::vector<uint64_t> numbers() const {
    std::vector<uint64_t> all;
    for (const auto& [number, n] : reader_.counts()) all.push_back(number);
    return all;
  }
  // Returns the only stack that was counted since the last call.
  Walked take() {
    const auto all = numbers();
    EXPECT_THAT(all, SizeIs(1));
    reader_.forget();
    return all.size() == 1 ? walked(all.front()) : Walked();
  }
  Walked walked(uint64_t number) const {
    Walked walked;
    while (number != 0 && number < static_cast<uint64_t>(PP_STACK_OUTSIDE)) {
      const layout::TextEntry& entry = reader_.entries()[number - 1];
      uint64_t words[PP_STACK_PIECE + 1];
      std::memcpy(words, entry.text, sizeof words);
      const uint64_t count = entry.length - PP_TEXT_STACK;
      EXPECT_LE(count, uint64_t{PP_STACK_PIECE});
      walked.frames.insert(walked.frames.end(), words, words + count);
      number = words[PP_STACK_PIECE];
    }
    walked.end = number;
    constexpr uint64_t kIsNext = uint64_t{1} << PP_FRAME_IS_NEXT_BIT;
    for (uint64_t& frame : walked.frames) {
      if ((frame & kIsNext) != 0) ++walked.interrupted;
      frame &= ~kIsNext;
    }
    return walked;
  }

 private:
  void write_rules() {
    for (const runtime::Piece& piece : rules_.pieces())
      std::memcpy(reinterpret_cast<void*>(piece.address), piece.bytes.data(), piece.bytes.size());
  }

  FrameRules rules_;
  runtime::Reader reader_;
};

Walker& walker() {
  static Walker one;
  return one;
}

// Returns the frames that the unwinder finds, from the caller of this function on.
[[gnu::noinline]] std::vector<uint64_t> unwound() {
  std::array<void*, 200> frames{};
  const int count = ::backtrace(frames.data(), frames.size());
  std::vector<uint64_t> all;
  for (int i = 1; i < count; ++i) all.push_back(reinterpret_cast<uint64_t>(frames[i]));
  return all;
}

// Hits the walker from a frame of its own, whose two calls have different addresses.
void expect_same(const std::vector<uint64_t>& unwound, const Walked& walked) {
  ASSERT_GE(unwound.size(), 2u);
  ASSERT_FALSE(walked.frames.empty());
  EXPECT_LT(unwound.front() - walked.frames.front(), 64u);  // the next call
  std::vector<uint64_t> expected(unwound.begin() + 1, unwound.end());
  std::vector<uint64_t> found(walked.frames.begin() + 1, walked.frames.end());
  if (expected.size() >= PP_MOST_FRAMES) expected.resize(PP_MOST_FRAMES - 1);
  EXPECT_THAT(found, ElementsAreArray(expected));
  EXPECT_EQ(walked.end,
            static_cast<uint64_t>(expected.size() + 1 == PP_MOST_FRAMES ? PP_STACK_CUT
                                                                        : PP_STACK_COMPLETE));
}

volatile int sink = 0;

[[gnu::noinline]] void look() {
  walker().function()();
  const auto expected = unwound();
  expect_same(expected, walker().take());
  sink = sink + 1;
}

[[gnu::noinline]] void descend(int depth) {
  if (depth == 0)
    look();
  else
    descend(depth - 1);
  sink = sink + 1;
}

TEST(Stacks, AreThoseThatTheUnwinderFinds) {
  look();
  for (const int depth : {1, 5, 6, 7, 8, 20}) descend(depth);
}

TEST(Stacks, AreCutAfterAsManyFramesAsThereCanBe) {
  descend(150);
}

TEST(Stacks, HaveAsManyFramesAsWereAskedFor) {
  Walker three(3);
  three.function()();
  const Walked walked = three.take();
  EXPECT_THAT(walked.frames, SizeIs(3));
  EXPECT_EQ(walked.end, static_cast<uint64_t>(PP_STACK_CUT));
}

// Its frame has no fixed size, so that it is found by rbp.
[[gnu::noinline]] void with_room_for(size_t bytes) {
  auto* const room = static_cast<volatile char*>(__builtin_alloca(bytes));
  room[0] = 1;
  look();
  sink = sink + room[0];
}

// Its stack is aligned, so that the frame is found by a word in memory.
[[gnu::noinline]] void aligned(int depth) {
  alignas(128) volatile char room[128] = {};
  room[3] = 1;
  if (depth == 0)
    look();
  else
    aligned(depth - 1);
  sink = sink + room[3];
}
[[gnu::noinline]] void aligned_with_room_for(size_t bytes) {
  alignas(64) volatile char room[64] = {};
  auto* const more = static_cast<volatile char*>(__builtin_alloca(bytes));
  more[0] = room[0];
  look();
  sink = sink + more[0];
}

TEST(Stacks, GoThroughFramesOfAnySize) {
  for (const size_t bytes : {16, 1000, 5000, 40'000, 300'000}) with_room_for(bytes);
  aligned(0);
  aligned(3);
  aligned_with_room_for(100);
  aligned_with_room_for(20'000);
}

TEST(Stacks, GoThroughLibraries) {
  int numbers[] = {3, 1, 2};
  std::qsort(numbers, 3, sizeof(int), [](const void* a, const void* b) {
    look();
    return *static_cast<const int*>(a) - *static_cast<const int*>(b);
  });
}

TEST(Stacks, EndWhereTheirThreadStarted) {
  std::thread([] { descend(4); }).join();
}

TEST(Stacks, GoThroughTheFrameOfASignal) {
  struct sigaction action = {}, before = {};
  action.sa_handler = [](int) { descend(2); };
  sigaction(SIGUSR1, &action, &before);
  raise(SIGUSR1);
  sigaction(SIGUSR1, &before, nullptr);
}

// The handler runs on another stack, and knows nothing of the interrupted one.
TEST(Stacks, OfAHandlerOnAnotherStackEndWithWhatItInterrupted) {
  static std::vector<uint8_t> memory(1 << 16);
  stack_t stack = {.ss_sp = memory.data(), .ss_flags = 0, .ss_size = memory.size()}, old = {};
  sigaltstack(&stack, &old);
  struct sigaction action = {}, before = {};
  action.sa_handler = [](int) { walker().function()(); };
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &action, &before);
  raise(SIGUSR1);
  sigaction(SIGUSR1, &before, nullptr);
  sigaltstack(&old, nullptr);
  const Walked walked = walker().take();
  EXPECT_EQ(walked.interrupted, 1);
  EXPECT_GE(walked.frames.size(), 2u);
  EXPECT_LE(walked.frames.size(), 40u);
}

TEST(Stacks, HaveOneNumberAndShareWhatTheyHaveInCommon) {
  Walker own;
  for (int i = 0; i < 3; ++i) own.function()();
  const auto first = own.numbers();
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_EQ(own.reader().counts().at(first.front()), 3u);
  const uint64_t parts = own.reader().entries_taken();
  own.function()();
  EXPECT_THAT(own.numbers(), SizeIs(2));
  EXPECT_LE(own.reader().entries_taken(), parts + 2);
}

TEST(Stacks, WithoutRulesHaveTheirCallerAndSayThatMoreIsUnknown) {
  Walker own;
  own.reader().context().unwind = 0;
  own.function()();
  const Walked walked = own.take();
  EXPECT_THAT(walked.frames, SizeIs(1));
  EXPECT_EQ(walked.end, static_cast<uint64_t>(PP_STACK_UNKNOWN));
}

[[gnu::noinline]] Walked stack_from_here(Walker& own) {
  own.function()();
  return own.take();
}

TEST(Stacks, AreWalkedByTheRulesOfTheObjectsThatAreThere) {
  Walker own;
  Walked before, without, after;
  for (Walked* const walked : {&before, &without, &after}) {
    const bool is_another =
        walked == &before || (walked == &without ? own.admit({}) : own.admit(own_image()));
    EXPECT_TRUE(is_another);
    *walked = stack_from_here(own);
  }
  EXPECT_FALSE(own.admit(own_image()));
  EXPECT_EQ(before.end, static_cast<uint64_t>(PP_STACK_COMPLETE));
  EXPECT_EQ(without.end, static_cast<uint64_t>(PP_STACK_UNKNOWN));
  EXPECT_THAT(without.frames, SizeIs(1));
  EXPECT_EQ(after.frames, before.frames);
  EXPECT_EQ(after.end, before.end);
}

TEST(Stacks, WithoutSystemCallsEndWithTheirPage) {
  Walker own;
  own.reader().context().reads = 0;
  [[maybe_unused]] volatile char room[3 * kPageSize] = {};
  room[0] = 1;
  own.function()();
  const Walked walked = own.take();
  EXPECT_LE(walked.frames.size(), 2u);
  EXPECT_EQ(walked.end, static_cast<uint64_t>(PP_STACK_OUTSIDE));
  EXPECT_EQ(own.reader().context().readers, 0u);
}

[[gnu::noinline]] void descend_in(Walker& own, int depth) {
  if (depth == 0)
    own.function()();
  else
    descend_in(own, depth - 1);
  sink = sink + 1;
}

TEST(Stacks, ForWhichTheTableHasNoRoomAreCountedTogether) {
  Walker own(PP_MOST_FRAMES, 3);
  for (int depth = 0; depth < 40; ++depth) descend_in(own, depth);
  EXPECT_GE(own.reader().counts()[static_cast<uint64_t>(PP_TEXT_OTHER)], 30u);
  uint64_t all = 0;
  for (const auto& [number, n] : own.reader().counts()) all += n;
  EXPECT_EQ(all, 40u);
}

TEST(Stacks, LeaveRegistersAndFlagsAsTheyWere) {
  const auto function = reinterpret_cast<uint64_t (*)(uint64_t)>(walker().function());
  EXPECT_EQ(function(7), 7u);
  walker().reader().forget();
  // The function itself returns its argument in rax.
  for (const uint64_t flags : kFlagsToPreserve) {
    CallRegisters registers;
    auto* const words = reinterpret_cast<uint64_t*>(&registers);
    for (uint64_t i = 0; i < 15; ++i) words[i] = 0x1111'2222'3333'0000 + i;
    registers.flags = flags | 2;
    CallRegisters expected = registers;
    expected.rax = expected.rdi;
    call_with_registers(reinterpret_cast<void*>(function), &registers);
    registers.flags &= kArithmeticFlags;
    expected.flags = flags;
    EXPECT_EQ(std::memcmp(&registers, &expected, sizeof registers), 0);
  }
  walker().reader().forget();
}

// A stack of its own, with nothing after it.
class OtherStack {
 public:
  static constexpr size_t kPages = 4;
  OtherStack() {
    memory_ = static_cast<uint8_t*>(
        mmap(nullptr, (kPages + 2) * kPageSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(memory_ + kPageSize, kPages * kPageSize, PROT_READ | PROT_WRITE);
  }
  OtherStack(const OtherStack&) = delete;
  OtherStack& operator=(const OtherStack&) = delete;
  ~OtherStack() { munmap(memory_, (kPages + 2) * kPageSize); }
  uint64_t* words() { return reinterpret_cast<uint64_t*>(memory_ + kPageSize); }
  static constexpr size_t kWords = kPages * kPageSize / sizeof(uint64_t);

 private:
  uint8_t* memory_ = nullptr;
};

// Calls a function on another stack, with that rbp.
__attribute__((noinline)) void call_on(uint64_t* stack, uint64_t rbp, void (*function)()) {
  asm volatile(
      "pushq %%rbp\n\t"
      "movq %%rsp, %%rbx\n\t"
      "movq %[stack], %%rsp\n\t"
      "movq %[rbp], %%rbp\n\t"
      "call *%[function]\n\t"
      "movq %%rbx, %%rsp\n\t"
      "popq %%rbp\n\t"
      :
      : [stack] "r"(stack), [rbp] "r"(rbp), [function] "r"(function)
      : "rbx", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");
}

// Rules may be wrong, and stacks hold anything. Nothing outside the stack is read: there a thread
// would end. Some walks get to the end of the stack, so this would be seen.
TEST(Stacks, OfWrongRulesNeverLeadOutOfTheStack) {
  constexpr size_t kRows = 4096;
  Walker own;
  OtherStack stack;
  std::mt19937_64 random(20261129);
  const Range code = {uint64_t{1} << 40, (uint64_t{1} << 40) + kRows};
  struct List {
    layout::UnwindList list = {2};
    layout::UnwindObject objects[2];
  } list;
  std::vector<layout::FrameRow> rows(kRows);
  list.objects[0] = {code.begin, code.size(), reinterpret_cast<uint64_t>(rows.data()), kRows};
  // From the frame of the function that calls, to the words above.
  const layout::FrameRow calling = {0, PP_FRAME_NORMAL | 1 << PP_FRAME_SIZE_SHIFT};
  list.objects[1] = {reinterpret_cast<uint64_t>(&call_on), 256,
                     reinterpret_cast<uint64_t>(&calling), 1};
  own.reader().context().unwind = reinterpret_cast<uint64_t>(&list);
  const auto any_rule = [&]() -> uint32_t {
    const auto bits = static_cast<uint32_t>(random());
    switch (random() % 24) {
      case 0:
        return PP_FRAME_LOADED | (bits & ~7u);
      case 1:
        return PP_FRAME_SIGNAL;
      case 2:
        return PP_FRAME_PLT | (bits & 0x7ff0);
      case 3:
        return PP_FRAME_NORMAL | (bits & ~7u);
      default:  // frames of a usual size
        return PP_FRAME_NORMAL | (bits & 0x18) | static_cast<uint32_t>(random() % 64 + 1) << 11 |
               (random() % 4 == 0 ? static_cast<uint32_t>(random() % 64 + 2) << 4 : 0);
    }
  };
  uint64_t* const words = stack.words();
  const auto begin = reinterpret_cast<uint64_t>(words);
  const uint64_t end = begin + sizeof(uint64_t) * OtherStack::kWords;
  const auto any_word = [&]() -> uint64_t {
    switch (random() % 24) {
      case 0:
        return begin + random() % (end - begin + 64);
      case 1:
        return end - random() % 64;
      case 2:
        return random();
      default:
        return code.begin + random() % kRows;
    }
  };
  uint64_t long_walks = 0;
  for (int round = 0; round < 20'000; ++round) {
    if (round % 100 == 0) {
      // As if there were another list: what was kept of the old rules is not taken.
      own.reader().context().unwind_generation += uint64_t{1} << PP_GENERATION_SHIFT;
      for (size_t i = 0; i < kRows; ++i) rows[i] = {static_cast<uint32_t>(i), any_rule()};
      for (size_t i = 0; i < OtherStack::kWords; ++i) words[i] = any_word();
    }
    const size_t top = 256 + random() % (OtherStack::kWords - 256);
    call_on(words + top, any_word(), own.function());
    if (round % 200 == 199) {
      for (const uint64_t number : own.numbers())
        if (number < uint64_t{1} << 32 && own.walked(number).frames.size() > 5) ++long_walks;
      own.reader().forget();
      own.reader().forget_texts();
    }
  }
  EXPECT_GT(long_walks, 100u);
}

}  // namespace
}  // namespace pinprick::engine
