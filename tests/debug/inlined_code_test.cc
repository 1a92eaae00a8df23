// Inlined functions: where they begin, and which variables they have there.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "debug/debug_info.h"
#include "image/elf/elf_file.h"

namespace pinprick::debug {
namespace {

std::unique_ptr<DebugInfo> info_of_target() {
  const Fd file(::open(TARGETS "variables", O_RDONLY | O_CLOEXEC));
  return DebugInfo::open(file.get());
}

std::vector<InlinedCode> copies_of(DebugInfo& info, std::string_view function) {
  return info.inlined_code([&](std::string_view name) { return name == function; });
}

TEST(InlinedCode, IsWhereTheFunctionWasInlined) {
  const auto info = info_of_target();
  ASSERT_NE(info, nullptr);
  const auto copies = copies_of(*info, "inlined");
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].function, "inlined");
  EXPECT_NE(copies[0].number, 0U);
  const auto symbols = image::ElfFile::open(TARGETS "variables")->symtab();
  const auto serve = std::ranges::find(symbols, "serve", &image::Symbol::name);
  ASSERT_NE(serve, symbols.end());
  EXPECT_GT(copies[0].address, serve->address);
  EXPECT_LT(copies[0].address, serve->address + serve->size);
  EXPECT_TRUE(copies_of(*info, "serve").empty());
}

TEST(InlinedCode, EachFunctionIsAskedForOnceByItsName) {
  const auto info = info_of_target();
  std::vector<std::string> names;
  EXPECT_TRUE(info->inlined_code([&](std::string_view name) {
                    names.emplace_back(name);
                    return false;
                  })
                  .empty());
  EXPECT_EQ(std::ranges::count(names, "inlined"), 1);
}

TEST(InlinedCode, HasVariablesOfTheInlinedFunctionAlone) {
  const auto info = info_of_target();
  const InlinedCode copy = copies_of(*info, "inlined").at(0);
  const auto names = [&](const Beginning& beginning) {
    std::vector<std::string> all;
    for (const Variable& one : info->variables_at(copy.address, beginning)) all.push_back(one.name);
    return all;
  };
  const auto own = names({.inlined = copy.number});
  for (const char* const name : {"of", "by", "sum"})
    EXPECT_EQ(std::ranges::count(own, name), 1) << name;
  for (const char* const name : {"r", "n", "far"})
    EXPECT_EQ(std::ranges::count(own, name), 0) << name;
  EXPECT_EQ(std::ranges::count(names({.of_function = true}), "far"), 1);
  EXPECT_TRUE(names({.inlined = copy.number + 1}).empty());
  EXPECT_TRUE(names({.inlined = UINT64_MAX}).empty());
}

}  // namespace
}  // namespace pinprick::debug
