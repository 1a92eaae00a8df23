// Addresses for islands: free, away from the heap and the stack, and on few pages.
#include "placement/island_space.h"

#include <gtest/gtest.h>

#include "base/address.h"
#include "plan/pun.h"

namespace pinprick::placement {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kSize = plan::kIslandSize;

// The program of the tests' images, as if it ran at kBias, with mappings around it.
constexpr uint64_t kBias = 0x5555'5555'0000;

image::Mapping mapping(Address begin, Address end, std::string path = "") {
  image::Mapping one;
  one.range = {begin, end};
  one.path = std::move(path);
  return one;
}

class Island : public testing::Test {
 protected:
  void SetUp() override {
    auto file = image::ElfFile::open(IMAGE_PROGRAMS "basic_pie");
    ASSERT_TRUE(file);
    image_.objects.push_back(std::make_unique<image::Object>(*std::move(file), kBias,
                                                             std::vector<std::string>{"program"},
                                                             "", "", image::MemoryReader()));
    program_ = image_.objects.front()->extent();
    image_.maps = {mapping(program_.begin, program_.end, "program")};
  }
  std::optional<Address> take(Range wanted) {
    if (!space_) space_ = IslandSpace::around(image_);
    return space_->take({wanted.begin, wanted.size()}, 0);
  }
  std::optional<Address> take(Address at) { return take({at, at + 1}); }

  image::ProcessImage image_;
  Range program_;
  std::optional<IslandSpace> space_;
};

TEST_F(Island, IsTheWantedAddressIfItIsFree) {
  const Address below = kBias - kGiB + 0x123;
  EXPECT_EQ(take(below), below);
  EXPECT_EQ(take(kBias), std::nullopt) << "the program";
  EXPECT_EQ(take(kBias - 4), std::nullopt) << "just in front of it";
}

TEST_F(Island, IsAKeptStubOfItsOwnFunctionIfThatIsWantedThoughItIsNotFree) {
  const Address stub = kBias - kGiB + 0x123, site = kBias + 0x100, other = kBias + 0x200;
  const Range page = {align_down(stub, kPageSize), align_up(stub, kPageSize)};
  image_.maps.insert(image_.maps.begin(), mapping(page.begin, page.end));
  image_.kept_stubs = {{site, stub}};
  const IslandSpace space = IslandSpace::around(image_);
  const plan::Candidates only = {stub, 1, 1, 1, true}, near = {stub - 0x20, 0x40, 1, 1, true};
  EXPECT_EQ(IslandSpace(space).take(only, 0, other), std::nullopt);
  EXPECT_EQ(IslandSpace(space).take(only, 0), std::nullopt);
  EXPECT_EQ(IslandSpace(space).take(near, 0, site), stub);
  EXPECT_EQ(IslandSpace(space).take({stub + 1, 1, 1, 1, true}, 0, site), std::nullopt);
  EXPECT_EQ(IslandSpace(space).take({stub, 1}, 0, site), std::nullopt) << "no generator knows it";
  IslandSpace once = space;
  EXPECT_EQ(once.take(only, 0, site), stub);
  once.give_back(stub, 0);
  EXPECT_EQ(once.take(only, 0, site), std::nullopt) << "or another try would never be made";
}

TEST_F(Island, IsOnAnotherPageThanThoseThatMayHaveToStay) {
  const Address begin = kBias - kGiB;
  IslandSpace space = IslandSpace::around(image_);
  const auto take_from = [&](bool is_followed) {
    return align_down(space.take({begin, 4 * kPageSize, 1, 1, is_followed}, 0).value(), kPageSize);
  };
  const Address stays = take_from(true), goes = take_from(false);
  EXPECT_NE(stays, goes);
  EXPECT_EQ(take_from(true), stays);
  EXPECT_EQ(take_from(false), goes);
  EXPECT_EQ(space.take({goes + 0x800, 1, 1, 1, true}, 0), goes + 0x800) << "than nowhere";
}

TEST_F(Island, LeavesTheStartOfAPageThatMayHaveToStayToItsMarkIfItCan) {
  const Address page = kBias - kGiB;
  const auto at = [&](uint64_t size) {
    return IslandSpace::around(image_).take({page, size, 1, 1, true}, 0);
  };
  EXPECT_EQ(at(kKeptMarkSize + 1), page + kKeptMarkSize);
  EXPECT_EQ(at(kKeptMarkSize), page);
  EXPECT_EQ(IslandSpace::around(image_).take({page, kPageSize}, 0), page) << "does not stay";
}

TEST_F(Island, IsWithinTheWantedRange) {
  const Address begin = kBias - 4 * kMiB;
  for (int i = 0; i < 1000; ++i) {
    const auto at = take({begin + 100, begin + 16 * kMiB});
    ASSERT_TRUE(at);
    EXPECT_GE(*at, begin + 100);
    EXPECT_LT(*at, kBias);
  }
}

TEST_F(Island, IsInAnyOfTheWantedRanges) {
  // Of 2^16 addresses, from 2 GB below to 2 GB above.
  const plan::Candidates wanted = {kBias - 2 * kGiB + 0x1234, 1, 0x10000, 0x10000};
  space_ = IslandSpace::around(image_);
  std::vector<Address> taken;
  for (int i = 0; i < 100; ++i) {
    const auto at = space_->take(wanted, 0);
    ASSERT_TRUE(at);
    EXPECT_EQ((*at - wanted.first) % wanted.step, 0u);
    EXPECT_LT((*at - wanted.first) / wanted.step, wanted.count);
    EXPECT_EQ(std::count(taken.begin(), taken.end(), *at), 0);
    taken.push_back(*at);
  }
  // The first of them lies in the program, the next one does not.
  EXPECT_EQ(space_->take({kBias + 8, 1, kGiB, 2}, 0), kBias + 8 + kGiB);
  EXPECT_EQ(space_->take({kBias + 8, 1, kGiB, 2}, 0), std::nullopt) << "taken";
  EXPECT_EQ(space_->take({kBias + 8, kSize + 1, kGiB, 2}, 0), kBias + 8 + kGiB + kSize);
}

TEST_F(Island, IsNotBelowZero) {
  space_ = IslandSpace::around(image_);
  const Address below = Address{0} - 5 * kGiB;
  EXPECT_EQ(space_->take({below, 1, 3 * kGiB, 3}, 0), kGiB);
  EXPECT_EQ(space_->take({below, 1, 3 * kGiB, 2}, 0), std::nullopt);
  space_ = IslandSpace::around(image_);
  EXPECT_EQ(space_->take({below, 8 * kGiB}, 0), kMiB + 16 * kPageSize) << "one range around 0";
}

TEST_F(Island, IsFreeAfterItWasGivenBack) {
  const Address page = kBias - kGiB;
  EXPECT_EQ(take(page), page);
  EXPECT_EQ(take(page + kSize), page + kSize);
  space_->give_back(page, 0);
  EXPECT_EQ(take(page + 1), std::nullopt) << "the other one is still there";
  EXPECT_EQ(take(page), page);
  space_->give_back(page, 0);
  space_->give_back(page + kSize, 0);
  for (size_t i = 0; i < IslandSpace::kMostPages; ++i)
    EXPECT_NE(take(page - (i + 1) * kPageSize), std::nullopt) << "no page is left over";
}

TEST_F(Island, OverlapsNoOther) {
  const Address page = kBias - kGiB;
  EXPECT_EQ(take(page + 100), page + 100);
  EXPECT_EQ(take(page + 100), std::nullopt);
  EXPECT_EQ(take(page + 100 - kSize + 1), std::nullopt);
  EXPECT_EQ(take(page + 100 + kSize - 1), std::nullopt);
  EXPECT_EQ(take(page + 100 - kSize), page + 100 - kSize);
  EXPECT_EQ(take(page + 100 + kSize), page + 100 + kSize);
}

TEST_F(Island, LiesInOnePageBeforeItsLastBytes) {
  const Address page = kBias - kGiB;
  const Address last = page + kPageSize - kIslandMarkSize - kSize;
  EXPECT_EQ(take(last + 1), std::nullopt);
  EXPECT_EQ(take(page + kPageSize - 1), std::nullopt);
  EXPECT_EQ(take(last), last);
  EXPECT_EQ(take({last + 1, page + 2 * kPageSize}), page + kPageSize) << "on the next one";
}

TEST_F(Island, SharesPages) {
  // An island at the end of each of the pages, and then another one for each page.
  const auto end_of = [](size_t page) {
    return kBias - kGiB + (page + 1) * kPageSize - kIslandMarkSize - kSize;
  };
  for (size_t page = 0; page < IslandSpace::kMostPages; ++page)
    EXPECT_EQ(take(end_of(page)), end_of(page));
  EXPECT_EQ(take(end_of(IslandSpace::kMostPages)), std::nullopt) << "one page too many";
  for (size_t page = 0; page < IslandSpace::kMostPages; ++page)
    EXPECT_EQ(take(end_of(page) - kSize), end_of(page) - kSize);
}

TEST_F(Island, KeepsAwayFromTheHeap) {
  const Address end = program_.end;
  EXPECT_EQ(take(end + 255 * kMiB), std::nullopt) << "where one may begin";
  EXPECT_NE(take(end + 257 * kMiB), std::nullopt);
  space_.reset();
  image_.maps.push_back(mapping(end + kGiB, end + kGiB + kMiB, "[heap]"));
  EXPECT_NE(take(end + 255 * kMiB), std::nullopt) << "it is elsewhere";
  EXPECT_EQ(take(end + kGiB + 256 * kMiB), std::nullopt);
  EXPECT_NE(take(end + kGiB + 258 * kMiB), std::nullopt);
}

TEST_F(Island, KeepsAwayFromTheStack) {
  const Address stack = 0x7fff'0000'0000;
  image_.maps.push_back(mapping(stack, stack + kMiB, "[stack]"));
  EXPECT_EQ(take(stack - 100 * kMiB), std::nullopt);
  EXPECT_NE(take(stack - 200 * kMiB), std::nullopt);
}

TEST_F(Island, IsNeverInTheFirstPagesNorTheKernels) {
  EXPECT_EQ(take(0x1000), std::nullopt);
  EXPECT_EQ(take(0x8000'0000'0000), std::nullopt);
  EXPECT_EQ(take(Address{0} - kGiB), std::nullopt);
}

TEST_F(Island, IsInTheObjectsAddresses) {
  space_ = IslandSpace::around(image_);
  const Address wanted = Address{0} - kGiB;  // below the object's own 0
  EXPECT_EQ(space_->take({wanted}, kBias), wanted);
  EXPECT_EQ(take(kBias - kGiB), std::nullopt) << "taken";
}

// For a file that is not running.
class IslandOfAFile : public testing::Test {
 protected:
  void load(const char* path) {
    auto image = image::load_file(path);
    ASSERT_TRUE(image);
    program_ = image->objects.front()->extent();
    space_ = IslandSpace::around(*image);
  }
  std::optional<Address> take(Address at) { return space_.take({at}, 0); }

  Range program_;
  IslandSpace space_;
};

TEST_F(IslandOfAFile, IsAnywhereExceptAroundTheFile) {
  load(IMAGE_PROGRAMS "basic_pie");
  const Address below = Address{0} - kGiB;
  EXPECT_EQ(take(below), below);
  EXPECT_EQ(take(program_.begin), std::nullopt);
  EXPECT_EQ(take(program_.end + kMiB), std::nullopt);
  EXPECT_NE(take(program_.end + kGiB), std::nullopt);
}

TEST_F(IslandOfAFile, IsAboveAFixedProgramAndItsHeap) {
  load(IMAGE_PROGRAMS "basic_nopie");
  EXPECT_EQ(take(program_.begin - kGiB), std::nullopt) << "below 0";
  EXPECT_EQ(take(program_.end + 100 * kMiB), std::nullopt);
  EXPECT_EQ(take(program_.end + kGiB), program_.end + kGiB);
}

}  // namespace
}  // namespace pinprick::placement
