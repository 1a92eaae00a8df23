// Jumps that end in others' bytes: which bytes change, where the jump can lead, and when it cannot
// be.
#include "plan/pun.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bytes.h"
#include "plan/annotated_function.h"

namespace pinprick::plan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Takes the `nth` range that it is asked for, at its begin; keeps all.
class Landings {
 public:
  explicit Landings(size_t nth = 1) : nth_(nth) {}
  std::optional<Address> operator()(Range range) {
    asked.push_back(range);
    return asked.size() == nth_ ? std::optional(range.begin) : std::nullopt;
  }
  std::vector<Range> asked;

 private:
  size_t nth_;
};

std::optional<PlannedPatch> pun(
    const Function& function, Landings& landings, uint64_t offset = 0, Bytes text = {},
    const std::function<bool(Range)>& is_free = [](Range) { return true; }) {
  const FunctionCode code = function.code();
  const auto rest = text.empty() ? code.bytes.subspan(offset) : std::span<const uint8_t>(text);
  return plan_pun(code, at(offset), rest, is_free, std::ref(landings));
}

// All ranges that are asked for, when none of them has room.
std::vector<Range> asked(const Function& function, uint64_t offset = 0, Bytes text = {}) {
  Landings none(0);
  EXPECT_FALSE(pun(function, none, offset, text));
  return none.asked;
}

Range from(uint64_t offset, uint64_t jump_length, int64_t distance, uint64_t size) {
  const Address first = at(offset + jump_length) + static_cast<uint64_t>(distance);
  return {first, first + size};
}

const Bytes kClc = {0xf8};
// Behind the site, bytes that say: 0x14131211.
const Bytes kRest = {0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17};

TEST(Pun, OfOneByteLeadsWhereWhatFollowsSays) {
  EXPECT_THAT(asked(Function(kRet, kRest)), ElementsAre(from(0, 5, 0x14131211, 1)));
}

TEST(Pun, LeadsDownwardsWhereTheLastByteIsNegative) {
  EXPECT_THAT(asked(Function(kRet, {0x11, 0x12, 0x13, 0xf4})),
              ElementsAre(from(0, 5, int32_t(0xf4131211), 1)));
}

TEST(Pun, ChoosesTheLowerBytesOfTheDistanceAsFarAsItsInstructionGoes) {
  EXPECT_EQ(asked(Function(kXorEax, kRest)).front(), from(0, 5, 0x13121100, 1 << 8));
  EXPECT_EQ(asked(Function(kMovRspRbp, kRest)).front(), from(0, 5, 0x12110000, 1 << 16));
  EXPECT_EQ(asked(Function(kSub16, kRest)).front(), from(0, 5, 0x11000000, 1 << 24));
}

TEST(Pun, TriesWithPrefixesWhatItsInstructionHasRoomFor) {
  EXPECT_THAT(asked(Function(kMovRspRbp, kRest)),
              ElementsAre(from(0, 5, 0x12110000, 1 << 16), from(0, 6, 0x13121100, 1 << 8),
                          from(0, 7, 0x14131211, 1)));
}

TEST(Pun, SaysWhatTheJumpCoversAndWhatMoves) {
  Landings second(2);
  const auto planned = pun(Function(kMovRspRbp, kRest), second);
  ASSERT_TRUE(planned);
  EXPECT_EQ(planned->landing, second.asked[1].begin);
  EXPECT_EQ(planned->patch.tactic, Tactic::pun);
  EXPECT_EQ(planned->patch.site, at(0));
  EXPECT_EQ(planned->patch.written, 6) << "a prefix, and a jump";
  EXPECT_EQ(planned->patch.displaced, 3);
  EXPECT_EQ(planned->patch.original, (Bytes{0x48, 0x89, 0xe5, 0x11, 0x12, 0x13}));
  EXPECT_THAT(planned->patch.interior, IsEmpty());
  EXPECT_THAT(planned->points, ElementsAre(0));
  EXPECT_FALSE(planned->springboard);
}

TEST(Pun, ChangesNothingBehindWhereSomebodyComesIntoItsInstruction) {
  // lock subq $-16,(%rdi), which is jumped into behind its prefix
  const Bytes locked = {0xf0, 0x48, 0x83, 0x2f, 0xf0};
  Landings landings;
  const auto planned = pun(Function(locked, kRest).branch_to(1), landings);
  EXPECT_THAT(landings.asked, ElementsAre(from(0, 5, int32_t(0xf02f8348), 1)));
  ASSERT_TRUE(planned);
  EXPECT_EQ(planned->patch.displaced, 5);
}

TEST(Pun, ChangesBytesInOnePageOnly) {
  // Two bytes in front of the page's end: a longer instruction, and its own tail.
  const Bytes lea = {0x48, 0x8d, 0x87, 0x11, 0x12, 0x13, 0x14};
  Bytes code(kPageSize - 2, 0x90);
  code.insert(code.end(), lea.begin(), lea.end());
  EXPECT_THAT(asked(Function(code, kRest), kPageSize - 2),
              ElementsAre(from(kPageSize - 2, 5, 0x12118700, 1 << 8),
                          from(kPageSize - 2, 6, 0x13121187, 1)));
}

TEST(Pun, LeavesAPrefixThatLiesInThePageBefore) {
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
      << "the last one in the place of the prefix";
  EXPECT_EQ(asked(Function(at_edge(kXorEax), kRest), edge).size(), 1u) << "it has none";
  EXPECT_EQ(asked(Function(at_edge(kMovRspRbp), kRest).branch_to(edge + 1), edge).size(), 1u)
      << "somebody jumps over the prefix";
}

TEST(Pun, NeedsNoControlFlow) {
  EXPECT_EQ(asked(Function(joined({kClc, kRet}), kRest).opaque()).size(), 1u);
  EXPECT_EQ(asked(Function(joined({kClc, kRet}), kRest).branch_to(1)).size(), 1u);
}

TEST(Pun, DoesWithoutBytesThatMightBeABreakpoint) {
  EXPECT_THAT(asked(Function(kRet, {0x11, 0x12, 0x13, 0xcc})), IsEmpty());
  // Those of its own instruction are nobody else's, and a longer jump would have one.
  EXPECT_EQ(asked(Function({0xb0, 0xcc}, {0x11, 0x12, 0x13, 0xcc})).size(), 1u);
}

TEST(Pun, NeedsBytesThatNobodyElseChanges) {
  for (uint64_t taken = 0; taken < 6; ++taken) {
    Landings landings;
    const auto is_free = [&](Range wanted) { return !wanted.overlaps({at(taken), at(taken + 1)}); };
    EXPECT_EQ(pun(Function(kRet, kRest), landings, 0, {}, is_free).has_value(), taken == 5);
  }
}

TEST(Pun, NeedsFiveBytesOfCode) {
  EXPECT_THAT(asked(Function(kRet, kRest), 0, {0xc3, 0x11, 0x12, 0x13}), IsEmpty());
  EXPECT_EQ(asked(Function(kRet), 0, {0xc3, 0x11, 0x12, 0x13, 0x14}).size(), 1u)
      << "be they the next function's";
}

TEST(Pun, IsNotWhereNothingMayBeMoved) {
  EXPECT_THAT(asked(Function({0xf4}, kRest)), IsEmpty()) << "hlt";
  EXPECT_THAT(asked(Function({0xcc}, kRest)), IsEmpty()) << "a breakpoint";
  EXPECT_THAT(asked(Function({0x06}, kRest)), IsEmpty()) << "no instruction";
  EXPECT_THAT(asked(Function(kMovRspRbp, kRest), 1), IsEmpty()) << "in the midst of one";
  EXPECT_THAT(asked(Function(kMov5, kRest).reserve(4, 5)), IsEmpty());
  EXPECT_EQ(asked(Function(kRet, kRest).reserve(1, 2)).size(), 1u) << "that does not change";
}

TEST(Pun, IsNotInGoWhoseRuntimeLooksAtFaults) {
  EXPECT_THAT(asked(Function(kRet, kRest).of_go()), IsEmpty());
}

}  // namespace
}  // namespace pinprick::plan
