// The planner over whole libraries: checks its promises for every patch by other means.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "arch/disassembler.h"
#include "arch/stub.h"
#include "bytes.h"
#include "image/process.h"
#include "library_path.h"
#include "plan/function_plan.h"
#include "plan/planner.h"

namespace pinprick::plan {
namespace {

class Library {
 public:
  explicit Library(const std::string& soname) {
    auto process = image::load_file(library_path(soname));
    EXPECT_TRUE(process) << soname;
    if (process) image_ = *std::move(process);
    object().targets();  // decodes all text
  }
  image::Object& object() { return *image_.objects[0]; }
  const std::vector<image::Function>& functions() { return object().functions().functions(); }

  FunctionCode code(const image::Function& function) {
    FunctionCode code;
    code.range = function.range;
    code.bytes = object().code(function);
    code.targets = &object().targets();
    code.reserved = object().reserved();
    return code;
  }

 private:
  image::ProcessImage image_;
};

class Libraries : public testing::TestWithParam<const char*> {
 protected:
  // Returns where capstone sees instructions start, from `begin` up to `end` or a little further.
  std::vector<Address> boundaries(const FunctionCode& code, Address begin, Address end) {
    std::vector<Address> all;
    while (begin < end) {
      all.push_back(begin);
      const size_t length =
          disassembler.length(code.bytes.subspan(begin - code.range.begin), begin);
      if (length == 0) return {};  // does not know it: arch/boundaries_test.cc compares with care
      begin += length;
    }
    all.push_back(begin);
    return all;
  }

  // `is_depended_on`: a trampoline lies in its window.
  void check(const FunctionCode& code, const Patch& patch, bool is_depended_on = false) {
    SCOPED_TRACE(testing::Message() << std::hex << patch.site);
    ASSERT_TRUE(code.range.contains(patch.site));
    ASSERT_GE(patch.displaced, 1);
    const Address written_end = patch.site + patch.written;
    const Address displaced_end = patch.site + patch.displaced;
    ASSERT_LE(std::max(written_end, displaced_end), code.limit());
    ASSERT_LE(displaced_end, code.range.end);
    for (Address a = patch.site; a < std::max(written_end, displaced_end); ++a)
      ASSERT_EQ(patch.original[a - patch.site], code.bytes[a - code.range.begin]);
    // Nothing branches in after the first byte; into a single instruction, after the jump.
    const bool is_single =
        arch::decode(patch.displaced_bytes(), patch.site)->end() == displaced_end;
    const Address closed_end =
        is_single && !is_depended_on ? written_end : std::max(written_end, displaced_end);
    for (Address a = patch.site + 1; a < closed_end; ++a) ASSERT_FALSE(code.targets->contains(a));
    const auto starts = boundaries(code, patch.site, displaced_end);
    if (starts.empty()) return;
    ASSERT_EQ(starts.back(), displaced_end) << "displaces a part of an instruction";
    std::vector<uint8_t> inside;
    for (Address begin : starts)
      if (begin > patch.site &&
          begin < (is_depended_on ? displaced_end : std::min(written_end, displaced_end)))
        inside.push_back(static_cast<uint8_t>(begin - patch.site));
    ASSERT_EQ(patch.boundaries, inside);
    // And a stub can be emitted for it.
    arch::Assembler stub(patch.site + (1 << 30));
    arch::ArenaEntries arena;
    arena.locked_count = stub.here();
    const arch::StubAction counts = {.what = arch::CountHit{}};
    arch::emit_stub(stub, arena, {.actions = {&counts, 1}}, {patch.site, patch.displaced_bytes()});
    ASSERT_TRUE(stub.finish());
  }

  arch::Disassembler disassembler;
};
INSTANTIATE_TEST_SUITE_P(Real, Libraries, testing::Values("libc.so.6", "libstdc++.so.6"),
                         [](const auto& library) {
                           return library.param[3] == 'c' ? "libc" : "libstdcxx";
                         });

TEST_P(Libraries, YieldTheSamePlanFromAnyBoundaryAsFromTheStart) {
  Library library(GetParam());
  size_t inside = 0, compared = 0;
  for (const image::Function& function : library.functions()) {
    if (function.range.size() > 512) continue;
    const FunctionCode code = library.code(function);
    const auto known = plan::boundaries(code);
    for (Address site = code.range.begin; site < code.range.end; ++site) {
      const Address boundary = *std::prev(std::upper_bound(known.begin(), known.end(), site));
      const auto expected = plan_site(code, site);
      const auto planned = plan_site(code, site, boundary);
      ASSERT_EQ(bool(planned), bool(expected)) << std::hex << site;
      if (!planned) {
        ASSERT_EQ(planned.error().reason, expected.error().reason) << std::hex << site;
        ASSERT_EQ(planned.error().where, expected.error().where) << std::hex << site;
        inside += planned.error().reason == Reason::mid_instruction;
      } else {
        ASSERT_EQ(planned->site, expected->site);
        ASSERT_EQ(planned->original, expected->original);
        ++compared;
      }
    }
  }
  EXPECT_GT(inside, 10'000u);
  EXPECT_GT(compared, 10'000u);
}

TEST_P(Libraries, KeepThePromisesAtEveryEntryAndAcceptNearlyAll) {
  Library library(GetParam());
  size_t planned = 0;
  std::map<std::string_view, size_t> refused;
  for (const image::Function& function : library.functions()) {
    const FunctionCode code = library.code(function);
    const auto patch = plan_site(code, function.range.begin);
    if (patch) {
      ++planned;
      ASSERT_NO_FATAL_FAILURE(check(code, *patch));
    } else {
      ++refused[name(patch.error().reason)];
    }
  }
  EXPECT_GT(planned, 0.98 * static_cast<double>(library.functions().size()))
      << testing::PrintToString(refused);
}

TEST_P(Libraries, KeepThePromisesAtEveryInstructionAndAcceptNineInTen) {
  Library library(GetParam());
  size_t sites = 0, planned = 0;
  std::map<std::string_view, size_t> refused;
  for (const image::Function& function : library.functions()) {
    // Each site is decoded from the start of its function: a sample of the giant ones is enough.
    constexpr uint64_t kMost = 1000;
    const FunctionCode code = library.code(function);
    for (Address site = function.range.begin; site < function.range.end;) {
      if (site - function.range.begin > kMost) break;
      const auto instruction = arch::decode(code.bytes.subspan(site - code.range.begin), site);
      if (!instruction) break;
      ++sites;
      const auto patch = plan_site(code, site);
      if (patch) {
        ++planned;
        ASSERT_NO_FATAL_FAILURE(check(code, *patch));
      } else {
        ++refused[name(patch.error().reason)];
      }
      site = instruction->end();
    }
  }
  EXPECT_GT(sites, 100'000u);
  EXPECT_GT(planned, 0.9 * static_cast<double>(sites)) << testing::PrintToString(refused);
  EXPECT_EQ(refused["mid_instruction"], 0u);
  EXPECT_EQ(refused["outside"], 0u);
}

// --- plan_function

bool in_one_page(Address begin, Address end) {
  return align_down(begin, kPageSize) == align_down(end - 1, kPageSize);
}

class FunctionPlans : public Libraries {
 protected:
  void check_plan(const FunctionCode& code, const std::vector<Address>& sites,
                  const FunctionPlan& plan) {
    std::multiset<Address> answered;
    for (const auto& [site, refusal] : plan.refused) answered.insert(site);
    for (const PlannedPatch& planned : plan.patches)
      for (uint8_t point : planned.points) answered.insert(planned.patch.site + point);
    ASSERT_EQ(std::vector<Address>(answered.begin(), answered.end()), sites)
        << "each site is probed once or refused once";

    std::vector<Range> taken;
    for (size_t i = 0; i < plan.patches.size(); ++i) {
      const PlannedPatch& planned = plan.patches[i];
      SCOPED_TRACE(testing::Message() << std::hex << planned.patch.site);
      ASSERT_NO_FATAL_FAILURE(check_patch(code, plan, planned));
      taken.push_back(planned.patch.touched());
      if (planned.trampoline && !planned.depends_on) taken.push_back(board(planned));
    }
    std::sort(taken.begin(), taken.end());
    for (size_t i = 1; i < taken.size(); ++i)
      ASSERT_LE(taken[i - 1].end, taken[i].begin) << std::hex << taken[i].begin;
    ASSERT_NO_FATAL_FAILURE(check_dependents(plan));
  }

 private:
  static Range board(const PlannedPatch& planned) {
    return {planned.trampoline->address, planned.trampoline->address + arch::kJumpLength};
  }

  void check_patch(const FunctionCode& code, const FunctionPlan& plan,
                   const PlannedPatch& planned) {
    const Patch& patch = planned.patch;
    const bool is_depended_on =
        std::any_of(plan.patches.begin(), plan.patches.end(), [&](const PlannedPatch& dependent) {
          return dependent.depends_on && &plan.patches[*dependent.depends_on] == &planned;
        });
    ASSERT_NO_FATAL_FAILURE(check(code, patch, is_depended_on));
    ASSERT_TRUE(in_one_page(patch.site, patch.site + patch.written));
    ASSERT_EQ(patch.written, planned.trampoline ? arch::kShortJumpLength : arch::kJumpLength);
    ASSERT_TRUE(is_depended_on || !planned.points.empty()) << "it has no purpose";
    ASSERT_TRUE(std::is_sorted(planned.points.begin(), planned.points.end()));
    const auto starts = boundaries(code, patch.site, patch.site + patch.displaced);
    for (uint8_t point : planned.points) {
      ASSERT_LT(point, patch.displaced);
      ASSERT_TRUE(starts.empty() ||
                  std::binary_search(starts.begin(), starts.end(), patch.site + point))
          << +point;
    }
    if (planned.trampoline) check_trampoline(code, plan, planned);
  }

  void check_trampoline(const FunctionCode& code, const FunctionPlan& plan,
                        const PlannedPatch& planned) {
    const Range board = this->board(planned);
    const auto distance =
        static_cast<int64_t>(board.begin - planned.patch.site - arch::kShortJumpLength);
    ASSERT_TRUE(distance >= -128 && distance <= 127) << distance;
    ASSERT_TRUE(in_one_page(board.begin, board.end));
    ASSERT_LE(board.end, code.limit());
    for (Address a = board.begin; a < board.end; ++a) {
      ASSERT_FALSE(code.targets->contains(a));
      ASSERT_EQ(planned.trampoline->original[a - board.begin], code.bytes[a - code.range.begin]);
    }
    for (Range reserved : code.reserved) ASSERT_FALSE(reserved.overlaps(board));
    if (!planned.depends_on) return;
    ASSERT_LT(*planned.depends_on, plan.patches.size());
    const Patch& depends_on = plan.patches[*planned.depends_on].patch;
    ASSERT_FALSE(plan.patches[*planned.depends_on].trampoline);
    ASSERT_GE(board.begin, depends_on.site + depends_on.written);
    ASSERT_LE(board.end, depends_on.site + depends_on.displaced);
    ASSERT_TRUE(in_one_page(depends_on.site, board.end))
        << "written with the jump that it depends on";
  }

  // Trampolines in one window do not overlap.
  static void check_dependents(const FunctionPlan& plan) {
    std::vector<Range> boards;
    for (const PlannedPatch& planned : plan.patches)
      if (planned.trampoline) boards.push_back(board(planned));
    std::sort(boards.begin(), boards.end());
    for (size_t i = 1; i < boards.size(); ++i) ASSERT_LE(boards[i - 1].end, boards[i].begin);
  }
};
INSTANTIATE_TEST_SUITE_P(Real, FunctionPlans, testing::Values("libc.so.6", "libstdc++.so.6"),
                         [](const auto& library) {
                           return library.param[3] == 'c' ? "libc" : "libstdcxx";
                         });

// Sites whose function has unresolved jumps do not count: in vfprintf and similar functions hardly
// anything can be displaced.
class Share {
 public:
  void add(const FunctionPlan& plan) {
    for (const PlannedPatch& planned : plan.patches) probed_ += planned.points.size();
    for (const auto& [site, refusal] : plan.refused) ++refused_[name(refusal.reason)];
  }
  size_t sites() const {
    size_t all = probed_;
    for (const auto& [reason, count] : refused_)
      if (reason != name(Reason::indirect_jumps)) all += count;
    return all;
  }
  double probed() const { return static_cast<double>(probed_) / static_cast<double>(sites()); }
  std::string refused() const { return testing::PrintToString(refused_); }

 private:
  size_t probed_ = 0;
  std::map<std::string_view, size_t> refused_;
};

TEST_P(FunctionPlans, OfAllInstructionsTogetherKeepThePromisesAndAcceptNearlyAll) {
  Library library(GetParam());
  Share share;
  for (const image::Function& function : library.functions()) {
    const FunctionCode code = library.code(function);
    const auto sites = instructions(code);
    const FunctionPlan plan = plan_function(code, sites, Placing::anywhere);
    ASSERT_NO_FATAL_FAILURE(check_plan(code, sites, plan)) << std::hex << function.range.begin;
    share.add(plan);
  }
  EXPECT_GT(share.sites(), 200'000u);
  EXPECT_GE(share.probed(), 0.99) << share.refused();
}

TEST_P(FunctionPlans, OfEachInstructionAloneKeepThePromisesAndAcceptNearlyAll) {
  Library library(GetParam());
  Share share;
  for (const image::Function& function : library.functions()) {
    // Each site is decoded from the start of its function: a sample of the giant ones is enough.
    constexpr size_t kMost = 200;
    const FunctionCode code = library.code(function);
    auto sites = instructions(code);
    sites.resize(std::min(sites.size(), kMost));
    for (Address site : sites) {
      const FunctionPlan plan = plan_function(code, {&site, 1}, Placing::anywhere);
      ASSERT_NO_FATAL_FAILURE(check_plan(code, {site}, plan)) << std::hex << site;
      share.add(plan);
    }
  }
  EXPECT_GT(share.sites(), 100'000u);
  EXPECT_GE(share.probed(), 0.99) << share.refused();
}

}  // namespace
}  // namespace pinprick::plan
