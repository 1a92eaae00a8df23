// Which sites can be restored when some probes go: random journals, against the rule read
// literally. That threads and counts stay right is tested on a live process
// (tests/survive/model_test.cc).
#include "engine/removal.h"

#include <gtest/gtest.h>

#include <random>

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
bool can_be_restored(const Case& one, size_t site) {
  const auto& sites = one.journal.sites;
  if (!is_in_text(sites[site])) return false;
  std::vector<bool> reached(sites.size());
  reached[site] = true;
  for (bool is_more = true; is_more;) {
    is_more = false;
    for (size_t a = 0; a < sites.size(); ++a)
      for (size_t b = 0; b < sites.size(); ++b)
        if (reached[a] && !reached[b] && is_in_text(sites[b]) && hang_together(one.journal, a, b))
          reached[b] = is_more = true;
  }
  for (size_t i = 0; i < sites.size(); ++i)
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

}  // namespace
}  // namespace pinprick::engine
