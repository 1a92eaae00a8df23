// Which ways out of a function are known (tests/targets/image/exits.S).
#include "placement/exits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "arch/code.h"
#include "image/match.h"
#include "image/pattern.h"
#include "placement/probe_set.h"

namespace pinprick::placement {
namespace {

class ExitsOf : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto image = image::load_file(IMAGE_PROGRAMS + GetParam());
    ASSERT_TRUE(image);
    image_ = *std::move(image);
  }
  image::Object& object() { return *image_.objects.front(); }
  const image::Function* function(const std::string& name) {
    for (const image::Function& one : object().functions().functions())
      if (std::ranges::count(object().functions().names(one), name) != 0) return &one;
    return nullptr;
  }
  std::optional<Exits> found(const std::string& name) {
    const image::Function* const one = function(name);
    EXPECT_NE(one, nullptr) << name;
    const auto code = one != nullptr ? code_of(object(), *one) : std::nullopt;
    return code ? find_exits(object(), *one, *code, FunctionParts(object())) : std::nullopt;
  }
  // Returns the kinds of the instructions at the exits, by address.
  static std::string ways_out(const Exits& exits) {
    std::string all;
    for (const FunctionPiece& piece : exits.pieces)
      for (const Address exit : piece.exits) {
        const auto one = plan::instruction_at(piece.code, exit);
        const auto flow = one ? one->flow : arch::Flow::next;
        all += flow == arch::Flow::ret             ? "return "
               : flow == arch::Flow::jump          ? "jump "
               : flow == arch::Flow::jump_indirect ? "computed "
                                                   : "? ";
      }
    return all;
  }

  image::ProcessImage image_;
};

INSTANTIATE_TEST_SUITE_P(Programs, ExitsOf, testing::Values("exits_pie", "exits_nopie"),
                         [](const auto& program) { return program.param; });

TEST_P(ExitsOf, FunctionsAreTheirReturnsAndTheirJumpsToOthers) {
  const std::map<std::string, std::string> expected = {
      {"callee", "return "},
      {"returns_twice", "return return "},
      {"never_returns", ""},
      {"ends_with_a_call", "return "},
      {"jumps_to_another", "jump "},
      {"jumps_through_a_pointer", "computed "},
      {"jumps_to_a_virtual_function", "computed computed "},
      {"jumps_through_a_large_object", "computed "},
      {"jumps_by_a_table", "return return return "},
      {"jumps_to_an_import", "jump "},
      {"has_a_part_elsewhere", "return "},
      {"has_a_part_for_a_table", "return return return "},
      {"is_returned_from_by_its_part", "return return jump "},
  };
  for (const auto& [name, ways] : expected) {
    const auto exits = found(name);
    ASSERT_TRUE(exits) << name;
    EXPECT_EQ(ways_out(*exits), ways) << name;
    EXPECT_EQ(exits->has_tail_jumps, ways.find('j') != ways.npos || ways.find('c') != ways.npos)
        << name;
  }
}

TEST_P(ExitsOf, AFunctionWithATableAtAFixedAddressAreItsReturns) {
  if (GetParam() != "exits_nopie") {
    EXPECT_EQ(function("jumps_by_a_fixed_table"), nullptr) << "no compiler makes it elsewhere";
    return;
  }
  const auto exits = found("jumps_by_a_fixed_table");
  ASSERT_TRUE(exits);
  EXPECT_EQ(ways_out(*exits), "return return return ");
  const auto by_others = found("jumps_to_functions_in_a_fixed_table");
  ASSERT_TRUE(by_others);
  EXPECT_EQ(ways_out(*by_others), "computed ");
}

TEST_P(ExitsOf, FunctionsAreUnknownWhereTheyMayBeLeftInAnotherWay) {
  for (const char* name :
       {"falls_into_the_next", "jumps_to_another_on_a_condition", "jumps_into_another",
        "jumps_to_itself", "jumps_to_an_unknown_address", "jumps_below_the_stack",
        "jumps_by_a_table_beside_a_sum", "has_constants", "jumps_to_a_label_in_a_variable"})
    EXPECT_FALSE(found(name)) << name;
}

}  // namespace
}  // namespace pinprick::placement
