// What attached sessions are told of the bytes under probes: they plan as if these were in the
// text.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "library/functions.h"
#include "library/place.h"
#include "library/write_text.h"
#include "patch/text_owner.h"
#include "pinprick/probe.h"

namespace pinprick {
namespace {

// The sites of this process at an address that say which bytes they replace.
std::vector<layout::OwnSite> told_of(const void* address) {
  const auto maps = image::read_maps(::getpid());
  auto sites = patch::OwnProbes::read(*target::Memory::open(::getpid()), *maps).sites();
  std::erase_if(sites, [&](const layout::OwnSite& site) {
    return site.address != reinterpret_cast<Address>(address) || site.written == 0;
  });
  return sites;
}

// The library reads all text of this program now. What changes later, it plans from other bytes.
void have_text_read() {
  const Probe elsewhere = place({.where = self_nop, .pre = [](Registers&) {}});
}

TEST(SharedText, IsToldOfAsItIsAndNotAsItWasRead) {
  have_text_read();
  const auto* const function = reinterpret_cast<const uint8_t*>(inside(self_insn, 0));
  const uint8_t original = function[1];
  write_text(function + 1, static_cast<uint8_t>(original + 1));
  const std::vector<uint8_t> text(function, function + 5);
  {
    int hits = 0;
    const Probe probe = place({.where = self_insn, .pre = [&](Registers&) { ++hits; }});
    EXPECT_EQ(self_insn(1), 1002);
    EXPECT_EQ(hits, 1);
    const auto told = told_of(function);
    ASSERT_FALSE(told.empty());
    for (const layout::OwnSite& site : told)
      EXPECT_TRUE(std::equal(site.original, site.original + site.written, text.begin()));
  }
  write_text(function + 1, original);
}

TEST(SharedText, IsNotToldOfWhereAProbeIsRefused) {
  have_text_read();
  const auto* const function = reinterpret_cast<const uint8_t*>(inside(self_window, 0));
  constexpr uint8_t kBreakpoint = 0xcc;
  const uint8_t original = *function;
  write_text(function, kBreakpoint);
  const auto refused = Probe::place({.where = self_window, .pre = [](Registers&) {}});
  EXPECT_FALSE(refused);
  EXPECT_TRUE(told_of(function).empty());
  write_text(function, original);
}

}  // namespace
}  // namespace pinprick
