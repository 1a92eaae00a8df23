// What a program that probes itself says about its probes, as others read it.
#include "patch/text_owner.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace pinprick::patch {
namespace {

using layout::OwnPage;
using layout::OwnSite;
using layout::OwnTable;
using State = OwnSite::State;

// This process says that it probes itself, by a page and a table like the library's.
class OwnProbesTest : public testing::Test {
 protected:
  OwnProbesTest() {
    page_ = ::mmap(nullptr, kPageSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memory_ = ::mmap(nullptr, layout::kOwnTableSize, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    new (memory_) OwnTable;
    OwnPage page;
    page.table = reinterpret_cast<Address>(memory_);
    say(page);
  }
  ~OwnProbesTest() override {
    ::munmap(page_, kPageSize);
    ::munmap(memory_, layout::kOwnTableSize);
  }

  void say(const OwnPage& page) { std::memcpy(page_, &page, sizeof page); }
  OwnTable& table() { return *static_cast<OwnTable*>(memory_); }
  OwnSite& add(Address address, uint8_t touched, State state, uint8_t end = 0) {
    auto* const sites =
        reinterpret_cast<OwnSite*>(static_cast<uint8_t*>(memory_) + layout::kOwnSitesOffset);
    OwnSite& site = sites[table().site_count++];
    site.address = address;
    site.written = std::min<uint8_t>(touched, 5);
    site.touched = touched;
    site.ends[0] = end;
    site.state = state;
    return site;
  }
  OwnProbes read() const {
    return OwnProbes::read(*target::Memory::open(::getpid()), *image::read_maps(::getpid()));
  }

  void* page_ = nullptr;
  void* memory_ = nullptr;
};

TEST_F(OwnProbesTest, AreNotThereWithoutAPage) {
  say({.magic = 1, .table = 0});
  EXPECT_FALSE(read().is_there());
  EXPECT_FALSE(read().is_closed());
}

TEST_F(OwnProbesTest, KeepOthersOffWhatIsInUse) {
  add(1000, 8, State::in_use, 8);
  const OwnProbes own = read();
  EXPECT_TRUE(own.is_there());
  EXPECT_FALSE(own.is_closed());
  EXPECT_TRUE(own.needs_any_of({1000, 1005}));
  EXPECT_TRUE(own.needs_any_of({1007, 1012}));
  EXPECT_TRUE(own.needs_any_of({990, 1001}));
  EXPECT_FALSE(own.needs_any_of({1008, 1013}));
  EXPECT_FALSE(own.needs_any_of({995, 1000}));
}

// A thread may be in the stub for any length of time, and then goes on at the end.
TEST_F(OwnProbesTest, KeepOthersOffWhereAFormerStubGoesOnUnlessTheyBeginThere) {
  add(1000, 8, State::former, 8);
  const OwnProbes own = read();
  EXPECT_FALSE(own.needs_any_of({1000, 1008}));
  EXPECT_FALSE(own.needs_any_of({1008, 1013}));
  EXPECT_TRUE(own.needs_any_of({1000, 1009}));
  EXPECT_TRUE(own.needs_any_of({1006, 1011}));
}

TEST_F(OwnProbesTest, AreNoneOfUnloadedObjects) {
  add(1000, 8, State::gone, 8);
  EXPECT_FALSE(read().needs_any_of({0, 2000}));
}

TEST_F(OwnProbesTest, IncludeTheLibraryItself) {
  table().libpinprick_begin = 5000;
  table().libpinprick_end = 6000;
  EXPECT_TRUE(read().needs_any_of({5990, 6010}));
  EXPECT_FALSE(read().needs_any_of({6000, 6010}));
}

TEST_F(OwnProbesTest, AreClosedToAllIfTheyCannotBeRead) {
  table().site_count = layout::kMostOwnSites + 1;
  EXPECT_TRUE(read().is_closed());
  table().site_count = 0;
  table().code_count = UINT64_MAX;
  EXPECT_TRUE(read().is_closed());
  table().code_count = 0;
  table().slots_count = 5;
  EXPECT_TRUE(read().is_closed());
  table().slots_count = 0;
  EXPECT_FALSE(read().is_closed());
  say({.magic = layout::kOwnPageMagic, .table = 0x10'0000'0000'0000});
  EXPECT_TRUE(read().is_closed());
  say({.magic = layout::kOwnPageMagic, .table = 0});
  EXPECT_TRUE(read().is_closed());
  say({.magic = layout::kFormerOwnPageMagic, .table = reinterpret_cast<Address>(memory_)});
  EXPECT_TRUE(read().is_closed());
}

TEST_F(OwnProbesTest, ThatMakeNoSenseAreLeftOut) {
  add(1000, 8, State::in_use).written = OwnSite::kMostWritten + 1;
  add(1000, 4, State::in_use).written = 5;
  add(UINT64_MAX - 3, 8, State::in_use);
  add(1000, 8, static_cast<State>(7));
  EXPECT_TRUE(read().sites().empty());
}

TEST_F(OwnProbesTest, AreReplacedByTheOriginalBytesInTextThatWasRead) {
  // A private page that was written to.
  auto* const text = static_cast<uint8_t*>(
      ::mmap(nullptr, kPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const auto at = reinterpret_cast<Address>(text);
  const uint8_t original[] = {0x55, 0x48, 0x89, 0xe5, 0x90};
  OwnProbes own = read();
  std::copy(std::begin(original), std::end(original), add(at + 16, 5, State::in_use).original);
  const uint8_t jump[] = {0xe9, 1, 2, 3, 4};
  std::copy(std::begin(jump), std::end(jump), text + 16);
  const auto read_text = [&](size_t from, size_t size) {
    std::vector<uint8_t> bytes(text + from, text + from + size);
    own.put_back(::getpid(), at + from, bytes);
    return bytes;
  };
  EXPECT_EQ(read_text(16, 5), std::vector<uint8_t>(std::begin(jump), std::end(jump)));
  own.read_new(*target::Memory::open(::getpid()));  // of the site that was added
  EXPECT_EQ(read_text(16, 5), std::vector<uint8_t>(std::begin(original), std::end(original)));
  EXPECT_EQ(read_text(18, 2), (std::vector<uint8_t>{0x89, 0xe5}));
  EXPECT_EQ(read_text(8, 9), (std::vector<uint8_t>{0, 0, 0, 0, 0, 0, 0, 0, 0x55}));
  // Another library's code, by now.
  text[16] = 0x31;
  EXPECT_EQ(read_text(16, 5), (std::vector<uint8_t>{0x31, 1, 2, 3, 4}));
  ::munmap(text, kPageSize);
}

// One of them may be a part of a library.
TEST(OwnProbes, AreThoseOfAllLibpinpricksInTheProcess) {
  class Library : public OwnProbesTest {
   public:
    Library(Address site, Address library) {
      add(site, 8, State::in_use, 8);
      table().libpinprick_begin = library;
      table().libpinprick_end = library + 1000;
    }
    void TestBody() override {}
    using OwnProbesTest::add;
    using OwnProbesTest::read;
    using OwnProbesTest::say;
  };
  const Library first(1000, 50'000);
  Library second(2000, 60'000);
  OwnProbes own = first.read();
  EXPECT_FALSE(own.is_closed());
  for (const Address taken : {1000, 2000, 50'500, 60'500})
    EXPECT_TRUE(own.needs_any_of({taken, taken + 5})) << taken;
  second.add(3000, 8, State::in_use, 8);
  own.read_new(*target::Memory::open(::getpid()));
  EXPECT_TRUE(own.needs_any_of({3000, 3005}));
  EXPECT_EQ(own.sites().size(), 3U);
  // One that does not share its text.
  second.say({.magic = layout::kOwnPageMagic, .table = 0});
  EXPECT_TRUE(first.read().is_closed());
}

}  // namespace
}  // namespace pinprick::patch
