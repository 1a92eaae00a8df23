// Jumps that end in bytes of the following code: which bytes change, where the jump can lead, and
// when there is none.
#include "plan/pun.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bytes.h"
#include "plan/annotated_function.h"

namespace pinprick::plan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Takes the start of the `nth` range that it is asked for; records all ranges.
class Islands {
 public:
  explicit Islands(size_t nth = 1) : nth_(nth) {}
  std::optional<Address> operator()(const Candidates& wanted) {
    EXPECT_EQ(wanted.count, 1u);
    asked.push_back({wanted.first, wanted.first + wanted.width});
    return asked.size() == nth_ ? std::optional(wanted.first) : std::nullopt;
  }
  std::vector<Range> asked;

 private:
  size_t nth_;
};

std::optional<PlannedPatch> pun(
    const Function& function, Islands& islands, uint64_t offset = 0, Bytes text = {},
    const std::function<bool(Range)>& is_free = [](Range) { return true; }) {
  const FunctionCode code = function.code();
  const auto rest = text.empty() ? code.bytes.subspan(offset) : std::span<const uint8_t>(text);
  return plan_pun(code, at(offset), rest, is_free, std::ref(islands));
}

// Returns all ranges that are asked for if none has room.
std::vector<Range> asked(const Function& function, uint64_t offset = 0, Bytes text = {}) {
  Islands none(0);
  EXPECT_FALSE(pun(function, none, offset, text));
  return none.asked;
}

Range from(uint64_t offset, uint64_t jump_length, int64_t distance, uint64_t size) {
  const Address first = at(offset + jump_length) + static_cast<uint64_t>(distance);
  return {first, first + size};
}

const Bytes kClc = {0xf8};
// Bytes after the site that make the distance 0x14131211.
const Bytes kRest = {0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17};

TEST(Pun, OfOneByteLeadsWhereTheNextBytesSay) {
  EXPECT_THAT(asked(Function(kRet, kRest)), ElementsAre(from(0, 5, 0x14131211, 1)));
}

TEST(Pun, LeadsDownwardsIfTheLastByteIsNegative) {
  EXPECT_THAT(asked(Function(kRet, {0x11, 0x12, 0x13, 0xf4})),
              ElementsAre(from(0, 5, int32_t(0xf4131211), 1)));
}

TEST(Pun, ChoosesTheLowerBytesOfTheDistanceAsFarAsItsInstructionGoes) {
  const auto first = [](const Bytes& instruction) {
    return asked(Function(joined({kClc, instruction}), kRest), 1).front();
  };
  EXPECT_EQ(first(kXorEax), from(1, 5, 0x13121100, 1 << 8));
  EXPECT_EQ(first(kMovRspRbp), from(1, 5, 0x12110000, 1 << 16));
  EXPECT_EQ(first(kSub16), from(1, 5, 0x11000000, 1 << 24));
}

TEST(Pun, TriesPrefixesAsFarAsItsInstructionHasRoom) {
  EXPECT_THAT(asked(Function(joined({kClc, kMovRspRbp}), kRest), 1),
              ElementsAre(from(1, 5, 0x12110000, 1 << 16), from(1, 6, 0x13121100, 1 << 8),
                          from(1, 7, 0x14131211, 1)));
}

TEST(Pun, HasAPrefixAtAFunctionsFirstByteIfItCanSoThatNoCodeGeneratorFollowsIt) {
  EXPECT_THAT(asked(Function(kMovRspRbp, kRest)),
              ElementsAre(from(0, 6, 0x13121100, 1 << 8), from(0, 7, 0x14131211, 1),
                          from(0, 5, 0x12110000, 1 << 16)));
  EXPECT_THAT(asked(Function(kXorEax, {0x11, 0x12, 0x13, 0xcc})),
              ElementsAre(from(0, 5, 0x13121100, 1 << 8)))
      << "the longer jump would end in a byte that might be a breakpoint's";
}

TEST(Pun, SaysWhichBytesTheJumpCoversAndWhichAreDisplaced) {
  Islands second(2);
  const auto planned = pun(Function(joined({kClc, kMovRspRbp}), kRest), second, 1);
  ASSERT_TRUE(planned);
  EXPECT_EQ(planned->island, second.asked[1].begin);
  EXPECT_EQ(planned->patch.tactic, Tactic::pun);
  EXPECT_EQ(planned->patch.site, at(1));
  EXPECT_EQ(planned->patch.written, 6) << "a prefix, and a jump";
  EXPECT_EQ(planned->patch.displaced, 3);
  EXPECT_EQ(planned->patch.original, (Bytes{0x48, 0x89, 0xe5, 0x11, 0x12, 0x13}));
  EXPECT_THAT(planned->patch.boundaries, IsEmpty());
  EXPECT_THAT(planned->points, ElementsAre(0));
  EXPECT_FALSE(planned->trampoline);
}

TEST(Pun, ChangesNothingAfterABranchTargetInItsInstruction) {
  // lock subq $-16,(%rdi), with a branch target after its prefix
  const Bytes locked = {0xf0, 0x48, 0x83, 0x2f, 0xf0};
  Islands islands;
  const auto planned = pun(Function(locked, kRest).branch_to(1), islands);
  EXPECT_THAT(islands.asked, ElementsAre(from(0, 5, int32_t(0xf02f8348), 1)));
  ASSERT_TRUE(planned);
  EXPECT_EQ(planned->patch.displaced, 5);
}

TEST(Pun, ChangesBytesInOnePageOnly) {
  // Two bytes before the end of the page: a longer instruction, and its own tail.
  const Bytes lea = {0x48, 0x8d, 0x87, 0x11, 0x12, 0x13, 0x14};
  Bytes code(kPageSize - 2, 0x90);
  code.insert(code.end(), lea.begin(), lea.end());
  EXPECT_THAT(asked(Function(code, kRest), kPageSize - 2),
              ElementsAre(from(kPageSize - 2, 5, 0x12118700, 1 << 8),
                          from(kPageSize - 2, 6, 0x13121187, 1)));
}

TEST(Pun, KeepsAPrefixThatLiesInThePageBefore) {
  const auto at_edge = [](Bytes instruction) {
    return joined({repeated(0x90, kPageSize - 1), instruction});
  };
  const uint64_t edge = kPageSize - 1;
  const Bytes lea = {0x48, 0x8d, 0x87, 0x21, 0x22, 0x23, 0x24};
  EXPECT_EQ(asked(Function(at_edge(lea), kRest), edge).front(),
            from(edge, 6, INT32_MIN, uint64_t{1} << 32))
      << "all of the distance lies in the instruction";
  EXPECT_THAT(asked(Function(at_edge(kMovRspRbp), kRest), edge),
              ElementsAre(from(edge, 6, 0x13121100, 1 << 8), from(edge, 7, 0x14131211, 1),
                          from(edge, 5, 0x1211e589, 1)))
      << "the last one instead of the prefix";
  EXPECT_EQ(asked(Function(at_edge(kXorEax), kRest), edge).size(), 1u) << "it has none";
  EXPECT_EQ(asked(Function(at_edge(kMovRspRbp), kRest).branch_to(edge + 1), edge).size(), 1u)
      << "a branch leads past the prefix";
}

TEST(Pun, IsNoLongerThanAJournalHasRoomFor) {
  const Bytes store = {0x48, 0x89, 0x44, 0x24, 0x08};  // mov %rax,8(%rsp)
  const Bytes lea = {0x48, 0x8d, 0x87, 0x21, 0x22, 0x23, 0x24};
  const uint64_t edge = kPageSize - 1;
  for (const Bytes& instruction : {store, lea}) {
    const Bytes code = joined({repeated(0x90, edge), instruction});
    // Each number of prefixes asks for a range of its own; the last attempt is a jump without a
    // prefix, which ends 5 bytes after the site.
    std::vector<uint64_t> sizes;
    for (Range range : asked(Function(code, joined({kRest, kRest})), edge))
      sizes.push_back(range.size());
    const bool is_store = instruction.size() == 5;
    EXPECT_EQ(sizes, (is_store ? std::vector<uint64_t>{1 << 24, 1 << 16, 1 << 8, 1}
                               : std::vector<uint64_t>{uint64_t{1} << 32, 1 << 24, 1 << 16, 1}));
    for (uint64_t nth = 1; nth <= sizes.size(); ++nth) {
      Islands islands(nth);
      const auto planned = pun(Function(code, joined({kRest, kRest})), islands, edge);
      ASSERT_TRUE(planned);
      EXPECT_LE(planned->patch.written, kLongestPun);
    }
  }
}

TEST(Pun, NeedsNoKnowledgeOfControlFlow) {
  EXPECT_EQ(asked(Function(joined({kClc, kRet}), kRest).unresolved()).size(), 1u);
  EXPECT_EQ(asked(Function(joined({kClc, kRet}), kRest).branch_to(1)).size(), 1u);
}

TEST(Pun, AvoidsBytesThatMightBeABreakpoint) {
  EXPECT_THAT(asked(Function(kRet, {0x11, 0x12, 0x13, 0xcc})), IsEmpty());
  // Those of its own instruction are no other owner's, and a longer jump would include one.
  EXPECT_EQ(asked(Function({0xb0, 0xcc}, {0x11, 0x12, 0x13, 0xcc})).size(), 1u);
}

TEST(Pun, NeedsBytesThatNoOtherPatchChanges) {
  for (uint64_t taken = 0; taken < 6; ++taken) {
    Islands islands;
    const auto is_free = [&](Range wanted) { return !wanted.overlaps({at(taken), at(taken + 1)}); };
    EXPECT_EQ(pun(Function(kRet, kRest), islands, 0, {}, is_free).has_value(), taken == 5);
  }
}

TEST(Pun, NeedsFiveBytesOfCode) {
  EXPECT_THAT(asked(Function(kRet, kRest), 0, {0xc3, 0x11, 0x12, 0x13}), IsEmpty());
  EXPECT_EQ(asked(Function(kRet), 0, {0xc3, 0x11, 0x12, 0x13, 0x14}).size(), 1u)
      << "be they the next function's";
}

TEST(Pun, IsRefusedIfTheInstructionMustNotMove) {
  EXPECT_THAT(asked(Function({0xf4}, kRest)), IsEmpty()) << "hlt";
  EXPECT_THAT(asked(Function({0xcc}, kRest)), IsEmpty()) << "a breakpoint";
  EXPECT_THAT(asked(Function({0x06}, kRest)), IsEmpty()) << "no instruction";
  EXPECT_THAT(asked(Function(kMovRspRbp, kRest), 1), IsEmpty()) << "in the midst of one";
  EXPECT_THAT(asked(Function(kMov5, kRest).reserve(4, 5)), IsEmpty());
  EXPECT_EQ(asked(Function(kRet, kRest).reserve(1, 2)).size(), 1u) << "that does not change";
}

TEST(Pun, IsRefusedInGoWhoseRuntimeHandlesFaults) {
  EXPECT_THAT(asked(Function(kRet, kRest).of_go()), IsEmpty());
  EXPECT_THAT(asked(Function(kRet, kRest).managed()), IsEmpty());
}

// --- Puns that end in the next instruction's jump

// What of [begin, end) is available.
class Free {
 public:
  Free(Address begin, Address end) : range_{begin, end} {}
  std::optional<Address> operator()(const Candidates& wanted) const {
    const auto begin = static_cast<int64_t>(range_.begin), end = static_cast<int64_t>(range_.end);
    auto first = static_cast<int64_t>(wanted.first);
    for (uint64_t i = 0; i < wanted.count && first < end; ++i) {
      const int64_t at = std::max(first, begin);
      if (at < end && at < first + static_cast<int64_t>(wanted.width))
        return static_cast<Address>(at);
      first += static_cast<int64_t>(wanted.step);
    }
    return std::nullopt;
  }

 private:
  Range range_;
};

std::optional<EvictingPun> evicting_pun(
    const Function& function, TakeIsland take, uint64_t offset = 0,
    const std::function<bool(Range)>& is_free = [](Range) { return true; },
    const std::function<void(Address)>& give_back = [](Address) {}) {
  return plan_evicting_pun(function.code(), at(offset), is_free, take, give_back);
}

// Where both jumps lead once they are written, the next instruction's first.
struct Led {
  Bytes bytes;
  Address pun = 0;
  Address next = 0;
  uint8_t length = 0;
};

Led led(const Function& function, const EvictingPun& planned, uint64_t offset = 0) {
  const FunctionCode code = function.code();
  Bytes bytes(code.bytes.begin(), code.bytes.end());
  const auto write = [&](Address site, uint8_t length, uint8_t own, Address to) {
    const auto text = std::span(bytes).subspan(site - kBegin);
    Bytes jump(text.begin(), text.begin() + length);
    arch::encode_jump(jump, static_cast<int32_t>(to - site - length));
    std::copy_n(jump.begin(), own, text.begin());
  };
  const PlannedPatch& pun = planned.pun;
  const Address next = pun.patch.site + pun.patch.displaced;
  write(next, 5, 5, planned.island);
  write(pun.patch.site, pun.patch.written, pun.own(), *pun.island);
  const auto first = arch::decode(std::span(bytes).subspan(offset), at(offset));
  const auto second = arch::decode(std::span(bytes).subspan(next - kBegin), next);
  if (!first || !second) return {};
  return {bytes, first->target, second->target, first->length};
}

const Bytes kAdd6 = {0x81, 0xc0, 0x10, 0x11, 0x12, 0x13};              // add $0x13121110,%eax
const Bytes kMov8 = {0x48, 0xc7, 0x40, 0x08, 0x10, 0x11, 0x12, 0x13};  // movq $0x13121110,8(%rax)
// Of one to six bytes.
const Bytes kShort[] = {kRet, kXorEax, kMovRspRbp, kSub16, kMov5, kAdd6};

TEST(EvictingPun, EndsInTheNextInstructionsJumpAndBothLeadToTheirIslands) {
  for (const Bytes& first : kShort) {
    for (const Free& free : {Free(0x1000'0000, 0x7000'0000),
                             Free(Address{0} - 0x7000'0000, Address{0} - 0x1000'0000)}) {
      const Function function(first, repeated(0x90, 9));
      const auto planned = evicting_pun(function, free);
      ASSERT_TRUE(planned) << first.size();
      const PlannedPatch& pun = planned->pun;
      EXPECT_TRUE(pun.ends_in_next_jump);
      EXPECT_EQ(pun.patch.tactic, Tactic::evict);
      EXPECT_EQ(pun.patch.displaced, first.size());
      EXPECT_EQ(pun.own(), first.size()) << "the others are the next one's";
      EXPECT_EQ(pun.claimed(), (Range{at(0), at(first.size())}));
      EXPECT_GT(pun.patch.written, first.size());
      const Led jumps = led(function, *planned);
      EXPECT_EQ(jumps.pun, pun.island);
      EXPECT_EQ(jumps.next, planned->island);
      EXPECT_EQ(jumps.length, pun.patch.written);
    }
  }
}

TEST(EvictingPun, ChoosesOnlyBytesThatNothingJumpsInto) {
  // Without a prefix it leads below 0: the last byte of the distance is the next jump's 0xe9.
  const Free above(0, uint64_t{1} << 47);
  const Function function(kSub16, repeated(0x90, 9));
  EXPECT_FALSE(evicting_pun(Function(function).branch_to(1), above));
  for (uint64_t entered : {2, 3}) {
    const Function one = Function(function).branch_to(entered);
    const auto planned = evicting_pun(one, above);
    ASSERT_TRUE(planned);
    const Led jumps = led(one, *planned);
    EXPECT_EQ(jumps.pun, planned->pun.island);
    for (uint64_t i = entered; i < kSub16.size(); ++i) EXPECT_EQ(jumps.bytes[i], kSub16[i]);
  }
}

TEST(EvictingPun, IsRefusedIfTheJumpEndsInItsOwnInstruction) {
  EXPECT_FALSE(evicting_pun(Function(kMov8, kRest), Free(0, uint64_t{1} << 47)));
}

TEST(EvictingPun, ClaimsOnlyItsOwnInstruction) {
  for (uint64_t taken = 0; taken < 6; ++taken) {
    const auto is_free = [&](Range wanted) { return !wanted.overlaps({at(taken), at(taken + 1)}); };
    const auto planned =
        evicting_pun(Function(kMovRspRbp, kRest), Free(0, uint64_t{1} << 47), 0, is_free);
    EXPECT_EQ(planned.has_value(), taken >= 3) << taken;
  }
}

TEST(EvictingPun, TriesOtherIslandsIfTheOtherJumpHasNoneAndGivesThemBack) {
  // There is a range of islands for the pun's jump; the other jump has none for the first `in_vain`
  // of them.
  for (const size_t in_vain : {0, 1, 5, 1000}) {
    std::vector<Address> taken, given;
    const Function function(kRet, kRest);
    const auto planned = evicting_pun(
        function,
        [&](const Candidates& wanted) -> std::optional<Address> {
          const bool is_own = wanted.count == 1 << 24;
          if (!is_own && taken.size() <= in_vain) return std::nullopt;
          const Address nth = wanted.first + taken.size() * wanted.step;
          if (is_own) taken.push_back(nth);
          return nth;
        },
        0, [](Range) { return true; }, [&](Address island) { given.push_back(island); });
    EXPECT_EQ(planned.has_value(), in_vain < 1000);
    if (planned) {
      EXPECT_EQ(taken.size(), in_vain + 1);
      EXPECT_EQ(planned->pun.island, taken.back());
      EXPECT_EQ(led(function, *planned).pun, taken.back());
      taken.pop_back();
    }
    EXPECT_EQ(given, taken);
  }
}

TEST(EvictingPun, IsRefusedIfTheInstructionMustNotMove) {
  const Free anywhere(0, uint64_t{1} << 47);
  EXPECT_FALSE(evicting_pun(Function({0xf4}, kRest), anywhere)) << "hlt";
  EXPECT_FALSE(evicting_pun(Function(kMovRspRbp, kRest), anywhere, 1)) << "in the midst of one";
  EXPECT_FALSE(evicting_pun(Function(kRet, kRest).reserve(0, 1), anywhere));
  EXPECT_FALSE(evicting_pun(Function(kRet, kRest).of_go(), anywhere));
}

}  // namespace
}  // namespace pinprick::plan
