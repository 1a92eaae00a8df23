// What hits read through pointers, in this process, against what is there.
#include <fcntl.h>
#include <fnmatch.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "arch/differential.h"
#include "arch/random_expressions.h"
#include "base/clock.h"
#include "probed_function.h"
#include "reader.h"

namespace pinprick::runtime {
namespace {

using arch::Expression;
using arch::Operation;
using arch::Reg;
using arch::Source;

constexpr uint8_t kRdi = 7;

Expression follow(Operation operation, uint8_t bytes, bool is_signed = false) {
  return Expression({{.source = {.register_number = kRdi}},
                     {.operation = operation, .is_signed = is_signed, .bytes = bytes, .left = 0}});
}
Expression text_of(uint8_t bytes = PP_MOST_TEXT) {
  return follow(Operation::text, bytes);
}
Expression compared(Operation operation, std::string with) {
  Expression expression(
      {{.source = {.register_number = kRdi}}, {.operation = operation, .left = 0}});
  expression.texts.push_back(std::move(with));
  return expression;
}

// Two pages, of which the second cannot be read.
class Edge {
 public:
  Edge() {
    page_ = static_cast<char*>(
        mmap(nullptr, 2 * kPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(page_ + kPageSize, kPageSize, PROT_NONE);
  }
  Edge(const Edge&) = delete;
  Edge& operator=(const Edge&) = delete;
  ~Edge() { munmap(page_, 2 * kPageSize); }

  // Puts bytes at the end of the first page, and returns where.
  char* put(std::string_view bytes) {
    char* const at = page_ + kPageSize - bytes.size();
    std::memcpy(at, bytes.data(), bytes.size());
    return at;
  }
  char* end() { return page_ + kPageSize; }

 private:
  char* page_;
};

const std::vector<const void*> kNowhere = [] {
  std::vector<const void*> all;
  for (const uint64_t address :
       {uint64_t{0}, uint64_t{8}, ~uint64_t{0}, ~uint64_t{7}, uint64_t{1} << 63,
        uint64_t{0x800000000000}, uint64_t{0x7ffffffff000}, uint64_t{0xffffffff81000000}})
    all.push_back(reinterpret_cast<const void*>(address));
  return all;
}();

TEST(Reads, OfNumbersAreOfTheirSizeAndSignUpToTheEndOfWhatIsMapped) {
  Edge edge;
  const char* const at = edge.put("\x81\x82\x83\x84\x85\x86\x87\x88");
  const std::array<std::pair<uint8_t, uint64_t>, 4> kUnsigned = {
      {{1, 0x81}, {2, 0x8281}, {4, 0x84838281}, {8, 0x8887868584838281}}};
  for (const auto& [bytes, value] : kUnsigned)
    for (const bool is_signed : {false, true}) {
      Reader reader(follow(Operation::load, bytes, is_signed));
      reader.hit(at);
      const uint64_t wanted = is_signed && bytes < 8 ? value | ~uint64_t{0} << (8 * bytes) : value;
      EXPECT_EQ(reader.counts(), (std::map<uint64_t, uint64_t>{{wanted, 1}})) << int{bytes};
      for (const char* beyond = at + 8 - bytes + 1; beyond <= edge.end(); ++beyond)
        reader.hit(beyond);
      EXPECT_EQ(reader.unread(), bytes) << "those that end after the page";
      reader.forget();
      for (const void* nowhere : kNowhere) reader.hit(nowhere);
      EXPECT_EQ(reader.unread(), kNowhere.size());
      EXPECT_TRUE(reader.counts().empty());
    }
}

TEST(Reads, OfTextsAreThoseUpToTheirEndOrTheirLimit) {
  Edge edge;
  const std::string full(PP_MOST_TEXT, 'f');
  const auto text_at = [](Reader& reader, const void* at) {
    reader.forget();
    reader.hit(at);
    const auto counts = reader.counts_by_text();
    EXPECT_EQ(counts.size(), 1u);
    return counts.begin()->first;
  };
  Reader reader(text_of());
  for (const std::string& text : {std::string(), std::string("a"), std::string("\xff\x01 b"), full})
    EXPECT_EQ(text_at(reader, edge.put(text + '\0')), text);
  EXPECT_EQ(text_at(reader, (full + "g").c_str()), full + "...");
  EXPECT_EQ(text_at(reader, edge.put("no end")), "?");
  EXPECT_EQ(text_at(reader, edge.put(full)), "?") << "whether it ends there is not known";
  EXPECT_EQ(text_at(reader, edge.put(full + "f")), full + "...");
  EXPECT_EQ(text_at(reader, edge.end()), "?");
  for (const void* nowhere : kNowhere) EXPECT_EQ(text_at(reader, nowhere), "?");
  Reader short_one(text_of(3));
  EXPECT_EQ(text_at(short_one, "abc"), "abc");
  EXPECT_EQ(text_at(short_one, "abcd"), "abc...");
  EXPECT_EQ(text_at(short_one, edge.put("abc")), "?");
  EXPECT_EQ(text_at(short_one, edge.put("abcd")), "abc...");
  EXPECT_EQ(reader.unread() + short_one.unread(), 0u) << "these have a row";
}

Expression bytes_of(uint64_t length, bool tells_null = false) {
  return Expression(
      {{.source = {.register_number = 7}},
       {.source = {.instead = Source::Constant{length}}},
       {.operation = Operation::text_of_length, .tells_null = tells_null, .left = 0, .right = 1}});
}

TEST(Reads, OfBytesHaveAsManyAndTheirZerosUpToTheEndOfWhatIsMapped) {
  Edge edge;
  const std::string zeros("a\0b\0\0", 5), full(PP_MOST_TEXT, '\0');
  const auto read = [&](const Expression& what, const void* at) {
    Reader reader(what);
    reader.hit(at);
    EXPECT_EQ(reader.unread(), 0u) << "these have a row";
    const auto counts = reader.counts_by_text();
    EXPECT_EQ(counts.size(), 1u);
    return counts.begin()->first;
  };
  for (size_t length = 0; length <= zeros.size(); ++length) {
    EXPECT_EQ(read(bytes_of(length), edge.put(zeros)), zeros.substr(0, length));
    EXPECT_EQ(read(bytes_of(length), edge.put(zeros.substr(0, length))), zeros.substr(0, length));
  }
  EXPECT_EQ(read(bytes_of(6), edge.put(zeros)), "?");
  EXPECT_EQ(read(bytes_of(64), edge.put(full)), full);
  EXPECT_EQ(read(bytes_of(64), edge.put(full.substr(1))), "?");
  for (const uint64_t larger : {uint64_t{65}, uint64_t{1} << 32, uint64_t{INT64_MAX}})
    EXPECT_EQ(read(bytes_of(larger), edge.put(full)), full + "...") << larger;
  for (const uint64_t negative : {~uint64_t{0}, uint64_t{1} << 63})
    EXPECT_EQ(read(bytes_of(negative), edge.put("abc")), "");
  for (const void* nowhere : kNowhere) EXPECT_EQ(read(bytes_of(1), nowhere), "?");
  EXPECT_EQ(read(bytes_of(0), kNowhere.front()), "") << "nothing is read";
  Reader of_null(bytes_of(1, true));
  of_null.hit(nullptr);
  EXPECT_EQ(of_null.counts(), (std::map<uint64_t, uint64_t>{{layout::kNullText, 1}}));
}

// A text that has no zeros is the same, however its length was known.
TEST(Reads, OfBytesHaveTheNumbersOfTexts) {
  Reader reader(bytes_of(3));
  reader.hit("abc");
  reader.hit("abcd");
  EXPECT_EQ(reader.counts_by_text(), (std::map<std::string, uint64_t>{{"abc", 2}}));
  EXPECT_EQ(reader.entries_taken(), 1u);
}

// A text across a page is two elements of one read.
TEST(Reads, OfTextsAcrossPagesAreWhole) {
  std::vector<char> pages(3 * kPageSize);
  char* const page = reinterpret_cast<char*>(align_up(Reader::address_of(pages.data()), kPageSize));
  Reader reader(text_of());
  const std::string text = "0123456789 of a text that lies in two pages";
  std::map<std::string, uint64_t> wanted;
  for (size_t before = 0; before <= text.size() + 1; ++before) {
    std::memcpy(page + kPageSize - before, text.c_str(), text.size() + 1);
    reader.hit(page + kPageSize - before);
    ++wanted[text];
  }
  EXPECT_EQ(reader.counts_by_text(), wanted);
}

TEST(Reads, ForComparisonsAgreeWithTheirModel) {
  std::mt19937_64 random{161803};  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same each time
  const auto some = [&](std::string_view letters, size_t most) {
    std::string text;
    for (size_t n = random() % (most + 1); text.size() < n;)
      text += letters[random() % letters.size()];
    return text;
  };
  Edge edge;
  const Expression always = Source{.instead = Source::Constant{1}};
  for (int i = 0; i < 400; ++i) {
    const std::string with = some("ab*?", 8), literal = some("ab", 3);
    // A backslash takes what follows as it is; one at the end matches nothing here.
    const std::string pattern = random() % 4 == 0 ? "\\" + with + "*" : with;
    Reader like(always, 4, compared(Operation::like_text, pattern));
    Reader equal(always, 4, compared(Operation::equals_text, literal));
    uint64_t likes = 0, equals = 0;
    for (int k = 0; k < 40; ++k) {
      const std::string text = some("ab", 9) + some("*?", 1);
      const char* const at = edge.put(text + '\0');
      like.hit(at);
      equal.hit(at);
      likes += fnmatch(pattern.c_str(), text.c_str(), 0) == 0 ? 1 : 0;
      equals += text == literal ? 1 : 0;
    }
    const auto counted = [](const Reader& reader) {
      const auto counts = reader.counts();
      return counts.empty() ? 0 : counts.at(1);
    };
    ASSERT_EQ(counted(like), likes) << pattern;
    ASSERT_EQ(counted(equal), equals) << literal;
    ASSERT_EQ(like.unread() + equal.unread(), 0u);
  }
}

TEST(Reads, ForComparisonsDecideByWhatCanBeReadIfThatSuffices) {
  Edge edge;
  const Expression always = Source{.instead = Source::Constant{1}};
  Reader equal(always, 4, compared(Operation::equals_text, "abc"));
  equal.hit(edge.put("abd"));
  EXPECT_EQ(equal.unread(), 0u) << "the third letter differs";
  equal.hit(edge.put("abc"));
  EXPECT_EQ(equal.unread(), 1u) << "whether it ends there is not known";
  equal.hit(edge.end());
  EXPECT_EQ(equal.unread(), 2u);
  const std::string longest(arch::kMostComparedText, 'x');
  Reader long_one(always, 4, compared(Operation::equals_text, longest));
  long_one.hit(edge.put(longest + '\0'));
  long_one.hit((longest + 'x').c_str());
  EXPECT_EQ(long_one.counts(), (std::map<uint64_t, uint64_t>{{1, 1}}));
  Reader like(always, 4, compared(Operation::like_text, "a*"));
  like.hit(edge.put("abd"));
  EXPECT_EQ(like.unread(), 1u) << "the text goes on in what cannot be read";
  like.hit(edge.put("a" + std::string(PP_MOST_COMPARED - 1, 'b')));
  EXPECT_EQ(like.counts(), (std::map<uint64_t, uint64_t>{{1, 1}})) << "what is beyond is not read";
}

TEST(Reads, OfEqualTextsOnSeveralThreadsAtOnceHaveOneNumber) {
  constexpr int kThreads = 4, kTexts = 200, kRounds = 20;
  std::vector<std::string> texts;
  for (int i = 0; i < kTexts; ++i) texts.push_back("text " + std::to_string(i * 7919));
  for (int round = 0; round < kRounds; ++round) {
    Reader reader(text_of());
    std::atomic<int> ready = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&] {
        ++ready;
        while (ready < kThreads) {
        }
        for (const std::string& text : texts) reader.hit(std::string(text).c_str());
      });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(reader.counts().size(), size_t{kTexts}) << "each has one number";
    for (const auto& [text, n] : reader.counts_by_text()) ASSERT_EQ(n, kThreads) << text;
  }
}

// Two parts of the argument, and the text there or a number.
Expression list_of_argument() {
  return Expression({{.source = {.register_number = kRdi}},
                     {.source = {.instead = Source::Constant{7}}},
                     {.operation = Operation::bit_and, .left = 0, .right = 1},
                     {.source = {.register_number = kRdi}},
                     {.source = {.instead = Source::Constant{3}}},
                     {.operation = Operation::shift_right, .left = 3, .right = 4},
                     {.operation = Operation::pair, .left = 2, .right = 5},
                     {.source = {.register_number = kRdi}},
                     {.operation = Operation::pair, .left = 6, .right = 7}});
}

TEST(Pairs, OnSeveralThreadsAtOnceHaveOneNumberEachAndTheNumbersOfWhichTheyAreMade) {
  Reader reader(list_of_argument());
  constexpr uint64_t kKeys = 300, kRounds = 40;
  std::atomic<int> ready = 0;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      ++ready;
      while (ready < 4) {
      }
      for (uint64_t i = 0; i < kKeys * kRounds; ++i)
        reader.hit(reinterpret_cast<const void*>(i * (2 * t + 1) % kKeys));
    });
  for (std::thread& thread : threads) thread.join();
  std::map<uint64_t, uint64_t> counted;
  for (const auto& [number, hits] : reader.counts()) {
    const auto [rest, argument] = reader.pair(number);
    EXPECT_EQ(reader.pair(rest), (std::pair(argument & 7, argument >> 3)));
    EXPECT_TRUE(counted.emplace(argument, hits).second) << argument;
  }
  EXPECT_EQ(counted.size(), kKeys);
  uint64_t hits = 0;
  for (const auto& [argument, n] : counted) hits += n;
  EXPECT_EQ(hits, 4 * kKeys * kRounds);
}

TEST(Pairs, ThatHaveNoRoomAreCountedTogether) {
  Reader reader(list_of_argument(), 4);
  for (uint64_t i = 0; i < 100; ++i) reader.hit(reinterpret_cast<const void*>(i));
  uint64_t hits = 0;
  for (const auto& [number, n] : reader.counts()) hits += n;
  EXPECT_EQ(hits, 100u);
  EXPECT_GT(reader.counts().at(layout::kOtherTexts), 0u);
}

TEST(Pairs, HaveTheNumbersOfTexts) {
  Reader reader(Expression({{.source = {.register_number = kRdi}},
                            {.operation = Operation::text, .bytes = PP_MOST_TEXT, .left = 0},
                            {.source = {.instead = Source::Constant{5}}},
                            {.operation = Operation::pair, .left = 1, .right = 2}}));
  reader.hit("one");
  reader.hit("two");
  reader.hit("one");
  reader.hit(nullptr);
  std::map<std::string, uint64_t> counted;
  for (const auto& [number, hits] : reader.counts()) {
    EXPECT_EQ(reader.pair(number).second, 5u);
    counted[reader.text(reader.pair(number).first)] += hits;
  }
  EXPECT_EQ(counted, (std::map<std::string, uint64_t>{{"one", 2}, {"two", 1}, {"?", 1}}));
}

TEST(Reads, OfTextsWithoutRoomAreCountedTogether) {
  constexpr uint32_t kLog2 = 7;
  constexpr uint64_t kTexts = 1000;
  Reader reader(text_of(), kLog2);
  for (int round = 0; round < 2; ++round)
    for (uint64_t i = 0; i < kTexts; ++i) reader.hit(std::to_string(i).c_str());
  const auto counts = reader.counts_by_text();
  uint64_t sum = 0;
  for (const auto& [text, n] : counts) sum += n;
  EXPECT_EQ(sum, 2 * kTexts);
  EXPECT_EQ(counts.size(), layout::text_count(kLog2) + 1);
  EXPECT_EQ(counts.at("(other)"), 2 * (kTexts - layout::text_count(kLog2)));
}

// Another process of the session may write the table.
TEST(Reads, TakeNoHarmFromADamagedTable) {
  Reader reader(text_of(), 6);
  std::mt19937_64 random{577};  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same each time
  for (int round = 0; round < 200; ++round) {
    for (uint64_t i = 0; i < reader.slot_count(); ++i)
      reader.slots()[i] = random() % 3 == 0 ? random() : random() % 100;
    reader.forget();
    for (int i = 0; i < 20; ++i) reader.hit(std::to_string(i).c_str());
    uint64_t sum = 0;
    for (const auto& [number, n] : reader.counts()) {
      sum += n;
      ASSERT_TRUE(number <= layout::text_count(6) || number == layout::kOtherTexts);
    }
    ASSERT_EQ(sum, 20u);
  }
}

TEST(Reads, AreNotMadeWhereTheyAreForbiddenNorInAChildThatMustNotCount) {
  const uint64_t number = 5;
  Reader numbers(follow(Operation::load, 8)), texts(text_of());
  numbers.context().reads = texts.context().reads = 0;
  numbers.hit(&number);
  texts.hit("text");
  EXPECT_TRUE(numbers.counts().empty());
  EXPECT_EQ(numbers.unread(), 1u);
  EXPECT_EQ(texts.counts_by_text(), (std::map<std::string, uint64_t>{{"?", 1}}));
  EXPECT_EQ(numbers.context().readers, 0u);
  for (Reader* const reader : {&numbers, &texts}) {
    auto* const context = reinterpret_cast<uint8_t*>(&reader->context());
    std::fill(context + layout::kAreaTablesBegin, context + layout::kAreaTablesEnd, uint8_t{0});
    reader->forget();
    reader->hit(&number);
    EXPECT_TRUE(reader->counts().empty());
  }
}

TEST(Threads, AreCountedEachByItsOwnNumberOrByZeroIfThatIsNotKnown) {
  Reader reader(arch::Source{.instead = arch::Source::Thread{}});
  Reader lower(arch::Source{.bytes = 1, .instead = arch::Source::Thread{}});
  std::map<uint64_t, uint64_t> wanted, wanted_lower;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (uint64_t hits = 1; hits <= 8; ++hits)
    threads.emplace_back([&, hits] {
      for (uint64_t i = 0; i < hits * 1000; ++i) reader.hit(nullptr), lower.hit(nullptr);
      const std::lock_guard lock(mutex);
      wanted[static_cast<uint64_t>(gettid())] += hits * 1000;
      wanted_lower[static_cast<uint8_t>(gettid())] += hits * 1000;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(reader.counts(), wanted);
  EXPECT_EQ(lower.counts(), wanted_lower);
  reader.forget();
  reader.context().tid_offset = 0;
  reader.hit(nullptr);
  EXPECT_EQ(reader.counts(), (std::map<uint64_t, uint64_t>{{0, 1}}));
}

// A child that the C library knows nothing of has its parent's TID in its control block. What it
// reads is its own memory all the same, and so is what a thread reads whose TID is not known.
TEST(Reads, AreOfTheProcessItselfWhateverTheControlBlockSays) {
  Reader reader(follow(Operation::load, 8));
  static volatile uint64_t number;
  number = 1;
  const pid_t child = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  ASSERT_GE(child, 0);
  if (child == 0) {
    number = 2;
    reader.hit(const_cast<const uint64_t*>(&number));
    const bool is_own = reader.counts() == std::map<uint64_t, uint64_t>{{2, 1}};
    reader.context().tid_offset = 0;
    reader.hit(const_cast<const uint64_t*>(&number));
    _exit(is_own && reader.counts() == std::map<uint64_t, uint64_t>{{2, 2}} ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  reader.context().tid_offset = 0;
  reader.hit(const_cast<const uint64_t*>(&number));
  EXPECT_EQ(reader.counts(), (std::map<uint64_t, uint64_t>{{1, 1}}));
}

// Memory that comes and goes, by pages.
constexpr uint64_t kPages = 8, kMagic = 0x5eed5eed5eed5eed;
char* arena_for_changes() {
  return static_cast<char*>(mmap(nullptr, kPages * kPageSize, PROT_NONE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
}

// The n-th change of a thread: it maps, unmaps, protects, moves or truncates a page of its half.
void change_page(char* arena, uint64_t half, int file, uint64_t n) {
  char* const page = arena + (half * kPages / 2 + n % (kPages / 2)) * kPageSize;
  const auto map = [&](int flags, int from) {
    return mmap(page, kPageSize, PROT_READ | PROT_WRITE, flags | MAP_FIXED, from, 0) == page;
  };
  switch (n / (kPages / 2) % 6) {
    case 0:
      munmap(page, kPageSize);
      break;
    case 1:
      if (map(MAP_PRIVATE | MAP_ANONYMOUS, -1)) *reinterpret_cast<uint64_t*>(page) = kMagic;
      break;
    case 2:
      mprotect(page, kPageSize, n % 2 == 0 ? PROT_NONE : PROT_READ);
      break;
    case 3:
      if (ftruncate(file, 0) == 0) map(MAP_SHARED, file);
      break;
    case 4: {
      constexpr int kGuard = 102;  // MADV_GUARD_INSTALL, which Linux has since 6.13
      if (map(MAP_PRIVATE | MAP_ANONYMOUS, -1)) madvise(page, kPageSize, kGuard);
      break;
    }
    default:
      if (map(MAP_PRIVATE | MAP_ANONYMOUS, -1)) madvise(page, kPageSize, MADV_DONTNEED);
      break;
  }
}

// So that the next test would fail if hits followed the pointers themselves.
TEST(ReadsDeathTest, OfMemoryThatComesAndGoesEndTheThreadThatMakesThemItself) {
  EXPECT_DEATH(
      {
        char* const arena = arena_for_changes();
        const int file = memfd_create("truncated", MFD_CLOEXEC);
        for (uint64_t n = 0; n < 100; ++n) {
          change_page(arena, 0, file, n);
          static_cast<void>(*reinterpret_cast<volatile uint64_t*>(arena));
        }
      },
      "");
}

// Threads map and unmap, protect and truncate what other threads read. A read gives what was there,
// or says that it could not: no fault ever is a thread's own.
TEST(Reads, OfMemoryThatComesAndGoesNeverFault) {
  const char* const seconds = std::getenv("TURMOIL_SECONDS");
  const uint64_t long_ns =
      seconds != nullptr ? std::strtoull(seconds, nullptr, 10) * 1'000'000'000 : 400'000'000;
  char* const arena = arena_for_changes();
  ASSERT_NE(arena, MAP_FAILED);
  const int file = memfd_create("truncated", MFD_CLOEXEC);
  ASSERT_GE(file, 0);
  Reader reader(follow(Operation::load, 8)), texts(text_of());
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      for (uint64_t n = 0; !stop; ++n) change_page(arena, t, file, n);
    });
  std::atomic<uint64_t> hits = 0;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      std::mt19937_64 random(static_cast<uint64_t>(t));
      while (!stop) {
        const char* const at = arena + random() % kPages * kPageSize;
        reader.hit(at);
        texts.hit(at + kPageSize - random() % 32);
        ++hits;
      }
    });
  for (const uint64_t begin = monotonic_ns(); monotonic_ns() - begin < long_ns;)
    std::this_thread::yield();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  uint64_t sum = reader.unread();
  for (const auto& [value, n] : reader.counts()) {
    EXPECT_TRUE(value == kMagic || value == 0) << value;
    sum += n;
  }
  EXPECT_EQ(sum, hits);
  EXPECT_NE(reader.unread(), 0u);
  EXPECT_NE(reader.unread(), hits);
  close(file);
  munmap(arena, kPages * kPageSize);
}

TEST(Reads, InRandomExpressionsAreAsAnInterpreterReadsAndChangeNothingElse) {
  const char* const wanted = std::getenv("PINPRICK_EXPRESSIONS");
  const size_t tries = wanted != nullptr ? std::strtoul(wanted, nullptr, 10) : 500;
  std::mt19937_64 random{141421};  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same each time
  arch::Sandbox sandbox;
  arch::Generator generator(random, sandbox);
  generator.follow_pointers();
  size_t unread = 0;
  for (size_t i = 0; i < tries; ++i) {
    arch::MachineState start = generator.state();
    arch::fill_randomly(sandbox.memory(), random);
    sandbox.set_word(start[Reg::rsp], sandbox.home());
    const arch::Program program = {start, sandbox};
    const Expression key = generator.expression(start, arch::StackUse::at_entry, 20);
    const Expression condition =
        i % 2 == 0 ? generator.expression(start, arch::StackUse::at_entry, 12) : Expression();
    Reader reader(key, 4, condition);
    const Bytes memory(sandbox.memory().begin(), sandbox.memory().end());
    start.rip = reader.original();
    sandbox.place_home({});
    const arch::Outcome plain = sandbox.run(start);
    const Bytes memory_plain(sandbox.memory().begin(), sandbox.memory().end());
    std::copy(memory.begin(), memory.end(), sandbox.memory().begin());
    start.rip = reader.entry();
    const arch::Outcome through_probe = sandbox.run(start);
    ASSERT_EQ(plain.signal, 0);
    ASSERT_EQ(arch::difference_of(plain, through_probe), "") << "expression " << i;
    const auto above = static_cast<long>(start[Reg::rsp] + 8 - sandbox.data());
    ASSERT_TRUE(std::equal(memory_plain.begin() + above, memory_plain.end(),
                           sandbox.memory().begin() + above));
    std::copy(memory.begin(), memory.end(), sandbox.memory().begin());
    const auto has_value = [&](const Expression& what) {
      return arch::has_value(what, what.steps.back(), program);
    };
    const auto result = [&](const Expression& what) {
      return arch::result_of(what, what.steps.back(), program);
    };
    const bool decides = condition.empty() || has_value(condition);
    const bool holds = decides && (condition.empty() || result(condition) != 0);
    const bool is_unread = !decides || (holds && !has_value(key));
    ASSERT_EQ(reader.unread(), is_unread ? 1u : 0u) << arch::shown(key, program);
    std::map<uint64_t, uint64_t> counts;
    if (holds && !is_unread) counts[result(key)] = 1;
    ASSERT_EQ(reader.counts(), counts)
        << arch::shown(key, program)
        << (condition.empty() ? "" : "\nif" + arch::shown(condition, program));
    unread += is_unread ? 1 : 0;
  }
  EXPECT_GT(unread, tries / 50);
  EXPECT_LT(unread, tries / 2);
}

}  // namespace
}  // namespace pinprick::runtime
