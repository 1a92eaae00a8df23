#include "image/functions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "arch/code.h"
#include "image/object.h"
#include "image/process.h"
#include "image/programs.h"
#include "library_path.h"

namespace pinprick::image {
namespace {

// The functions of nested.S, and the addresses of its labels according to nm.
class NestedFunctions : public testing::Test {
 protected:
  NestedFunctions() : NestedFunctions(program("nested")) {}
  explicit NestedFunctions(const std::string& path) : path_(path), file_(load_file(path)) {
    EXPECT_TRUE(file_);
    const Section text = sections(path_).at(".text");
    end_of_text_ = text.range.end;
    // `address_x` are distances from the start of the code.
    for (const NmSymbol& symbol : nm(program("nested")))
      labels_[symbol.name] =
          symbol.name.starts_with("address_") ? text.range.begin + symbol.address : symbol.address;
  }

  Object& object() { return *file_->objects.at(0); }
  const FunctionTable& table() { return object().functions(); }
  Address label(const std::string& name) { return labels_.at(name); }

  const Function& at(const std::string& name) {
    for (const Function& function : table().functions())
      if (function.range.begin == label(name)) return function;
    ADD_FAILURE() << "no function at " << name;
    static const Function none;
    return none;
  }
  std::vector<std::string> names_at(const std::string& name) {
    const auto names = table().names(at(name));
    return {names.begin(), names.end()};
  }

  std::string path_;
  Result<ProcessImage, ElfError> file_;
  std::map<std::string, Address> labels_;
  Address end_of_text_ = 0;
};

TEST_F(NestedFunctions, AreSortedByAddressAndUnique) {
  const auto& all = table().functions();
  ASSERT_FALSE(all.empty());
  for (size_t i = 1; i < all.size(); ++i) EXPECT_LT(all[i - 1].range.begin, all[i].range.begin);
}

TEST_F(NestedFunctions, HaveAllTheirNamesThePreferredFirst) {
  const auto names = names_at("twice");
  EXPECT_EQ(names, (std::vector<std::string>{"twice", "__twice_too", "twice_local"}));
  EXPECT_EQ(at("twice").range.size(), 5u) << "the longest of the sizes";
}

TEST_F(NestedFunctions, WithoutSizeEndWhereTheNextOneStarts) {
  EXPECT_EQ(at("sizeless").range.end, label("outer"));
  EXPECT_EQ(at("sizeless").limit, label("outer"));
}

TEST_F(NestedFunctions, InsideOthersAreFunctionsOfTheirOwn) {
  EXPECT_TRUE(at("outer").range.contains(at("inner").range));
  EXPECT_EQ(table().find(label("inner")), &at("inner"));
  EXPECT_EQ(table().find(label("outer")), &at("outer"));
  // After the inner one comes the rest of the outer one.
  EXPECT_EQ(table().find(at("inner").range.end), &at("outer"));
  EXPECT_EQ(table().find(at("outer").range.end), nullptr) << "padding belongs to no function";
}

TEST_F(NestedFunctions, ThatOverlapKeepTheirRanges) {
  EXPECT_EQ(at("left").range.end, at("right").range.begin + 2);
  EXPECT_EQ(table().find(at("right").range.begin + 1), &at("right"));
}

TEST_F(NestedFunctions, NeverReachPastTheNextFunction) {
  const auto& all = table().functions();
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_LE(all[i].range.end, all[i].limit);
    EXPECT_LE(all[i].limit, align_up(end_of_text_, kPageSize));
    if (i + 1 < all.size() && all[i].range.end <= all[i + 1].range.begin) {
      EXPECT_LE(all[i].limit, all[i + 1].range.begin) << i;
    }
  }
}

TEST_F(NestedFunctions, ThatClaimMoreThanTheSegmentGetWhatIsInIt) {
  EXPECT_EQ(at("greedy").range.end, end_of_text_);
  EXPECT_EQ(at("greedy").limit, end_of_text_);
}

TEST_F(NestedFunctions, NeedNoSymbolIfThereIsAnUnwindEntry) {
  const Function& unnamed = at("address_unnamed");
  EXPECT_EQ(unnamed.range.end, label("address_unnamed_end"));
  EXPECT_EQ(unnamed.name_count, 0u);
  EXPECT_TRUE(unnamed.entered_by_call);
}

TEST_F(NestedFunctions, EndWhereTheLongerOfSymbolAndUnwindEntryEnds) {
  EXPECT_EQ(at("short_symbol").range.end, label("address_short_symbol_end"));
}

TEST_F(NestedFunctions, ThatAreEnteredByAJumpAreMarked) {
  EXPECT_FALSE(at("address_cold").entered_by_call) << "its frame is built already";
  EXPECT_FALSE(at("_start").entered_by_call) << "there is no return address";
  EXPECT_TRUE(at("short_symbol").entered_by_call);
  EXPECT_TRUE(at("twice").entered_by_call) << "a symbol, and no unwind entry that says otherwise";
}

TEST_F(NestedFunctions, DoNotIncludeWhatIsNotAFunction) {
  const auto& all = table().functions();
  for (const char* name : {"untyped", "object_in_data"})
    EXPECT_TRUE(std::none_of(all.begin(), all.end(), [&](const Function& function) {
      return function.range.begin == label(name);
    })) << name;
}

TEST_F(NestedFunctions, EveryNamedAddressInCodeMayBeEntered) {
  const auto& named = table().named_addresses();
  EXPECT_TRUE(std::is_sorted(named.begin(), named.end()));
  for (const char* name : {"twice", "inner", "right", "untyped", "address_unnamed", "address_cold"})
    EXPECT_TRUE(std::binary_search(named.begin(), named.end(), label(name))) << name;
  EXPECT_FALSE(std::binary_search(named.begin(), named.end(), label("object_in_data")));
}

TEST(Parts, HaveASuffixOfACompilerAtTheEnd) {
  for (const char* name : {"f.cold", "f.cold.3", "f.isra.0.cold", "f.part.0.cold.1", "_Z1fv.cold",
                           "f.warm", "_RNvC3foo3bar.cold"})
    EXPECT_TRUE(names_part(name)) << name;
  for (const char* name : {"f", "f.part.0", "main.cold.Read", "main.cold.func1", "cold", "f.colder",
                           "f.cold.", "f.cold.x", "main.warm.Read", "f.warm.", "f.cold.isra.0"})
    EXPECT_FALSE(names_part(name)) << name;
}

class StrippedNestedFunctions : public NestedFunctions {
 protected:
  StrippedNestedFunctions() : NestedFunctions(stripped()) {}
  static std::string stripped() {
    static Scratch scratch;
    EXPECT_EQ(run_shell("strip -s -o " + (scratch / "nested") + " " + program("nested")).status, 0);
    return scratch / "nested";
  }
};

TEST_F(StrippedNestedFunctions, AreThoseWithUnwindEntries) {
  EXPECT_EQ(table().functions().size(), 4u);
  for (const char* name : {"address_unnamed", "short_symbol", "address_cold", "_start"})
    EXPECT_EQ(at(name).name_count, 0u) << name;
  EXPECT_EQ(at("short_symbol").range.end, label("address_short_symbol_end"));
}

TEST_F(StrippedNestedFunctions, KeepTheEntry) {
  const auto& named = table().named_addresses();
  EXPECT_TRUE(std::binary_search(named.begin(), named.end(), label("_start")));
}

// In a stripped library only its unwind entry describes it, and that starts a byte early.
TEST(SignalRestorer, IsAFunctionThatStartsAtItsFirstInstruction) {
  const std::string libc = library_path("libc.so.6");
  auto file = load_file(libc);
  ASSERT_TRUE(file);
  Object& object = *file->objects.at(0);
  size_t found = 0;
  for (const Function& function : object.functions().functions()) {
    const auto code = object.code(function);
    EXPECT_FALSE(!code.empty() && arch::is_signal_restorer(code.subspan(1)))
        << std::hex << function.range.begin;
    found += arch::is_signal_restorer(code) ? 1 : 0;
  }
  EXPECT_EQ(found, 1u);
}

// The functions of real libraries according to nm: type, value and size.
class LibraryFunctions : public testing::TestWithParam<const char*> {};

TEST_P(LibraryFunctions, AreThoseThatNmLists) {
  const std::string path = GetParam();
  if (::access(path.c_str(), R_OK) != 0) GTEST_SKIP() << path;
  auto file = load_file(path);
  ASSERT_TRUE(file);
  const FunctionTable& table = file->objects.at(0)->functions();
  size_t checked = 0;
  for (const NmSymbol& symbol : nm(path, "-D")) {
    if (std::string("TtWwi").find(symbol.type) == std::string::npos || symbol.size == 0) continue;
    if (!file->objects[0]->contains_code(symbol.address)) continue;
    const auto& all = table.functions();
    const auto found = std::find_if(all.begin(), all.end(), [&](const Function& function) {
      return function.range.begin == symbol.address;
    });
    ASSERT_NE(found, all.end()) << symbol.name;
    EXPECT_GE(found->range.size(), symbol.size) << symbol.name;
    EXPECT_EQ(found->ifunc, symbol.type == 'i') << symbol.name;
    const auto names = table.names(*found);
    EXPECT_NE(std::find(names.begin(), names.end(), symbol.name), names.end()) << symbol.name;
    ++checked;
  }
  EXPECT_GT(checked, 100u);
}

INSTANTIATE_TEST_SUITE_P(Libraries, LibraryFunctions,
                         testing::Values("/lib/x86_64-linux-gnu/libc.so.6",
                                         "/lib/x86_64-linux-gnu/libm.so.6"));

// _fini has no size, and its segment goes on with constants.
TEST(FunctionsWithoutSize, EndWhereTheirSectionEnds) {
  auto file = load_file(program("throws_one_segment"));
  ASSERT_TRUE(file);
  const auto all = sections(program("throws_one_segment"));
  const Range text = all.at(".text").range, fini = all.at(".fini").range;
  size_t found = 0;
  for (const Function& function : file->objects.at(0)->functions().functions())
    for (const Range section : {text, fini})
      if (section.contains(function.range.begin)) {
        EXPECT_LE(function.range.end, section.end);
        EXPECT_LE(function.limit, section.end);
        ++found;
      }
  EXPECT_GT(found, 3u);
}

TEST(PltEntries, AreNotFunctions) {
  auto file = load_file(program("basic_pie"));
  ASSERT_TRUE(file);
  const auto all = sections(program("basic_pie"));
  for (const auto& [name, section] : all) {
    if (!name.starts_with(".plt")) continue;
    for (const Function& function : file->objects.at(0)->functions().functions())
      EXPECT_FALSE(section.range.overlaps({function.range.begin, function.limit})) << name;
  }
}

}  // namespace
}  // namespace pinprick::image
