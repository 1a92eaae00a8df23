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
  OwnProbes read() const { return OwnProbes::read(self_, *image::read_maps(::getpid())); }

  const target::Memory self_ = *target::Memory::open(::getpid());

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

// Text with sites of the program: a private page that was written to.
class OwnText : public OwnProbesTest {
 protected:
  using Bytes = std::vector<uint8_t>;
  static constexpr uint8_t kOriginal[] = {0x55, 0x48, 0x89, 0xe5, 0x90};
  static constexpr uint8_t kJump[] = {0xe9, 1, 2, 3, 4};

  OwnText()
      : text_(static_cast<uint8_t*>(::mmap(nullptr, kPageSize, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
        at_(reinterpret_cast<Address>(text_)) {}
  ~OwnText() override { ::munmap(text_, kPageSize); }

  OwnSite& add_site(State state, std::span<const uint8_t> original = kOriginal) {
    OwnSite& site = add(at_ + 16, 5, state);
    std::copy(original.begin(), original.end(), site.original);
    return site;
  }
  void write(std::span<const uint8_t> bytes) { std::copy(bytes.begin(), bytes.end(), text_ + 16); }
  static Bytes bytes(std::span<const uint8_t> some) { return {some.begin(), some.end()}; }
  // What is read; `meanwhile` is what the program does just after the text was read.
  template <class F>
  Bytes read_text(OwnProbes& own, size_t from, size_t size, F&& meanwhile) {
    const uint64_t changes = own.changes_now(self_);
    Bytes bytes(text_ + from, text_ + from + size);
    meanwhile();
    own.read_changes(self_);
    own.put_back(::getpid(), at_ + from, bytes, changes);
    return bytes;
  }
  Bytes read_text(OwnProbes& own, size_t from = 16, size_t size = 5) {
    return read_text(own, from, size, [] {});
  }
  void change(auto&& f) {
    ++table().changes;
    f();
    ++table().changes;
  }

  uint8_t* const text_;
  const Address at_;
};

TEST_F(OwnText, IsReadWithItsOriginalBytes) {
  add_site(State::in_use);
  write(kJump);
  OwnProbes own = read();
  EXPECT_EQ(read_text(own), bytes(kOriginal));
  EXPECT_EQ(read_text(own, 18, 2), (Bytes{0x89, 0xe5}));
  EXPECT_EQ(read_text(own, 8, 9), (Bytes{0, 0, 0, 0, 0, 0, 0, 0, 0x55}));
  // Another library's code, by now.
  text_[16] = 0x31;
  EXPECT_EQ(read_text(own), (Bytes{0x31, 1, 2, 3, 4}));
}

TEST_F(OwnText, IsReadWithoutASiteThatCameWhileItWasRead) {
  OwnProbes own = read();
  write(kJump);
  EXPECT_EQ(read_text(own, 16, 5, [&] { change([&] { add_site(State::in_use); }); }),
            bytes(kOriginal));
  EXPECT_EQ(read_text(own), bytes(kOriginal)) << "it is known";
}

TEST_F(OwnText, IsReadWithoutASiteThatWentWhileItWasRead) {
  OwnSite& site = add_site(State::in_use);
  write(kJump);
  OwnProbes own = read();
  const auto remove = [&] {
    write(kOriginal);
    change([&] { site.state = State::former; });
  };
  EXPECT_EQ(read_text(own, 16, 5, remove), bytes(kOriginal));
}

// Until then the bytes are those of a plan, which may have been made from others' jumps.
TEST_F(OwnText, IsLeftAloneAsLongAsTheProgramHasNotFoundItAsPlanned) {
  OwnSite& site = add_site(State::in_use);
  site.written = 0;
  write(kJump);
  OwnProbes own = read();
  EXPECT_EQ(read_text(own), bytes(kJump));
  EXPECT_TRUE(own.takes({at_ + 20, at_ + 21}));
  change([&] { site.written = 5; });
  EXPECT_EQ(read_text(own), bytes(kOriginal));
}

// The program may have changed its text since, or may have meant to probe other code there.
TEST_F(OwnText, IsLeftAloneAtSitesThatWereNotInItMeanwhile) {
  OwnSite& site = add_site(State::former);
  const uint8_t now[] = {kOriginal[0], 0x31, 0xc0, 0x90, 0x90};
  write(now);
  OwnProbes own = read();
  EXPECT_EQ(read_text(own), bytes(now));
  change([&] { site.state = State::in_use; });
  write(kJump);
  EXPECT_EQ(read_text(own), bytes(kOriginal));
}

// Its first byte is neither of theirs once one of them has been put back.
TEST_F(OwnText, IsReadWithTheBytesOfTheLatestOfItsSites) {
  const uint8_t of_former[] = {0x2e, 0xe9, 0x1f, 0x48, 0xd0};
  for (const State former : {State::former, State::in_use}) {
    table().site_count = 0;
    add_site(former, of_former);
    OwnSite& site = add_site(State::in_use);
    write(kJump);
    OwnProbes own = read();
    EXPECT_EQ(read_text(own), bytes(kOriginal));
    const auto remove = [&] { change([&] { site.state = State::former; }); };
    EXPECT_EQ(read_text(own, 16, 5, remove), bytes(kOriginal));
  }
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
    using OwnProbesTest::table;
  };
  const Library first(1000, 50'000);
  Library second(2000, 60'000);
  OwnProbes own = first.read();
  EXPECT_FALSE(own.is_closed());
  for (const Address taken : {1000, 2000, 50'500, 60'500})
    EXPECT_TRUE(own.needs_any_of({taken, taken + 5})) << taken;
  second.add(3000, 8, State::in_use, 8);
  ++second.table().changes;
  own.read_changes(*target::Memory::open(::getpid()));
  EXPECT_TRUE(own.needs_any_of({3000, 3005}));
  EXPECT_EQ(own.sites().size(), 3U);
  // One that does not share its text.
  second.say({.magic = layout::kOwnPageMagic, .table = 0});
  EXPECT_TRUE(first.read().is_closed());
}

}  // namespace
}  // namespace pinprick::patch
