// Probes with handlers in this process, through the public interface only.
#include "pinprick/probe.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "call_with_registers.h"
#include "library/functions.h"
#include "library/place.h"

namespace pinprick {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Cause cause_of(ProbeSpec spec) {
  auto probe = Probe::place(std::move(spec));
  EXPECT_FALSE(probe.ok());
  return probe ? Cause::system : probe.error().cause;
}

const Handler kNothing = [](Registers&) {};

TEST(Probe, RunsItsHandlerAtEachCallAndLeavesTheResultAlone) {
  int hits = 0;
  const Probe probe = place({.where = self_window, .pre = [&](Registers&) { ++hits; }});
  EXPECT_EQ(self_window(10, 7), 37);
  EXPECT_EQ(self_window(1, 1), 4);
  EXPECT_EQ(hits, 2);
  EXPECT_EQ(probe.placement(), Placement::jump);
}

TEST(Probe, IsRemovedByItsDestructor) {
  int hits = 0;
  {
    const Probe probe = place({.where = self_window, .pre = [&](Registers&) { ++hits; }});
  }
  EXPECT_EQ(self_window(10, 7), 37);
  EXPECT_EQ(hits, 0);
}

TEST(Probe, LeavesTheTextAsItWas) {
  const auto* text = reinterpret_cast<const uint8_t*>(&self_pushes);
  const std::vector<uint8_t> before(text, text + 16);
  {
    const Probe probe = place({.where = self_pushes, .pre = kNothing});
    EXPECT_NE(std::vector<uint8_t>(text, text + 16), before);
  }
  EXPECT_EQ(std::vector<uint8_t>(text, text + 16), before);
}

TEST(Probe, WorksRepeatedlyOnEveryShapeOfFunction) {
  for (int round = 0; round < 3; ++round) {
    int hits = 0;
    std::vector<ProbeSpec> specs;
    for (auto* function : {self_insn, self_nop, self_marked, self_pushes, self_factorial})
      specs.push_back({.where = function, .pre = [&](Registers&) { ++hits; }});
    const auto probes = must(Probe::place(std::move(specs)));
    EXPECT_EQ(self_insn(5), 1005);
    EXPECT_EQ(self_nop(5), 6);
    EXPECT_EQ(self_marked(5), 7);
    EXPECT_EQ(self_pushes(5), 6);
    EXPECT_EQ(self_factorial(4), 24);
    EXPECT_EQ(hits, 4 + 4);
  }
}

TEST(Probe, ChangesNoRegisterAndNoFlag) {
  const Probe probe =
      place({.where = self_nop, .pre = [](Registers&) {
               volatile double x = 3.0;
               x = x / 7.0;
               asm volatile("stc"
                            :
                            :
                            : "cc", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11");
             }});
  for (uint64_t flags : {uint64_t{0}, kArithmeticFlags}) {
    CallRegisters registers = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, flags};
    CallRegisters after = registers;
    call_with_registers(reinterpret_cast<void*>(self_nop), &after);
    EXPECT_EQ(after.rax, 7u);
    EXPECT_EQ(after.flags & kArithmeticFlags, flags);
    after.rax = registers.rax;
    after.flags = registers.flags;
    EXPECT_EQ(std::memcmp(&after, &registers, sizeof after), 0);
  }
}

TEST(Probe, LeavesTheRedZoneAlone) {
  const void* const address_of_nop = inside(self_below, 10);
  const Probe probe = place({.where = address_of_nop, .pre = kNothing});
  ASSERT_EQ(probe.address(), address_of_nop);
  EXPECT_EQ(self_below(21), 42);
}

TEST(Probe, ClearsTheDirectionFlagForHandlers) {
  constexpr uint64_t kDirection = 0x400;
  uint64_t flags = 0;
  const Probe probe = place({.where = inside(self_backward, 1), .pre = [&](Registers&) {
                               asm volatile("pushfq; popq %0" : "=r"(flags));
                             }});
  EXPECT_EQ(static_cast<uint64_t>(self_backward()) & kDirection, kDirection);
  EXPECT_EQ(flags & kDirection, 0u);
}

TEST(Probe, PreservesVectorRegistersWhateverItsHandlerDoes) {
  const Probe probe = place({.where = self_half, .pre = [](Registers&) {
                               asm volatile("pxor %%xmm0, %%xmm0" : : : "xmm0");
                             }});
  const ReturnProbe other =
      place(ReturnProbeSpec{.where = self_half, .on_return = [](Registers&) {
                              asm volatile("pxor %%xmm0, %%xmm0" : : : "xmm0");
                            }});
  EXPECT_EQ(self_half(3.0), 1.5);
}

TEST(Registers, ShowAndChangeArguments) {
  std::vector<uint64_t> seen;
  const Probe probe = place({.where = self_seven, .pre = [&](Registers& registers) {
                               for (size_t i = 0; i < 7; ++i) seen.push_back(registers.argument(i));
                               registers.set_argument(6, 70);
                             }});
  EXPECT_EQ(self_seven(1, 2, 3, 4, 5, 6, 7), 70);
  EXPECT_THAT(seen, ElementsAre(1, 2, 3, 4, 5, 6, 7));
}

TEST(Registers, ShowAndChangeFloatingPointArguments) {
  double seen = 0;
  const Probe probe = place({.where = self_half, .pre = [&](Registers& registers) {
                               seen = registers.vector(0);
                               registers.set_vector(0, 10.0);
                             }});
  EXPECT_EQ(self_half(3.0), 5.0);
  EXPECT_EQ(seen, 3.0);
}

TEST(Registers, SkipTheInstructionIfTheInstructionPointerIsChanged) {
  int later = 0;
  const Probe second = place({.where = self_window, .pre = [&](Registers&) { ++later; }});
  const Probe probe =
      place({.where = self_window,
             .pre =
                 [&](Registers& registers) {
                   registers.rax = 100;
                   registers.ip = reinterpret_cast<uint64_t>(inside(self_window, kSecondOfWindow));
                 },
             .priority = 1});
  EXPECT_EQ(self_window(10, 7), 107);
  EXPECT_EQ(later, 0);
}

TEST(Registers, CanChangeTheInstructionPointerInsideAFunction) {
  const Probe probe = place({.where = "self_call_back+0x4", .pre = [](Registers& registers) {
                               registers.rax = registers.rdi;  // what the instruction does
                               registers.ip += 3;
                             }});
  EXPECT_EQ(self_call_back([](long a) { return a * 2; }, 21), 43);
}

TEST(Handler, IsGivenTypedArguments) {
  long sum = 0;
  double half = 0;
  const Probe first =
      place({.where = self_window,
             .pre = on_call<long(long, long)>([&](long a, long b) { sum = a * 100 + b; })});
  const Probe second =
      place({.where = self_half, .pre = on_call<double(double)>([&](double x) { half = x; })});
  self_window(4, 2);
  self_half(8.5);
  EXPECT_EQ(sum, 402);
  EXPECT_EQ(half, 8.5);
}

[[gnu::noinline]] double passes_many(double a, double b, double c, double d, double e, double f,
                                     double g, double h, double ninth, long i, long j, long k,
                                     long l, long m, long n, long seventh, double tenth) {
  asm volatile("");
  return a + b + c + d + e + f + g + h + ninth + tenth +
         static_cast<double>(i + j + k + l + m + n + seventh);
}

TEST(Handler, IsGivenArgumentsOfAllKindsFromTheStack) {
  double ninth = 0, tenth = 0;
  long seventh = 0;
  const Probe probe =
      place({.where = passes_many,
             .pre = on_call<double(double, double, double, double, double, double, double, double,
                                   double, long, long, long, long, long, long, long, double)>(
                 [&](double, double, double, double, double, double, double, double, double x, long,
                     long, long, long, long, long, long n, double y) {
                   ninth = x;
                   seventh = n;
                   tenth = y;
                 })});
  EXPECT_EQ(passes_many(1, 1, 1, 1, 1, 1, 1, 1, 9, 1, 1, 1, 1, 1, 1, 77, 10), 8 + 9 + 6 + 77 + 10);
  EXPECT_EQ(ninth, 9);
  EXPECT_EQ(seventh, 77);
  EXPECT_EQ(tenth, 10);
}

long integer_sum = 0;
PINPRICK_INTEGER_ONLY void add_up(long a, int b) noexcept {
  integer_sum += a * 100 + b;
}
PINPRICK_INTEGER_ONLY void add_to(Registers& registers, void* user) noexcept {
  *static_cast<uint64_t*>(user) += registers.rdi;
}

bool integer_truth = true;
PINPRICK_INTEGER_ONLY void note_truth(bool truth) noexcept {
  integer_truth = truth;
}

// The ABI leaves the upper bits of a register with a bool undefined.
TEST(Handler, IsGivenBoolsByTheirLowestByte) {
  enum class Truth : bool { no, yes };
  bool argument = true, result = true;
  Truth named = Truth::yes;
  integer_truth = true;
  const Probe typed = place(
      {.where = self_insn, .pre = on_call<long(bool)>([&](bool truth) { argument = truth; })});
  const Probe marked = place({.where = self_insn, .pre = integer_call<&note_truth>()});
  const ReturnProbe returns = place(ReturnProbeSpec{
      .where = self_insn, .on_return = on_return<bool>([&](bool truth) { result = truth; })});
  const ReturnProbe names = place(ReturnProbeSpec{
      .where = self_insn, .on_return = on_return<Truth>([&](Truth truth) { named = truth; })});
  EXPECT_EQ(self_insn(0x1800), 0x1800 + 1000);
  EXPECT_FALSE(argument);
  EXPECT_FALSE(integer_truth);
  EXPECT_TRUE(result);
  EXPECT_EQ(named, Truth::yes);
  EXPECT_EQ(self_insn(24), 0x400);
  EXPECT_TRUE(argument);
  EXPECT_TRUE(integer_truth);
  EXPECT_FALSE(result);
  EXPECT_EQ(named, Truth::no);
}

TEST(Handler, ThatIsIntegerOnlySavesNoVectorState) {
  uint64_t sum = 0;
  integer_sum = 0;
  const Probe typed = place({.where = self_window, .pre = integer_call<&add_up>()});
  const Probe raw = place({.where = self_window, .pre = integer_only<&add_to>(&sum)});
  self_window(3, 4);
  EXPECT_EQ(integer_sum, 304);
  EXPECT_EQ(sum, 3u);
}

TEST(Probe, RunsItsPostHandlerAfterTheInstruction) {
  uint64_t before = 0, after = 0;
  const Probe probe = place({.where = self_window,
                             .pre = [&](Registers& registers) { before = registers.rax; },
                             .post = [&](Registers& registers) { after = registers.rax; }});
  EXPECT_EQ(self_window(10, 7), 37);
  EXPECT_EQ(after, 30u);
  EXPECT_NE(before, 30u);
}

TEST(Probe, RefusesAPostHandlerOnABranch) {
  EXPECT_EQ(cause_of({.where = self_short, .post = kNothing, .allow_breakpoint = true}),
            Cause::refused);
}

TEST(Probe, AddsAPostHandlerToASiteWithProbes) {
  int before = 0, after = 0;
  const Probe first = place({.where = self_window, .pre = [&](Registers&) { ++before; }});
  {
    const Probe second = place({.where = self_window, .post = [&](Registers&) { ++after; }});
    EXPECT_EQ(self_window(1, 1), 4);
  }
  EXPECT_EQ(self_window(1, 1), 4);
  EXPECT_EQ(before, 2);
  EXPECT_EQ(after, 1);
}

TEST(Aggregate, RunsByPriorityThenByAge) {
  std::string order;
  const auto add = [&](char c, int priority) {
    return place({.where = self_window,
                  .pre = [&order, c](Registers&) { order += c; },
                  .priority = priority});
  };
  const Probe b = add('b', 0), c = add('c', 0), a = add('a', 5), d = add('d', -1);
  self_window(1, 1);
  EXPECT_EQ(order, "abcd");
}

TEST(Aggregate, GoesOnWithoutARemovedProbe) {
  std::string order;
  const auto add = [&](char c) {
    return place({.where = self_window, .pre = [&order, c](Registers&) { order += c; }});
  };
  const Probe a = add('a');
  std::optional<Probe> b = add('b');
  const Probe c = add('c');
  b.reset();
  self_window(1, 1);
  EXPECT_EQ(order, "ac");
}

TEST(Probe, RunsNothingWhileItIsDisabled) {
  int hits = 0;
  Probe probe = place({.where = self_window, .pre = [&](Registers&) { ++hits; }, .enabled = false});
  EXPECT_EQ(probe.placement(), Placement::disabled);
  self_window(1, 1);
  EXPECT_EQ(hits, 0);
  ASSERT_TRUE(probe.enable().ok());
  self_window(1, 1);
  EXPECT_EQ(hits, 1);
  ASSERT_TRUE(probe.disable().ok());
  self_window(1, 1);
  EXPECT_EQ(hits, 1);
  EXPECT_EQ(probe.missed(), 0u);
}

TEST(Batch, IsPlacedAsAWholeOrNotAtAll) {
  int hits = 0;
  std::vector<ProbeSpec> specs;
  specs.push_back({.where = self_window, .pre = [&](Registers&) { ++hits; }});
  specs.push_back({.where = "no_such_function_anywhere", .pre = kNothing});
  const auto probes = Probe::place(std::move(specs));
  ASSERT_FALSE(probes.ok());
  EXPECT_EQ(probes.error().cause, Cause::not_found);
  self_window(1, 1);
  EXPECT_EQ(hits, 0);
  EXPECT_THAT(list_probes(), testing::Not(HasSubstr("self_window")));
}

TEST(Where, IsANameWithAnOffset) {
  int hits = 0;
  const Probe probe = place({.where = "self_window+0x4", .pre = [&](Registers&) { ++hits; }});
  EXPECT_EQ(probe.address(), inside(self_window, 4));
  self_window(1, 1);
  EXPECT_EQ(hits, 1);
}

TEST(Where, MeansTheEntryAlsoAfterItsEndbr64) {
  const Probe by_name = place({.where = "self_marked", .pre = kNothing});
  EXPECT_EQ(by_name.address(), inside(self_marked, 4));
}

TEST(Where, CanBeFoundByAPattern) {
  const auto found = must(find_functions("self_*"));
  const auto is_window = [](const Where& where) {
    return *where.address() == reinterpret_cast<const void*>(&self_window);
  };
  EXPECT_EQ(std::count_if(found.begin(), found.end(), is_window), 1);
  EXPECT_EQ(cause_of({.where = "self_*", .pre = kNothing}), Cause::ambiguous);
}

TEST(Refusal, NamesItsCause) {
  EXPECT_EQ(cause_of({.where = inside(self_window, 1), .pre = kNothing}), Cause::refused);
  EXPECT_EQ(cause_of({.where = "self_window+0x1", .pre = kNothing}), Cause::refused);
  EXPECT_EQ(cause_of({.where = "libpinprick:*", .pre = kNothing}), Cause::ambiguous);
  EXPECT_EQ(cause_of({.where = self_window}), Cause::no_handler);
  void (*const null)(Registers&) = nullptr;
  EXPECT_EQ(cause_of({.where = self_window, .pre = null}), Cause::no_handler);
  EXPECT_EQ(cause_of({.where = self_window, .pre = std::function<void(Registers&)>()}),
            Cause::no_handler);
  EXPECT_EQ(cause_of({.where = static_cast<const void*>(&integer_sum), .pre = kNothing}),
            Cause::not_found);
}

TEST(Blacklist, CoversTheLibraryAndAddedFunctions) {
  EXPECT_EQ(cause_of({.where = list_probes, .pre = kNothing}), Cause::blacklisted);
  ASSERT_TRUE(block(self_blocked).ok());
  EXPECT_EQ(cause_of({.where = self_blocked, .pre = kNothing}), Cause::blacklisted);
  EXPECT_THAT(blocked(), HasSubstr("\tself_blocked\n"));
}

TEST(Blacklist, CoversFunctionsThatLibcRunsWithAllSignalsBlocked) {
  EXPECT_EQ(cause_of({.where = "libc:madvise", .pre = kNothing}), Cause::blacklisted);
}

std::string refusal_of(Where where) {
  const auto probe = Probe::place({.where = std::move(where), .pre = kNothing});
  return probe ? "" : probe.error().message();
}

TEST(Blacklist, GivesTheReason) {
  ASSERT_TRUE(block(self_blocked).ok());
  EXPECT_THAT(refusal_of(self_blocked), HasSubstr("block()"));
  EXPECT_THAT(refusal_of(list_probes), HasSubstr("libpinprick itself"));
  EXPECT_THAT(refusal_of("libc:madvise"), HasSubstr("all signals blocked"));
}

// 0xBEGIN-0xEND<TAB>name
std::optional<std::pair<uintptr_t, uintptr_t>> range_in_blacklist(const std::string& name) {
  std::istringstream lines(blocked());
  for (std::string line; std::getline(lines, line);) {
    const size_t tab = line.find('\t');
    if (tab == std::string::npos || line.substr(tab + 1) != name) continue;
    size_t end = 0;
    const uintptr_t first = std::stoull(line, &end, 16);
    return std::pair(first, std::stoull(line.substr(end + 1), nullptr, 16));
  }
  return std::nullopt;
}

TEST(Blacklist, ListsEachFunctionThatIsRefused) {
  ASSERT_TRUE(block(self_blocked).ok());
  const auto its_own = range_in_blacklist("self_blocked");
  ASSERT_TRUE(its_own);
  EXPECT_EQ(its_own->first, reinterpret_cast<uintptr_t>(&self_blocked));
  EXPECT_EQ(its_own->second - its_own->first, 6u);  // movl; ret
  const auto advise = range_in_blacklist("madvise");
  ASSERT_TRUE(advise);
  EXPECT_EQ(advise->first, reinterpret_cast<uintptr_t>(::dlsym(RTLD_DEFAULT, "madvise")));
  const auto list = range_in_blacklist("pp_hit");
  ASSERT_TRUE(list);
  EXPECT_LT(list->second - list->first, 4096u);
}

TEST(Neighbour, UnderAnothersJumpIsRefused) {
  const Probe probe = place({.where = self_window, .pre = kNothing});
  const auto other = Probe::place({.where = inside(self_window, kSecondOfWindow), .pre = kNothing});
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.error().message(), HasSubstr("another probe"));
}

TEST(Neighbour, UnderANewProbesJumpMakesThatABreakpoint) {
  int first = 0, second = 0;
  const Probe inner =
      place({.where = inside(self_window, kSecondOfWindow), .pre = [&](Registers&) { ++second; }});
  const Probe outer =
      place({.where = self_window, .pre = [&](Registers&) { ++first; }, .allow_breakpoint = true});
  EXPECT_EQ(outer.placement(), Placement::breakpoint);
  EXPECT_EQ(self_window(10, 7), 37);
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
}

TEST(Breakpoint, IsOnlyPlacedIfItIsAllowed) {
  const void* const one_byte = inside(self_short, 2);
  EXPECT_EQ(cause_of({.where = one_byte, .pre = kNothing}), Cause::refused);
  int hits = 0;
  uint64_t result = 0;
  const Probe probe = place({.where = one_byte,
                             .pre =
                                 [&](Registers& registers) {
                                   ++hits;
                                   result = registers.rax;
                                 },
                             .allow_breakpoint = true});
  EXPECT_EQ(probe.placement(), Placement::breakpoint);
  EXPECT_EQ(probe.why_no_jump(), NoJump::too_short);  // code follows the ret
  EXPECT_EQ(self_short(5), 8);
  EXPECT_EQ(hits, 1);
  EXPECT_EQ(result, 8u);
}

TEST(List, HasTheFormatOfTheKernels) {
  Probe probe = place({.where = self_window, .pre = kNothing});
  EXPECT_THAT(list_probes(),
              testing::ContainsRegex("[0-9a-f]{16}  k  self_window\\+0x0  library_test "
                                     "\\[OPTIMIZED\\]\n"));
  ASSERT_TRUE(probe.disable().ok());
  EXPECT_THAT(list_probes(), HasSubstr("self_window+0x0  library_test [DISABLED]\n"));
}

TEST(ProbeName, HasAnOffsetUnlessTheProbeIsAtTheEntryHoweverThatIsGiven) {
  const auto name_at = [](Where where) {
    return place({.where = std::move(where), .pre = kNothing}).name();
  };
  constexpr uint64_t kAfterMark = 4;  // endbr64
  EXPECT_EQ(name_at(inside(self_marked, kAfterMark)), "self_marked");
  EXPECT_EQ(name_at(self_marked), "self_marked");
  EXPECT_EQ(name_at("self_marked+0x4"), "self_marked");
  EXPECT_EQ(name_at(self_window), "self_window");
  EXPECT_EQ(name_at(inside(self_below, 10)), "self_below+0xa");
}

TEST(AProbeThatWasMovedFrom, CanBeAskedAnythingAndHasNothing) {
  Probe probe = place({.where = self_window, .pre = kNothing});
  const Probe other = std::move(probe);
  EXPECT_EQ(probe.address(), nullptr);
  EXPECT_EQ(probe.name(), "");
  EXPECT_EQ(probe.placement(), Placement::gone);
  EXPECT_EQ(probe.why_no_jump(), NoJump::none);
  EXPECT_EQ(probe.missed(), 0u);
  EXPECT_TRUE(probe.enable().ok());
  EXPECT_TRUE(probe.disable().ok());
  EXPECT_EQ(other.placement(), Placement::jump);
}

TEST(AReturnProbeThatWasMovedFrom, CanBeAskedAnythingAndHasNothing) {
  ReturnProbe probe = place(ReturnProbeSpec{.where = self_window, .on_return = kNothing});
  const ReturnProbe other = std::move(probe);
  EXPECT_EQ(probe.address(), nullptr);
  EXPECT_EQ(probe.missed() + probe.unwound() + probe.abandoned(), 0u);
  EXPECT_TRUE(probe.enable().ok());
  EXPECT_TRUE(probe.disable().ok());
}

TEST(ACounterThatWasMovedFrom, CanBeAskedAnythingAndHasNothing) {
  Counter counter = must(Counter::place(self_window));
  const Counter other = std::move(counter);
  self_window(1, 1);
  EXPECT_EQ(counter.address(), nullptr);
  EXPECT_EQ(counter.value(), 0u);
  EXPECT_EQ(other.value(), 1u);
}

TEST(Handler, MissesItsOwnHits) {
  int hits = 0;
  const Probe probe = place({.where = self_window, .pre = [&](Registers&) {
                               ++hits;
                               EXPECT_EQ(self_window(2, 2), 8);
                             }});
  EXPECT_EQ(self_window(1, 1), 4);
  EXPECT_EQ(hits, 1);
  EXPECT_EQ(probe.missed(), 1u);
  EXPECT_EQ(probe.missed(Miss::in_handler), 1u);
}

// The library calls membarrier through it, whenever it changes text.
TEST(Handler, MissesHitsOfTheLibraryByWhoCalledIt) {
  const Probe probe = place({.where = "libc:syscall", .pre = kNothing});
  { const Probe other = place({.where = self_window, .pre = kNothing}); }
  const uint64_t alone = probe.missed(Miss::in_library);
  EXPECT_GT(alone, 0u);
  EXPECT_EQ(probe.missed(), alone);
  std::optional<Probe> other;
  const Probe outer = place({.where = self_nop, .pre = [&](Registers&) {
                               other = place({.where = self_window, .pre = kNothing});
                             }});
  const uint64_t before = probe.missed(Miss::in_library);
  self_nop(1);
  EXPECT_GT(probe.missed(Miss::in_handler), 0u);
  EXPECT_EQ(probe.missed(Miss::in_library), before);
  EXPECT_EQ(probe.missed(Miss::no_slot) + probe.missed(Miss::max_active), 0u);
}

TEST(NoJump, EachHasANameOfItsOwnAndAllButNoneASentence) {
  std::set<std::string_view> names;
  constexpr auto kLast = static_cast<int>(NoJump::out_of_reach);
  for (int i = 0; i <= kLast; ++i) {
    const auto why = static_cast<NoJump>(i);
    names.insert(name(why));
    EXPECT_EQ(sentence(why).empty(), why == NoJump::none) << name(why);
  }
  EXPECT_EQ(names.size(), size_t{kLast} + 1);
  EXPECT_EQ(name(NoJump::branch_inside), "branch_inside");
}

TEST(Handler, MissesAHitOnceThatWouldRunTwoOfAProbe) {
  const Probe outer =
      place({.where = self_nop, .pre = [](Registers&) { EXPECT_EQ(self_window(2, 2), 8); }});
  const Probe both = place({.where = self_window, .pre = kNothing, .post = kNothing});
  const Probe after = place({.where = self_window, .post = kNothing});
  for (int i = 0; i < 3; ++i) self_nop(1);
  EXPECT_EQ(both.missed(), 3u);
  EXPECT_EQ(after.missed(), 3u);
}

TEST(Handler, MayThrowWhichIsCounted) {
  const uint64_t before = handler_exceptions();
  const Probe probe =
      place({.where = self_window, .pre = [](Registers&) { throw std::runtime_error("no"); }});
  EXPECT_EQ(self_window(1, 1), 4);
  EXPECT_EQ(handler_exceptions(), before + 1);
}

TEST(Handler, CanRemoveItsOwnProbe) {
  std::optional<Probe> probe;
  int hits = 0;
  const auto alive = std::make_shared<int>(42);
  probe = place({.where = self_window, .pre = [&hits, &probe, alive](Registers&) {
                   probe.reset();
                   hits += *alive;  // still there
                 }});
  EXPECT_EQ(self_window(1, 1), 4);
  EXPECT_EQ(self_window(1, 1), 4);
  EXPECT_EQ(hits, 42);
  // The handler's closure is destroyed by the next call into the library.
  { const Probe other = place({.where = self_insn, .pre = kNothing}); }
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(Handler, CanPlaceAProbe) {
  std::optional<Probe> inner;
  int hits = 0;
  const Probe probe =
      place({.where = self_window, .pre = [&](Registers&) {
               if (!inner) inner = place({.where = self_insn, .pre = [&](Registers&) { ++hits; }});
             }});
  self_window(1, 1);
  self_insn(1);
  EXPECT_EQ(hits, 1);
}

TEST(Handler, SeesTheStackOfTheProbedFunction) {
  std::vector<void*> stack(32);
  const Probe probe = place({.where = self_window, .pre = [&](Registers&) {
                               stack.resize(static_cast<size_t>(
                                   ::backtrace(stack.data(), static_cast<int>(stack.size()))));
                             }});
  self_window(1, 1);
  EXPECT_THAT(stack, testing::Contains(reinterpret_cast<void*>(&self_window)));
}

TEST(Counter, CountsExactlyBesideHandlers) {
  const auto first = must(Counter::place(self_window));
  int hits = 0;
  const Probe probe = place({.where = self_window, .pre = [&](Registers&) { ++hits; }});
  for (int i = 0; i < 1000; ++i) self_window(i, i);
  const auto second = must(Counter::place(self_window));
  self_window(1, 1);
  EXPECT_EQ(first.value(), 1001u);
  EXPECT_EQ(second.value(), 1u);
  EXPECT_EQ(hits, 1001);
}

}  // namespace
}  // namespace pinprick
