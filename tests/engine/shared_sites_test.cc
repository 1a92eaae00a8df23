// Which stubs a thread passes at a site that several sessions have: followed in memory, as a thread
// would, and compared with a list of the sessions that have come and not gone.
#include "engine/owners/shared_sites.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <random>

#include "arch/jump.h"

namespace pinprick::engine {
namespace {

using layout::MappingEntry;
using layout::ProbeEntry;
using layout::SiteEntry;

constexpr size_t kSessions = 6, kSites = 8;
constexpr uint64_t kStubRoom = 64, kSiteRoom = 16;

// A text of a few sites, and an arena of stubs for each session, in this process's own memory: what
// is in the stubs but for their links does not matter to this.
class SharedSites : public testing::Test {
 protected:
  SharedSites() {
    memory_ =
        static_cast<uint8_t*>(::mmap(nullptr, (kSessions + 1) * kPageSize, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (size_t i = 0; i < kSites * kSiteRoom; ++i) memory_[i] = static_cast<uint8_t>(0x90 + i % 7);
    before_.assign(memory_, memory_ + kPageSize);
  }
  ~SharedSites() override { ::munmap(memory_, (kSessions + 1) * kPageSize); }

  Address site(size_t number) const {
    return reinterpret_cast<Address>(memory_) + number * kSiteRoom;
  }
  Address arena(size_t session) const {
    return reinterpret_cast<Address>(memory_) + (session + 1) * kPageSize;
  }
  Address stub(size_t session, size_t number) const { return arena(session) + number * kStubRoom; }
  const target::Memory& memory() const { return *target_; }

  // A jump of five or of six bytes; a stub with its link after 10 bytes, or at its start.
  SiteEntry entry_of(size_t session, size_t number, SiteEntry::Link link) const {
    SiteEntry entry;
    entry.address = site(number);
    entry.length = entry.own = number % 2 == 0 ? 5 : 6;
    entry.displaced = entry.length + 1;
    std::copy_n(before_.begin() + static_cast<ptrdiff_t>(number * kSiteRoom), entry.own,
                entry.original);
    entry.jump = static_cast<int32_t>(stub(session, number) - entry.end());
    entry.copy_distance = static_cast<int32_t>(stub(session, number) + 15 - entry.address);
    entry.link = link;
    return entry;
  }

  layout::Session journal_of(size_t session, ProbeEntry::Kind kind) const {
    layout::Session journal;
    journal.header.state = layout::SessionState::armed;
    journal.mappings.push_back(
        {arena(session), kPageSize, MappingEntry::Kind::stubs, MappingEntry::Progress::mapped});
    for (size_t number = 0; number < kSites; ++number) {
      ProbeEntry probe;
      probe.site = static_cast<uint32_t>(number);
      probe.kind = kind;
      journal.sites.push_back(entry_of(session, number, SiteEntry::Link::none));
      journal.probes.push_back(probe);
    }
    return journal;
  }

  void write(const std::optional<patch::TextEdit>& edit) {
    ASSERT_TRUE(edit);
    auto* at = reinterpret_cast<uint8_t*>(edit->address);
    ASSERT_EQ(std::memcmp(at, edit->before, edit->length), 0);
    std::memcpy(at, edit->after, edit->length);
  }

  // The sessions whose stubs a thread passes, by what lies in memory alone.
  std::vector<size_t> followed(size_t number, const std::vector<layout::Session>& journals) const {
    std::vector<size_t> passed;
    const auto* const text = reinterpret_cast<const uint8_t*>(site(number));
    const size_t length = number % 2 == 0 ? 5 : 6;
    const auto distance = arch::jump_distance({text, length});
    Address to =
        distance ? site(number) + length + static_cast<uint64_t>(int64_t{*distance}) : Address{0};
    while (to != 0 && passed.size() <= kSessions) {
      const size_t session = (to - arena(0)) / kPageSize;
      passed.push_back(session);
      const SiteEntry& entry = journals[session].sites[number];
      arch::LinkBytes link;
      const Address at = entry.link == SiteEntry::Link::at_start ? to : to + 10;
      if (entry.link == SiteEntry::Link::none) break;
      std::memcpy(link.data(), reinterpret_cast<const void*>(at), link.size());
      to = *arch::link_target(at, link);
    }
    return passed;
  }

  uint8_t* memory_;
  std::vector<uint8_t> before_;
  Result<target::Memory, SystemError> target_ = target::Memory::open(::getpid());
};

TEST_F(SharedSites, HaveEachSessionOnceWhateverComesAndGoes) {
  std::mt19937_64 random(20261123);
  std::vector<layout::Session> journals;
  std::vector<bool> times;
  for (size_t session = 0; session < kSessions; ++session) {
    times.push_back(session % 2 == 1);
    journals.push_back(
        journal_of(session, times.back() ? ProbeEntry::Kind::latency : ProbeEntry::Kind::count));
  }
  // By site: the sessions there, and those that time calls in the order in which they came.
  std::vector<std::list<size_t>> model(kSites), timed(kSites);
  for (int step = 0; step < 100'000; ++step) {
    const size_t session = random() % kSessions, number = random() % kSites;
    auto& there = model[number];
    SiteEntry& entry = journals[session].sites[number];
    std::vector<const layout::Session*> others;
    for (size_t other : there)
      if (other != session) others.push_back(&journals[other]);
    // A session that has the site in its file, and is not there: it was killed, or will come.
    const size_t absent = random() % kSessions;
    if (absent != session && std::find(there.begin(), there.end(), absent) == there.end())
      others.push_back(&journals[absent]);
    const OtherSites sites(others, memory());
    if (const auto at = std::find(there.begin(), there.end(), session); at != there.end()) {
      write(sites.disarming(memory(), entry));
      there.erase(at);
      timed[number].remove(session);
    } else {
      const auto in_text = sites.in({entry.address, entry.end()});
      ASSERT_EQ(in_text.size(), there.empty() ? 0u : 1u);
      const bool at_start = !times[session] && random() % 4 == 0;
      entry.link = there.empty() && !times[session] ? SiteEntry::Link::none
                   : at_start                       ? SiteEntry::Link::at_start
                                                    : SiteEntry::Link::before_copy;
      Position position;
      if (!in_text.empty()) position = sites.position_for(memory(), *in_text[0], times[session]);
      if (entry.link != SiteEntry::Link::none) {
        const Address link = stub(session, number) + (at_start ? 0 : 10);
        const auto bytes = arch::encode_link(link, position.below);
        std::memcpy(reinterpret_cast<void*>(link), bytes->data(), bytes->size());
      }
      write(OtherSites::arming(entry, position));
      there.push_back(session);
      if (times[session]) timed[number].push_back(session);
    }
    std::vector<size_t> passed = followed(number, journals);
    std::list<size_t> in_order;
    for (size_t one : passed)
      if (times[one]) in_order.push_back(one);
    ASSERT_EQ(in_order, timed[number])
        << "a session that times calls comes after those that came before it";
    std::sort(passed.begin(), passed.end());
    std::vector<size_t> expected(there.begin(), there.end());
    std::sort(expected.begin(), expected.end());
    ASSERT_EQ(passed, expected) << "step " << step;
    if (there.empty()) {
      ASSERT_EQ(std::memcmp(reinterpret_cast<void*>(site(number)), &before_[number * kSiteRoom],
                            kSiteRoom),
                0);
    }
  }
}

TEST_F(SharedSites, ShowTheProgramsOwnBytes) {
  const auto journal = journal_of(0, ProbeEntry::Kind::count);
  write(OtherSites::arming(journal.sites[3], {}));
  const layout::Session* const journals[] = {&journal};
  const OtherSites sites(journals, memory());
  for (size_t from = 0; from < 3 * kSiteRoom; ++from) {
    std::vector<uint8_t> bytes(40);
    std::memcpy(bytes.data(), memory_ + kSiteRoom + from, bytes.size());
    sites.put_back(site(1) + from, bytes);
    ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(),
                           before_.begin() + static_cast<ptrdiff_t>(kSiteRoom + from)))
        << from;
  }
}

// A session leaves, and its jump gives way to that of the next one, which was not in the text
// before.
TEST_F(SharedSites, ShowTheProgramsOwnBytesOfTextThatHasChangedSince) {
  const auto first = journal_of(0, ProbeEntry::Kind::count);
  const layout::Session* const journals[] = {&first};
  auto bytes = before_;
  const OtherSites sites(journals, memory());
  write(OtherSites::arming(first.sites[3], {}));
  std::memcpy(bytes.data(), memory_, bytes.size());
  ASSERT_NE(bytes, before_);
  sites.put_back(site(0), bytes);
  EXPECT_NE(bytes, before_) << "as far as it knows, nothing of the session is in the text";
  sites.put_all_back(memory(), site(0), bytes);
  EXPECT_EQ(bytes, before_);
}

TEST_F(SharedSites, OfASessionThatIsOutAlreadyHaveNothingToTakeOut) {
  auto first = journal_of(0, ProbeEntry::Kind::count);
  auto second = journal_of(1, ProbeEntry::Kind::count);
  write(OtherSites::arming(first.sites[0], {}));
  const layout::Session* const journals[] = {&first};
  const OtherSites sites(journals, memory());
  EXPECT_FALSE(sites.disarming(memory(), second.sites[0]));
  EXPECT_EQ(sites.last_at(memory(), second.sites[0])->entry.target(), stub(0, 0));
}

// A thread may be in a stub that was taken out of the list before its next one is.
TEST_F(SharedSites, LeadNoThreadFromAStubThatIsOutIntoOneThatIsUnmapped) {
  std::vector<layout::Session> journals;
  journals.reserve(3);
  for (size_t session = 0; session < 3; ++session) {
    journals.push_back(journal_of(session, ProbeEntry::Kind::count));
    SiteEntry& entry = journals[session].sites[1];
    const bool is_first = session == 0;
    if (!is_first) entry.link = SiteEntry::Link::before_copy;
    std::vector<const layout::Session*> before;
    if (!is_first) before.push_back(&journals[session - 1]);
    const OtherSites sites(before, memory());
    const auto there = sites.in({entry.address, entry.end()});
    Position position;
    if (!there.empty()) {
      position = sites.position_for(memory(), *there.front(), false);
      const Address link = stub(session, 1) + 10;
      const auto bytes = arch::encode_link(link, position.below);
      std::memcpy(reinterpret_cast<void*>(link), bytes->data(), bytes->size());
    }
    write(OtherSites::arming(entry, position));
  }
  ASSERT_EQ(followed(1, journals), (std::vector<size_t>{2, 1, 0}));
  const auto led_on = [&](size_t session) {
    arch::LinkBytes link;
    const Address at = stub(session, 1) + 10;
    std::memcpy(link.data(), reinterpret_cast<const void*>(at), link.size());
    return *arch::link_target(at, link);
  };
  // Ends the session, of which the memory stays.
  const auto end = [&](size_t session) {
    std::vector<const layout::Session*> others;
    for (size_t other = 0; other < 3; ++other)
      if (other != session) others.push_back(&journals[other]);
    const OtherSites sites(others, memory());
    for (const patch::TextEdit& edit : sites.leading_around(memory(), journals[session].sites[1]))
      write(edit);
    write(sites.disarming(memory(), journals[session].sites[1]));
    journals[session].header.state = layout::SessionState::disarmed;
  };
  end(2);
  EXPECT_EQ(led_on(2), stub(1, 1)) << "it is still there";
  end(1);
  EXPECT_EQ(led_on(2), stub(0, 1));
  EXPECT_EQ(led_on(1), stub(0, 1));
  end(0);
  EXPECT_EQ(led_on(2), 0u);
  EXPECT_EQ(led_on(1), 0u);
}

// Its hooks stay as long as a thread is in a stub, and with them its state. The thread goes on
// after the window: no jump may lie there.
TEST_F(SharedSites, OfAnArmedSessionWhoseTextIsRestoredMayHaveAThreadThatGoesOnAfterThem) {
  const layout::Session journal = journal_of(0, ProbeEntry::Kind::latency);
  const SiteEntry& entry = journal.sites[0];
  const Range over_its_end = {entry.address + entry.displaced - 1,
                              entry.address + entry.displaced + 4};
  const std::vector<const layout::Session*> journals = {&journal};
  EXPECT_TRUE(OtherSites(journals, memory()).may_continue_inside(over_its_end));
  write(OtherSites::arming(entry, {}));
  EXPECT_FALSE(OtherSites(journals, memory()).may_continue_inside(over_its_end));
}

TEST_F(SharedSites, CannotHaveOneWhoseJumpLeadsElsewhereFirst) {
  auto journal = journal_of(0, ProbeEntry::Kind::count);
  write(OtherSites::arming(journal.sites[0], {}));
  journal.mappings[0].kind = MappingEntry::Kind::islands;
  const layout::Session* const journals[] = {&journal};
  const OtherSites sites(journals, memory());
  const auto found = sites.in({site(0), site(0) + 1});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0]->is_shareable);
}

}  // namespace
}  // namespace pinprick::engine
