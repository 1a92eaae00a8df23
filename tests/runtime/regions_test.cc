// What hits read without the kernel, in this process, while it unmaps the memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <csignal>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "executable_memory.h"
#include "own_thread.h"
#include "reader.h"

namespace pinprick::runtime {
namespace {

using arch::Expression;
using arch::Operation;

constexpr uint8_t kRdi = 7;

Expression load(uint8_t bytes) {
  return Expression(
      {{.source = {.register_number = kRdi}},
       {.operation = Operation::load, .is_signed = false, .bytes = bytes, .left = 0}});
}
Expression text() {
  return Expression({{.source = {.register_number = kRdi}},
                     {.operation = Operation::text, .bytes = PP_MOST_TEXT, .left = 0}});
}

// Makes system calls as syscall(2) does, with the hook before each.
class HookedCalls {
 public:
  explicit HookedCalls(layout::Regions& regions) : memory_(16384) {
    arch::Assembler code(memory_.address());
    const arch::CallRoutine hook = {.routine = before_call_code(),
                                    .argument = reinterpret_cast<Address>(&regions)};
    const arch::StubAction before = {.stack = arch::StackUse::keep_red_zone, .what = hook};
    const auto stub = arch::emit_stub(code, {}, {.actions = {&before, 1}},
                                      {memory_.address() + kCall, kCallAndReturn});
    memory_.write(0, *code.finish());
    // mov %rdi,%rax; mov %rsi,%rdi; mov %rdx,%rsi; mov %rcx,%rdx; mov %r8,%r10; mov %r9,%r8
    const std::vector<uint8_t> arguments = {0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0x48, 0x89, 0xd6,
                                            0x48, 0x89, 0xca, 0x4d, 0x89, 0xc2, 0x4d, 0x89, 0xc8};
    arch::Assembler start(memory_.address() + kStart);
    start.raw(arguments);
    start.jmp(stub.begin);
    memory_.write(kStart, *start.finish());
    memory_.write(kCall, kCallAndReturn);
    memory_.seal();
  }
  long operator()(long number, uint64_t first = 0, uint64_t second = 0, uint64_t third = 0,
                  uint64_t fourth = 0, uint64_t fifth = 0) {
    return memory_.function<long(long, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t)>(kStart)(
        number, first, second, third, fourth, fifth);
  }

 private:
  static constexpr uint64_t kStart = 8192, kCall = 12288;
  static constexpr uint8_t kCallAndReturn[] = {0x0f, 0x05, 0xc3, 0x90, 0x90};
  ExecutableMemory memory_;
};

// Does what the controller does, while no thread reads.
void admit(layout::Regions& regions, const std::vector<Range>& ranges) {
  const size_t used = std::bit_ceil(ranges.size() + 1);
  for (size_t i = 1; i < used; ++i) {
    regions.list[i] = i <= ranges.size() ? layout::Region{ranges[i - 1].begin, ranges[i - 1].size()}
                                         : layout::Region{UINT64_MAX, 0};
    regions.admitted[i] = regions.list[i].length;
  }
  regions.bytes = used * sizeof(layout::Region);
}

class Regions : public testing::Test {
 protected:
  void SetUp() override {
    if (!own_rseq()) GTEST_SKIP() << "this libc does not register rseq";
  }
  static char* map(size_t pages) {
    return static_cast<char*>(::mmap(nullptr, pages * kPageSize, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  static Address address(const void* pointer) { return reinterpret_cast<Address>(pointer); }
  static Range range(const char* at, size_t pages) {
    return {address(at), address(at) + pages * kPageSize};
  }
};

TEST_F(Regions, AreReadWithoutTheKernelAndGiveTheSame) {
  char* const page = map(2);
  for (size_t i = 0; i < 2 * kPageSize; ++i) page[i] = static_cast<char>(0x80 + i % 101);
  std::mt19937_64 random(7);
  for (const uint8_t bytes : std::array<uint8_t, 4>{1, 2, 4, 8}) {
    Reader numbers(load(bytes), 12, {}, 0, own_rseq());
    admit(numbers.regions(), {range(page, 1)});
    std::map<uint64_t, uint64_t> wanted;
    for (int i = 0; i < 1000; ++i) {
      const char* const at = page + random() % (kPageSize - 7);
      uint64_t value = 0;
      std::memcpy(&value, at, bytes);
      ++wanted[value];
      numbers.hit(at);
    }
    EXPECT_EQ(numbers.counts(), wanted) << int{bytes};
    EXPECT_EQ(numbers.context().slow_reads, 0u);
    for (int i = 1; i < 8; ++i) numbers.hit(page + kPageSize - i);
    EXPECT_EQ(numbers.context().slow_reads, bytes - 1u) << "across the end of a region";
    EXPECT_EQ(numbers.unread(), 0u);
  }
}

TEST_F(Regions, GiveTextsUpToTheirEndAndAcrossTheirOwn) {
  char* const page = map(2);
  Reader texts(text(), 12, {}, 0, own_rseq());
  admit(texts.regions(), {range(page, 1)});
  std::map<std::string, uint64_t> wanted;
  for (size_t length = 0; length <= PP_MOST_TEXT + 8; ++length)
    for (size_t at = 0; at < 9; ++at) {
      const std::string one(length, static_cast<char>('a' + length % 26));
      std::memcpy(page + at, one.c_str(), length + 1);
      texts.hit(page + at);
      ++wanted[length <= PP_MOST_TEXT ? one : one.substr(0, PP_MOST_TEXT) + "..."];
    }
  EXPECT_EQ(texts.context().slow_reads, 0u);
  const std::string last = "last";
  std::memcpy(page + kPageSize - last.size() - 1, last.c_str(), last.size() + 1);
  texts.hit(page + kPageSize - last.size() - 1);
  ++wanted[last];
  EXPECT_EQ(texts.context().slow_reads, 0u) << "it ends with the region";
  std::memcpy(page + kPageSize - 2, "over", 5);
  texts.hit(page + kPageSize - 2);
  ++wanted["over"];
  EXPECT_EQ(texts.context().slow_reads, 1u) << "it goes on after it";
  EXPECT_EQ(texts.counts_by_text(), wanted);
}

TEST_F(Regions, AreFoundAmongAsManyAsThereMayBe) {
  constexpr size_t kMany = PP_MOST_REGIONS - 1;
  char* const pages = map(2 * kMany);
  std::vector<Range> ranges;
  for (size_t i = 0; i < kMany; ++i) {
    std::memcpy(pages + 2 * i * kPageSize, &i, sizeof i);
    ranges.push_back(range(pages + 2 * i * kPageSize, 1));
  }
  Reader numbers(load(8), 12, {}, 0, own_rseq());
  admit(numbers.regions(), ranges);
  std::map<uint64_t, uint64_t> wanted;
  for (size_t i = 0; i < kMany; i += 41) {
    numbers.hit(pages + 2 * i * kPageSize);
    ++wanted[i];
  }
  EXPECT_EQ(numbers.context().slow_reads, 0u);
  EXPECT_EQ(numbers.counts(), wanted);
  numbers.hit(pages + kPageSize);
  EXPECT_EQ(numbers.context().slow_reads, 1u) << "between two";
  numbers.hit(nullptr);
  EXPECT_EQ(numbers.unread(), 1u);
}

// After each of these calls, the addresses that it takes away are none of the region any more.
TEST_F(Regions, LoseWhatACallTakesAway) {
  constexpr uint64_t kGuard = 102, kProcessMadvise = 440, kPkeyMprotect = 329;
  constexpr uint64_t kPage = kPageSize;
  struct Call {
    long number;
    std::array<uint64_t, 5>
        arguments;  // besides the address of the fourth of eight pages, that comes first
    uint64_t pages_left;
  };
  const Call calls[] = {
      {SYS_munmap, {2 * kPage}, 3},
      {SYS_munmap, {1}, 3},
      {SYS_mprotect, {kPage, PROT_NONE}, 3},
      {SYS_mprotect, {kPage, PROT_READ}, 8},
      {SYS_mprotect, {kPage, PROT_READ | PROT_EXEC}, 0},
      {static_cast<long>(kPkeyMprotect), {kPage, PROT_READ | PROT_EXEC, UINT64_MAX}, 0},
      {SYS_mmap, {kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE, UINT64_MAX}, 0},
      {static_cast<long>(kPkeyMprotect), {kPage, PROT_READ, UINT64_MAX}, 3},
      {SYS_madvise, {kPage, MADV_DONTNEED}, 8},
      {SYS_madvise, {kPage, MADV_REMOVE}, 3},
      {SYS_madvise, {kPage, kGuard}, 3},
      {SYS_mmap, {kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, UINT64_MAX}, 8},
      {SYS_mmap, {kPage, PROT_READ, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, UINT64_MAX}, 3},
      {SYS_mmap, {kPage, PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, UINT64_MAX}, 0},
      {SYS_mremap, {kPage, 2 * kPage, MREMAP_MAYMOVE}, 3},
      {SYS_getpid, {}, 8},
      {SYS_munmap, {UINT64_MAX}, 3},
      {static_cast<long>(kProcessMadvise), {0, 0, kGuard, 0}, 0},
  };
  Reader numbers(load(8), 12, {}, 0, own_rseq());
  HookedCalls hooked(numbers.regions());
  for (const Call& call : calls) {
    char* const pages = map(8);
    admit(numbers.regions(), {range(pages, 8)});
    numbers.hit(pages);  // the thread is known, and waited for
    const auto& more = call.arguments;
    const bool ends_elsewhere = call.number == static_cast<long>(kProcessMadvise);
    hooked(call.number, ends_elsewhere ? UINT64_MAX : address(pages) + 3 * kPage, more[0], more[1],
           more[2], more[3]);
    EXPECT_EQ(numbers.regions().list[1].length, call.pages_left * kPage) << call.number;
    EXPECT_EQ(numbers.regions().admitted[1], call.pages_left * kPage) << call.number;
    ::munmap(pages, 8 * kPage);
  }
}

TEST_F(Regions, LoseTheEndOfTheHeapOnly) {
  Reader numbers(load(8), 12, {}, 0, own_rseq());
  layout::Regions& regions = numbers.regions();
  HookedCalls hooked(regions);
  const Address heap = 0x10000;  // nothing is there: only what the hook does is looked at
  regions.heap_begin = heap;
  regions.heap_end = heap + 8 * kPageSize;
  const std::vector<Range> both = {{heap, regions.heap_end},
                                   {regions.heap_end, regions.heap_end + kPageSize}};
  admit(regions, both);
  hooked(SYS_brk, 0);
  EXPECT_EQ(regions.list[1].length, 8 * kPageSize) << "it only asks";
  hooked(SYS_brk, heap + 5 * kPageSize);
  EXPECT_EQ(regions.list[1].length, 5 * kPageSize);
  EXPECT_EQ(regions.list[2].length, kPageSize) << "what follows is no heap";
}

TEST_F(Regions, LoseBothPlacesOfAMoveToAFixedOne) {
  Reader numbers(load(8), 12, {}, 0, own_rseq());
  HookedCalls hooked(numbers.regions());
  char *const from = map(4), *const to = map(4);
  std::vector<Range> both = {range(from, 4), range(to, 4)};
  if (to < from) std::swap(both[0], both[1]);
  admit(numbers.regions(), both);
  EXPECT_EQ(hooked(SYS_mremap, address(from), kPageSize, kPageSize, MREMAP_MAYMOVE | MREMAP_FIXED,
                   address(to)),
            static_cast<long>(address(to)));
  EXPECT_EQ(numbers.regions().list[1].length, 0u);
  EXPECT_EQ(numbers.regions().list[2].length, 0u);
}

// Threads that read anywhere in some pages, while another one unmaps these, one by one. The pages
// of `fresh` were never touched, so the kernel gets them while they are read.
class Storm {
 public:
  enum class Pages : bool { filled, fresh };
  enum class Hook : bool { none, before_each };
  explicit Storm(Pages pages)
      : reader_(load(8), 12, {}, 0, own_rseq()), hooked_(reader_.regions()), kind_(pages) {
    pages_ = static_cast<char*>(
        ::mmap(nullptr, kPages * kPageSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (size_t i = 0; i < kPages; ++i) {
      const Address begin = reinterpret_cast<Address>(pages_) + i * kPageSize;
      each_.push_back({begin, begin + kPageSize});
    }
  }
  void run(Hook hook, uint64_t ns) {
    map_all();
    std::vector<std::thread> threads;
    std::atomic<bool> stop = false;
    for (uint64_t seed = 1; seed <= 3; ++seed)
      threads.emplace_back([&, seed] { read(seed, stop); });
    std::mt19937_64 random(99);
    for (const uint64_t end = monotonic_ns() + ns; monotonic_ns() < end;) {
      for (size_t i = 0; i < kPages; ++i) {
        const Address at = each_[random() % kPages].begin;
        if (hook == Hook::before_each)
          hooked_(SYS_munmap, at, kPageSize);
        else
          ::munmap(reinterpret_cast<void*>(at), kPageSize);
      }
      map_all();
    }
    stop = true;
    for (auto& thread : threads) thread.join();
  }
  uint64_t hits() const { return hits_; }
  const Reader& reader() const { return reader_; }
  uint64_t read_by_kernel() { return reader_.context().slow_reads; }

 private:
  static constexpr size_t kPages = 8;

  // The controller does the same, and no thread reads during it.
  void map_all() {
    maps_ = true;
    while (readers_ != 0) std::this_thread::yield();
    for (const Range page : each_) {
      auto* const at = reinterpret_cast<void*>(page.begin);
      ::mmap(at, kPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      if (kind_ == Pages::filled) std::memset(at, 0x5a, kPageSize);
    }
    admit(reader_.regions(), each_);
    maps_ = false;
  }
  void read(uint64_t seed, const std::atomic<bool>& stop) {
    std::mt19937_64 random(seed);
    while (!stop) {
      ++readers_;
      if (maps_) {
        --readers_;
        std::this_thread::yield();
        continue;
      }
      for (int i = 0; i < 64; ++i)
        reader_.hit(pages_ + random() % (kPages * kPageSize - 8) / 8 * 8);
      --readers_;
      hits_ += 64;
    }
  }

  Reader reader_;
  HookedCalls hooked_;
  Pages kind_;
  char* pages_;
  std::vector<Range> each_;
  std::atomic<bool> maps_ = false;
  std::atomic<int> readers_ = 0;
  std::atomic<uint64_t> hits_ = 0;
};

TEST_F(Regions, AreNeverReadWhenTheyAreGone) {
  for (const auto pages : {Storm::Pages::filled, Storm::Pages::fresh}) {
    Storm storm(pages);
    storm.run(Storm::Hook::before_each, 1'500'000'000);
    const auto counts = storm.reader().counts();
    const uint64_t wanted = pages == Storm::Pages::filled ? 0x5a5a5a5a5a5a5a5a : 0;
    uint64_t read = storm.reader().unread();
    for (const auto& [value, n] : counts) read += n;
    EXPECT_THAT(counts, testing::ElementsAre(testing::Key(wanted)));
    EXPECT_EQ(read, storm.hits());
    EXPECT_LT(storm.read_by_kernel(), storm.hits()) << "some were read directly";
    EXPECT_GT(storm.reader().unread(), 0u) << "some were gone";
  }
}

// That the test above can fail.
TEST_F(Regions, AreReadWhenTheyAreGoneIfNoHookComesBefore) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGSEGV, SIG_DFL);
    Storm(Storm::Pages::filled).run(Storm::Hook::none, 20'000'000'000);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
}

// The kernel clears the table in a child (here, its start is cleared by hand).
TEST_F(Regions, AreLeftToTheKernelWithoutATable) {
  char* const page = map(1);
  Reader numbers(load(8), 12, {}, 0, own_rseq());
  admit(numbers.regions(), {range(page, 1)});
  numbers.hit(page);
  numbers.regions().bytes = 0;
  numbers.hit(page);
  EXPECT_EQ(numbers.context().slow_reads, 1u);
  EXPECT_EQ(numbers.counts(), (std::map<uint64_t, uint64_t>{{0, 2}}));
}

TEST_F(Regions, AreLeftToTheKernelByThreadsWithoutAnArea) {
  char* const page = map(1);
  Reader numbers(load(8), 12, {}, 0, own_rseq());
  admit(numbers.regions(), {range(page, 1)});
  {
    const Unregistered here;
    numbers.hit(page);
  }
  EXPECT_EQ(numbers.context().slow_reads, 1u);
  numbers.hit(page);
  EXPECT_EQ(numbers.context().slow_reads, 1u);
}

TEST_F(Regions, AreLeftToTheKernelByThreadsForWhichThereIsNoEntry) {
  char* const page = map(1);
  Reader numbers(load(8), 12, {}, 0, own_rseq());
  admit(numbers.regions(), {range(page, 1)});
  for (uint64_t& thread : numbers.regions().threads) thread = 1;
  numbers.hit(page);
  EXPECT_EQ(numbers.context().slow_reads, 1u);
}

// Who waits for a thread that never goes on, waits for a second or two.
TEST_F(Regions, AreTakenAwayAfterAWhileThoughAThreadSeemsToRead) {
  char* const page = map(1);
  Reader numbers(load(8), 12, {}, 0, own_rseq());
  admit(numbers.regions(), {range(page, 1)});
  struct {
    char before[64];
    uint64_t area_cs;
  } thread = {};
  thread.area_cs = numbers.regions().first_cs;
  numbers.regions().threads[5] =
      address(&thread.area_cs) - PP_RSEQ_CS - static_cast<uint64_t>(numbers.regions().rseq);
  HookedCalls hooked(numbers.regions());
  EXPECT_EQ(hooked(SYS_munmap, address(page), kPageSize), 0);
  EXPECT_EQ(numbers.regions().list[1].length, 0u);
  EXPECT_EQ(numbers.regions().admitted[1], kPageSize) << "others wait, too";
}

}  // namespace
}  // namespace pinprick::runtime
