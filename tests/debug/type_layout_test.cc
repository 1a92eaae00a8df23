#include "debug/type_layout.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"

namespace pinprick::debug {
namespace {

std::unique_ptr<DebugInfo> open_variables() {
  const Fd file(::open(TARGETS "variables", O_RDONLY | O_CLOEXEC));
  return DebugInfo::open(file.get());
}

// As `8+16 char [16] name`; a hole is `20+4 hole`, and sizes of bit fields have a b.
std::vector<std::string> parts_of(DebugInfo& info, std::string_view name) {
  using Kind = LayoutPart::Kind;
  std::vector<std::string> all;
  for (const Type& type : info.find_structures(name))
    for (const LayoutPart& part : layout_of(info, type).parts) {
      const bool is_gap = part.kind == Kind::hole || part.kind == Kind::padding;
      const bool in_bits = part.is_bit_field || part.bits % 8 != 0;
      all.push_back(fmt::format(
          "{}{}{}+{}{} {}", std::string(part.depth, '>'), part.offset,
          part.bit_offset != 0 ? fmt::format(":{}", part.bit_offset) : "",
          in_bits ? part.bits : part.bits / 8, in_bits ? "b" : "",
          is_gap ? (part.kind == Kind::hole ? "hole" : "padding") : part.type + " " + part.name));
    }
  return all;
}

TEST(TypeLayout, HasBitFieldsHolesAndPadding) {
  const auto info = open_variables();
  EXPECT_EQ(parts_of(*info, "struct peer"),
            (std::vector<std::string>{"0+4 int port", "4+4 hole", "8+8 const char * city",
                                      "16+3b unsigned int low", "16:3+7b unsigned int high",
                                      "17:2+4b int below", "17:6+40b uint64_t wide",
                                      "22:6+10b padding"}));
}

TEST(TypeLayout, ShowsUnnamedMembersAndTheDimensionsOfArrays) {
  const auto info = open_variables();
  const auto parts = parts_of(*info, "request");
  const auto has = [&](const std::string& part) {
    return std::find(parts.begin(), parts.end(), part) != parts.end();
  };
  for (const char* const part :
       {"0+8 struct peer * peer", "8+16 char [16] name", "24+12 short int [6] items",
        "36+4 enum kind kind", "40+8 union {...} ", ">40+8 int64_t number",
        ">40+8 uint8_t [8] bytes", "48+2 struct {...} nested", "50+12 short int [2][3] grid",
        "62+5 struct {...} packed"})
    EXPECT_TRUE(has(part)) << part << " is not in\n" << fmt::format("{}", fmt::join(parts, "\n"));
}

TEST(TypeLayout, ATypedefOrAPrefixNamesAStructureToo) {
  const auto info = open_variables();
  EXPECT_EQ(info->find_structures("request").size(), 1U);
  EXPECT_EQ(info->find_structures("struct request").size(), 1U);
  EXPECT_TRUE(info->find_structures("net::request").empty());
  EXPECT_TRUE(info->find_structures("uint8_t").empty());
  EXPECT_TRUE(info->find_structures("").empty());
}

}  // namespace
}  // namespace pinprick::debug
