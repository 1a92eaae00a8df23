// Which sites can be restored when some probes go: random journals, against the rule read
// literally. And a thread that waits in a copy of what is restored. That counts stay right on a
// live process is tested by tests/survive/model_test.cc.
#include "engine/removal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "arch/syscall.h"
#include "base/fd.h"
#include "engine/arming_by_pattern.h"
#include "scratch.h"
#include "target/stop.h"

namespace pinprick::engine {
namespace {

using layout::SiteEntry;

struct Case {
  layout::Session journal;
  std::vector<bool> removed;
};

// A few sites close to each other: long jumps and puns, short ones with a trampoline as the next
// entry, hooks, and sites that are not in the text.
Case any_case(std::mt19937_64& random) {
  Case one;
  const size_t wanted = 1 + random() % 6;
  while (one.journal.sites.size() < wanted) {
    SiteEntry site;
    site.address = 0x1000 + random() % 60;
    const bool is_short = random() % 4 == 0;
    site.length = is_short ? 2 : 5;
    site.own = random() % 3 == 0 ? 1 : site.length;
    site.displaced = static_cast<uint8_t>(1 + random() % 8);
    site.jump = 0x100;
    if (random() % 12 == 0) site.phase = SiteEntry::Phase::left_out;
    if (random() % 12 == 0) site.phase = SiteEntry::Phase::gone;
    const auto number = static_cast<uint32_t>(one.journal.sites.size());
    if (is_short) {
      SiteEntry trampoline;
      trampoline.address = site.address + 20 + random() % 40;
      trampoline.length = trampoline.own = 5;
      trampoline.phase = site.phase;
      trampoline.jump = 0x200;
      site.jump = static_cast<int32_t>(trampoline.address - site.end());
      one.journal.sites.insert(one.journal.sites.end(), {site, trampoline});
    } else {
      one.journal.sites.push_back(site);
    }
    for (uint64_t probes = random() % 3; probes > 0; --probes) {
      layout::ProbeEntry probe;
      probe.site = number;
      one.journal.probes.push_back(probe);
      one.removed.push_back(random() % 3 != 0);
    }
  }
  return one;
}

bool is_in_text(const SiteEntry& site) {
  return site.phase != SiteEntry::Phase::left_out && site.phase != SiteEntry::Phase::gone;
}

bool is_trampoline_of(const layout::Session& journal, size_t site, size_t head) {
  return head == site + 1 && journal.sites[site].displaced != 0 &&
         journal.sites[head].displaced == 0 &&
         journal.sites[site].target() == journal.sites[head].address;
}

bool hang_together(const layout::Session& journal, size_t a, size_t b) {
  const auto end = [](const SiteEntry& site) {
    return site.address + (site.length > site.displaced ? site.length : site.displaced);
  };
  const SiteEntry &one = journal.sites[a], &other = journal.sites[b];
  return (one.address < end(other) && other.address < end(one)) ||
         is_trampoline_of(journal, a, b) || is_trampoline_of(journal, b, a);
}

// Is the site needed by a probe that stays, or is it a hook's?
bool is_needed(const Case& one, size_t site) {
  bool has_probe = false;
  for (size_t i = 0; i < one.journal.probes.size(); ++i) {
    if (one.journal.probes[i].site != site) continue;
    if (!one.removed[i]) return true;
    has_probe = true;
  }
  return !has_probe && (site == 0 || !is_trampoline_of(one.journal, site - 1, site));
}

// The sites that hang together with it, step by step, until there are no more.
std::vector<bool> together_with(const Case& one, size_t site) {
  const auto& sites = one.journal.sites;
  std::vector<bool> reached(sites.size());
  reached[site] = true;
  for (bool is_more = true; is_more;) {
    is_more = false;
    for (size_t a = 0; a < sites.size(); ++a)
      for (size_t b = 0; b < sites.size(); ++b)
        if (reached[a] && !reached[b] && is_in_text(sites[b]) && hang_together(one.journal, a, b))
          reached[b] = is_more = true;
  }
  return reached;
}

bool can_be_restored(const Case& one, size_t site) {
  if (!is_in_text(one.journal.sites[site])) return false;
  const std::vector<bool> reached = together_with(one, site);
  for (size_t i = 0; i < reached.size(); ++i)
    if (reached[i] && is_needed(one, i)) return false;
  return true;
}

TEST(Removal, RestoresASiteExactlyIfNoProbeThatStaysNeedsIt) {
  std::mt19937_64 random(20);
  size_t restored = 0, left = 0;
  for (int i = 0; i < 100'000; ++i) {
    const Case one = any_case(random);
    const auto without = sites_without_probes(one.journal, one.removed);
    ASSERT_EQ(without.size(), one.journal.sites.size());
    for (size_t site = 0; site < without.size(); ++site) {
      ASSERT_EQ(without[site], can_be_restored(one, site)) << "case " << i << ", site " << site;
      ++(without[site] ? restored : left);
    }
  }
  EXPECT_GT(restored, 10'000u);
  EXPECT_GT(left, 10'000u);
}

TEST(Removal, NumbersSitesAlikeExactlyIfTheyHangTogether) {
  std::mt19937_64 random(21);
  for (int i = 0; i < 20'000; ++i) {
    const Case one = any_case(random);
    const auto number = sites_restored_together(one.journal);
    ASSERT_EQ(number.size(), one.journal.sites.size());
    for (size_t a = 0; a < number.size(); ++a) {
      if (!is_in_text(one.journal.sites[a])) continue;
      const auto reached = together_with(one, a);
      for (size_t b = 0; b < number.size(); ++b) {
        if (!is_in_text(one.journal.sites[b])) continue;
        ASSERT_EQ(number[a] == number[b], reached[b]) << "case " << i << ", " << a << ", " << b;
      }
    }
  }
}

TEST(Removal, NumbersThePointsOfSpansAlike) {
  layout::Session journal;
  for (uint32_t i = 0; i < 4; ++i) {
    SiteEntry site;
    site.address = 0x1000 * (i + 1);
    site.length = site.own = 5;
    site.displaced = 5;
    journal.sites.push_back(site);
    layout::ProbeEntry probe;
    probe.site = i;
    probe.kind = i < 2 ? layout::ProbeEntry::Kind::span : layout::ProbeEntry::Kind::count;
    journal.probes.push_back(probe);
  }
  const auto number = sites_restored_together(journal);
  EXPECT_EQ(number[0], number[1]);
  EXPECT_EQ(std::set<uint32_t>(number.begin(), number.end()).size(), 3u);
}

// Makes a system call within a window, and another function beside it.
extern "C" {
long removal_reads(int fd, void* to, unsigned long size);
long removal_stays(long x);
extern const uint8_t removal_reads_end[];
}
asm(R"(
  .text
  .type removal_reads, @function
removal_reads:
  xorl %eax, %eax
  syscall
  testq %rax, %rax
  nop
  ret
removal_reads_end:
  .size removal_reads, . - removal_reads
  .balign 16
  .type removal_stays, @function
removal_stays:
  leaq 3(%rdi), %rax
  ret
  .size removal_stays, . - removal_stays
)");

class Waiting : public testing::Test {
 protected:
  Waiting() {
    ::setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1);
    int to[2], from[2];
    if (::pipe(to) != 0 || ::pipe(from) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      char word = 0;
      // No thread may be in the function while it is probed.
      if (::read(to[0], &word, 1) != 1) ::_exit(1);
      while (removal_reads(to[0], &word, 1) == 1) {
        const char answer = removal_stays(word) == word + 3 ? 'y' : 'n';
        if (::write(from[1], &answer, 1) != 1) break;
      }
      ::_exit(0);
    }
    ::close(to[0]);
    ::close(from[1]);
    in_ = Fd(to[1]);
    out_ = Fd(from[0]);
  }
  ~Waiting() override {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  bool begins() { return ::write(in_.get(), "b", 1) == 1; }
  char ask() {
    char word = 'w';
    if (::write(in_.get(), &word, 1) != 1 || ::read(out_.get(), &word, 1) != 1) return 0;
    return word;
  }
  // Where its thread is, once it waits for the next word. Its answer may be on its way before that.
  Address waits_at() const {
    for (;;) {
      auto stop = target::Stop::all_threads(pid_);
      if (!stop) return 0;
      const auto& thread = stop->threads()[0];
      if (arch::in_system_call(thread.registers) &&
          arch::syscall_number(thread.registers) == SYS_read)
        return thread.instruction_pointer();
    }
  }
  static bool is_in_text(Address at) {
    return at >= reinterpret_cast<Address>(&removal_reads) &&
           at < reinterpret_cast<Address>(removal_reads_end);
  }

  const Scratch folder_;
  pid_t pid_ = 0;
  Fd in_, out_;
  ArmingByPattern arming_;
};

TEST_F(Waiting, AThreadInACopyOfWhatIsRestoredGoesOnInTheText) {
  auto session = arming_.arm(pid_, placement::Kind::count, "removal_*", Sites::each_instruction);
  ASSERT_TRUE(session);
  std::vector<uint32_t> removed;
  for (uint32_t i = 0; i < session->probes().size(); ++i)
    if (session->name_of(session->probes()[i]).function == "removal_reads") removed.push_back(i);
  ASSERT_EQ(removed.size(), 5u);
  ASSERT_TRUE(begins());
  ASSERT_EQ(ask(), 'y');
  ASSERT_FALSE(is_in_text(waits_at())) << "the next call is made from a copy";
  const auto report = session->remove(removed);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->removed, 5u);
  EXPECT_EQ(report->staying, 0u);
  EXPECT_GT(report->restored, 0u);
  EXPECT_TRUE(is_in_text(waits_at()));
  const auto before = session->counters();
  EXPECT_EQ(ask(), 'y');
  const auto after = session->counters();
  for (uint32_t i = 0; i < after.size(); ++i) {
    const bool is_removed = std::find(removed.begin(), removed.end(), i) != removed.end();
    EXPECT_EQ(after[i], before[i] + (is_removed ? 0 : 1)) << i;
  }
  const auto gone = session->disarm();
  ASSERT_TRUE(gone);
  EXPECT_FALSE(gone->memory_left);
  EXPECT_EQ(ask(), 'y');
}

}  // namespace
}  // namespace pinprick::engine
