#include "debug/debug_info.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/fd.h"
#include "debug/calling.h"
#include "image/elf/elf_file.h"
#include "scratch.h"

namespace pinprick::debug {
namespace {

const std::string kProgram = std::string(TARGETS) + "variables";

std::unique_ptr<DebugInfo> open(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return DebugInfo::open(file.get());
}

Address address_of(std::string_view function) {
  for (const image::Symbol& symbol : image::ElfFile::open(kProgram)->symtab())
    if (symbol.name == function) return symbol.address;
  return 0;
}

const Variable& named(const std::vector<Variable>& all, std::string_view name) {
  const auto found = std::ranges::find(all, name, &Variable::name);
  if (found == all.end()) throw std::runtime_error("no variable " + std::string(name));
  return *found;
}

TEST(DebugInfo, HasParametersInOrderWithTheirTypes) {
  const auto info = open(kProgram);
  ASSERT_NE(info, nullptr);
  const auto function = info->function_at(address_of("many"));
  ASSERT_TRUE(function);
  std::string types;
  for (const Variable& one : function->parameters) types += one.name + ": " + one.type.name + "; ";
  EXPECT_EQ(types,
            "a: int; b: long int; c: short int; d: double; e: unsigned int; f: char; g: long int; "
            "h: int; by_value: struct large; text: const char *; ");
  EXPECT_EQ(function->result.bytes, 8U);
  EXPECT_TRUE(function->result.is_signed);
  EXPECT_FALSE(function->parameters[4].type.is_signed);
  EXPECT_FALSE(info->function_at(address_of("many") + 1));
}

TEST(DebugInfo, FindsMembersInUnnamedUnionsAndBitFields) {
  const auto info = open(kProgram);
  const auto variables = info->variables_at(address_of("serve"));
  const auto request = info->target_of(named(variables, "r").type);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->name, "struct request");
  const auto number = info->find_member(*request, "number");
  const auto bytes = info->find_member(*request, "bytes");
  ASSERT_TRUE(number && bytes);
  EXPECT_EQ(number->offset, bytes->offset);
  EXPECT_EQ(bytes->type.kind, Type::Kind::array);
  EXPECT_EQ(bytes->type.bytes, 8U);
  const auto peer = info->target_of(info->find_member(*request, "peer")->type);
  const auto high = info->find_member(*peer, "high");
  EXPECT_EQ(high->bits, 7U);
  EXPECT_EQ(high->bit_offset, 3U);
  EXPECT_EQ(high->offset, info->find_member(*peer, "low")->offset);
  EXPECT_TRUE(info->find_member(*peer, "below")->type.is_signed);
  EXPECT_FALSE(info->find_member(*request, "port"));
  EXPECT_FALSE(info->find_member(*request, ""));
  const auto kinds = info->enumerators_of(info->find_member(*request, "kind")->type);
  ASSERT_EQ(kinds.size(), 3U);
  EXPECT_EQ(kinds[2].name, "LAST");
  EXPECT_EQ(kinds[2].value, static_cast<uint64_t>(-3));
}

TEST(DebugInfo, FindsGlobalVariablesAndThoseThatAFunctionKeeps) {
  const auto info = open(kProgram);
  const auto total = info->find_global("total", address_of("serve"));
  ASSERT_TRUE(total);
  EXPECT_EQ(text_of(total->location).substr(0, 5), "at 0x");
  EXPECT_FALSE(info->find_global("calls", address_of("serve")));
  EXPECT_EQ(text_of(named(info->variables_at(address_of("many")), "calls").location).substr(0, 5),
            "at 0x");
}

TEST(DebugInfo, HasALineOnceInEachPlaceWhereItsFunctionIs) {
  const auto info = open(kProgram);
  const auto function = address_of("serve");
  const auto lines = info->lines_of({function, function + 1000});
  ASSERT_GT(lines.size(), 5U);
  const auto path = lines.front().file;
  EXPECT_TRUE(path.ends_with("tests/targets/variables.c")) << path;
  for (const LineCode& one : lines) {
    const auto found = info->code_of_lines("targets/variables.c", one.line, one.line);
    ASSERT_FALSE(found.empty());
    EXPECT_TRUE(std::ranges::all_of(found, [&](auto& each) { return each.line == one.line; }));
  }
  EXPECT_TRUE(info->code_of_lines("ables.c", lines[0].line, lines[0].line).empty());
  EXPECT_TRUE(info->code_of_lines("variables.c", 100000, 100000).empty());
  EXPECT_GT(info->code_of_lines("variables.c", 1, 100000).size(), 20U);
}

TEST(DebugInfo, ThereIsNoneInAFileWithoutIt) {
  Scratch scratch;
  const std::string path = scratch / "text";
  std::ofstream(path) << "no ELF file";
  EXPECT_EQ(open(path), nullptr);
  EXPECT_EQ(DebugInfo::open(-1), nullptr);
}

TEST(Calling, ParametersArePlacedByTheAbi) {
  using In = PassedParameter::Place;
  const auto info = open(kProgram);
  const auto many = passed_parameters(*info, *info->function_at(address_of("many")));
  ASSERT_EQ(many.size(), 10U);
  EXPECT_EQ(text_of(location_of(many[0])), "in %rdi");
  EXPECT_EQ(text_of(location_of(many[3])), "in %xmm0");
  EXPECT_EQ(text_of(location_of(many[4])), "in %rcx");
  EXPECT_EQ(text_of(location_of(many[6])), "in %r9");
  EXPECT_EQ(many[7].place, In::stack);
  EXPECT_EQ(many[7].offset, 0U);
  const auto parts = passed_parameters(*info, *info->function_at(address_of("in_parts")));
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(text_of(location_of(parts[0])), "in %rdi");
  EXPECT_EQ(text_of(location_of(parts[1])), "in %rsi");
}

TEST(Calling, WhatIsInTheFrameIsStoredLater) {
  using Step = LocationStep::Kind;
  const auto at = [](Step base, uint64_t number, int64_t distance) {
    return Location{
        Location::Kind::address,
        {},
        {{base, 8, number}, {Step::number, 8, static_cast<uint64_t>(distance)}, {Step::add, 8, 0}}};
  };
  EXPECT_TRUE(is_stored_later(at(Step::frame_address, 0, -40)));
  EXPECT_FALSE(is_stored_later(at(Step::frame_address, 0, 8)));
  EXPECT_TRUE(is_stored_later(at(Step::register_, 6, -16)));
  EXPECT_FALSE(is_stored_later(at(Step::register_, 5, 0)));
  EXPECT_FALSE(is_stored_later({Location::Kind::value, {}, {{Step::register_, 8, 5}}}));
}

}  // namespace
}  // namespace pinprick::debug
