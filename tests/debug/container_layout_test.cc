#include "debug/container_layout.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/fd.h"

namespace pinprick::debug {
namespace {

using Kind = ContainerLayout::Kind;

const std::string kContainers = std::string(TARGETS) + "containers";

// The structure Containers of the program has one of each.
class Containers : public testing::Test {
 protected:
  Containers() {
    const Fd file(::open(kContainers.c_str(), O_RDONLY | O_CLOEXEC));
    info_ = DebugInfo::open(file.get());
  }
  std::optional<ContainerLayout> layout_of(std::string_view name) {
    const auto all = info_->find_type("Containers");
    const auto member = all ? info_->find_member(*all, name) : std::nullopt;
    return member ? container_layout(*info_, member->type) : std::nullopt;
  }
  std::unique_ptr<DebugInfo> info_;
};

TEST_F(Containers, HaveTheirElementsBetweenTwoPointersOrAfterOne) {
  ASSERT_TRUE(info_);
  const auto numbers = layout_of("numbers"), rows = layout_of("rows"), part = layout_of("part");
  ASSERT_TRUE(numbers && rows && part);
  EXPECT_EQ(numbers->kind, Kind::range);
  EXPECT_EQ(numbers->element.name, "int");
  EXPECT_EQ(numbers->first.offset, 0u);
  EXPECT_EQ(numbers->second.offset, sizeof(void*));
  EXPECT_EQ(rows->element.bytes, 3 * sizeof(void*));
  EXPECT_EQ(part->kind, Kind::length);
  EXPECT_EQ(part->element.name, "const int");
}

TEST_F(Containers, HaveTheirNumberAndTheFirstNodeWhereElementsAreInNodes) {
  for (const auto& [name, element] :
       {std::pair("sorted", "pair<int const, int>"), std::pair("set", "int"),
        std::pair("linked", "int"), std::pair("one_hashed", "pair<int const, Point>")}) {
    const auto layout = layout_of(name);
    ASSERT_TRUE(layout) << name;
    EXPECT_EQ(layout->kind, Kind::counted) << name;
    EXPECT_EQ(layout->second.type.bytes, sizeof(size_t)) << name;
    EXPECT_EQ(layout->first.type.kind, Type::Kind::pointer) << name;
    EXPECT_TRUE(layout->nodes) << name;
    EXPECT_TRUE(layout->element.name.find(element) != std::string::npos) << layout->element.name;
  }
}

TEST_F(Containers, OwnOrHoldOneValue) {
  const auto owned = layout_of("owned"), shared = layout_of("shared"), maybe = layout_of("maybe");
  ASSERT_TRUE(owned && shared && maybe);
  EXPECT_EQ(owned->kind, Kind::pointer);
  EXPECT_EQ(owned->first.type.kind, Type::Kind::pointer);
  EXPECT_EQ(shared->kind, Kind::pointer);
  EXPECT_EQ(maybe->kind, Kind::optional);
  EXPECT_EQ(maybe->first.type.name, "int");
  EXPECT_EQ(maybe->second.offset, sizeof(int));
}

TEST_F(Containers, HavePartsInTheOrderInWhichTheyWereGiven) {
  const auto three = layout_of("three"), either = layout_of("either"), fixed = layout_of("fixed");
  ASSERT_TRUE(three && either && fixed);
  ASSERT_EQ(three->parts.size(), 3u);
  EXPECT_EQ(three->parts[0].type.name, "char");
  EXPECT_EQ(three->parts[1].type.name, "long int");
  EXPECT_GT(three->parts[0].offset, three->parts[1].offset);  // libstdc++ has the last one first
  EXPECT_EQ(either->kind, Kind::alternative);
  ASSERT_EQ(either->parts.size(), 2u);
  EXPECT_EQ(either->parts[1].type.name, "double");
  EXPECT_EQ(fixed->kind, Kind::inside);
}

TEST_F(Containers, AreNoOtherStructures) {
  EXPECT_FALSE(layout_of("both"));  // a pair
  const auto point = info_->find_type("Point");
  ASSERT_TRUE(point);
  EXPECT_FALSE(container_layout(*info_, *point));
}

}  // namespace
}  // namespace pinprick::debug
