#include "image/elf/go_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "image/match.h"
#include "image/process.h"
#include "image/programs.h"

namespace pinprick::image {
namespace {

constexpr Address kTable = 0x500000, kText = 0x401000;

struct GoFunction {
  uint64_t distance;  // from the start of the text
  const char* name;
};
constexpr GoFunction kFunctions[] = {
    {0x0, "internal/cpu.Initialize"}, {0x40, "main.main"}, {0x41, "main.(*T).Read"}};
constexpr uint64_t kEnd = 0x80;

template <class T>
void put(std::vector<uint8_t>& bytes, T value) {
  const auto* const begin = reinterpret_cast<const uint8_t*>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof value);
}

// Where the linker of each version puts what.
struct Version {
  const char* name;
  uint32_t magic;
  size_t words;          // in the header, after the first 8 bytes
  size_t text_word;      // which of these has the start of the text; 0: none
  size_t field;          // size of an address or a distance
  bool is_relative;      // details lie from the list of functions on, not from the table's start
  bool has_text = true;  // the header has the start of the text
};
constexpr Version kVersions[] = {{"1.2", 0xfffffffb, 1, 0, 8, false},
                                 {"1.16", 0xfffffffa, 7, 0, 8, true},
                                 {"1.18", 0xfffffff0, 8, 2, 4, true},
                                 {"1.20", 0xfffffff1, 8, 2, 4, true},
                                 {"1.26", 0xfffffff1, 8, 2, 4, true, false}};

std::vector<uint8_t> table_of(const Version& version) {
  const auto address = [&](std::vector<uint8_t>& bytes, uint64_t distance) {
    if (version.field == 8)
      put<uint64_t>(bytes, kText + distance);
    else
      put<uint32_t>(bytes, static_cast<uint32_t>(distance));
  };
  const size_t header = 8 + 8 * version.words;
  const size_t count = std::size(kFunctions);
  const size_t functions = 2 * version.field * count + version.field;
  std::vector<uint8_t> names, details, list;
  std::vector<uint32_t> name_offsets, detail_offsets;
  for (const GoFunction& function : kFunctions) {
    name_offsets.push_back(static_cast<uint32_t>(names.size()));
    names.insert(names.end(), function.name, function.name + std::strlen(function.name) + 1);
  }
  names.resize(align_up(names.size(), 8));
  // 1.2 has its list first, and one offset for all.
  const size_t names_at = version.words == 1 ? header + align_up(functions, 8) : header;
  const size_t list_at = version.words == 1 ? header : header + names.size();
  const size_t details_at =
      version.words == 1 ? names_at + names.size() : list_at + align_up(functions, 8);
  for (size_t i = 0; i < count; ++i) {
    detail_offsets.push_back(
        static_cast<uint32_t>(details_at + details.size() - (version.is_relative ? list_at : 0)));
    address(details, kFunctions[i].distance);
    put<uint32_t>(details,
                  static_cast<uint32_t>(name_offsets[i] + (version.words == 1 ? names_at : 0)));
    details.resize(align_up(details.size(), 8) + 24);
  }
  for (size_t i = 0; i < count; ++i) {
    address(list, kFunctions[i].distance);
    if (version.field == 8)
      put<uint64_t>(list, detail_offsets[i]);
    else
      put<uint32_t>(list, detail_offsets[i]);
  }
  address(list, kEnd);
  list.resize(align_up(list.size(), 8));

  std::vector<uint8_t> bytes;
  put<uint32_t>(bytes, version.magic);
  put<uint32_t>(bytes, 0x08010000);  // two zeros, the smallest instruction, a pointer
  put<uint64_t>(bytes, count);
  if (version.words > 1) {
    put<uint64_t>(bytes, 1);  // source files
    if (version.text_word != 0) put<uint64_t>(bytes, version.has_text ? kText : 0);
    put<uint64_t>(bytes, names_at);
    for (int i = 0; i < 3; ++i) put<uint64_t>(bytes, list_at);  // what comes after the names
    put<uint64_t>(bytes, list_at);
  }
  EXPECT_EQ(bytes.size(), header);
  const auto append = [&](const std::vector<uint8_t>& part) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  };
  if (version.words > 1) append(names);
  append(list);
  if (version.words == 1) append(names);
  append(details);
  return bytes;
}

std::vector<Symbol> parsed(const GoTableBytes& table, std::optional<Address> text = kText) {
  const auto word = [&](Address address) -> std::optional<uint64_t> {
    const uint64_t at = address - table.address;
    if (at > table.bytes.size() || table.bytes.size() - at < 8) return std::nullopt;
    uint64_t value = 0;
    std::memcpy(&value, table.bytes.data() + at, sizeof value);
    return value;
  };
  return parse_go_table(table, word, [&] { return text; });
}

class GoTable : public testing::TestWithParam<Version> {};

INSTANTIATE_TEST_SUITE_P(Versions, GoTable, testing::ValuesIn(kVersions), [](const auto& version) {
  std::string name = version.param.name;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

TEST_P(GoTable, HasTheFunctionsAndTheirNames) {
  const GoTableBytes table = {kTable, table_of(GetParam())};
  const auto symbols = parsed(table);
  ASSERT_EQ(symbols.size(), std::size(kFunctions));
  for (size_t i = 0; i < symbols.size(); ++i) {
    EXPECT_EQ(symbols[i].address, kText + kFunctions[i].distance);
    EXPECT_EQ(symbols[i].name, kFunctions[i].name);
    EXPECT_EQ(symbols[i].size, (i + 1 < symbols.size() ? kFunctions[i + 1].distance : kEnd) -
                                   kFunctions[i].distance);
    EXPECT_TRUE(symbols[i].is_function());
  }
  EXPECT_EQ(parsed(table, std::nullopt).empty(), !GetParam().has_text)
      << "nothing else says where the text starts";
}

TEST_P(GoTable, ThatIsBrokenHasNoFunctions) {
  const auto whole = table_of(GetParam());
  for (size_t size = 0; size < whole.size(); ++size) {
    // Of exactly this size, for sanitizers.
    GoTableBytes table = {
        kTable, std::vector<uint8_t>(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size))};
    for (const Symbol& symbol : parsed(table))
      EXPECT_TRUE(std::any_of(std::begin(kFunctions), std::end(kFunctions),
                              [&](const auto& function) { return symbol.name == function.name; }))
          << size;
  }
  for (size_t at = 0; at + 8 <= whole.size(); at += 4)
    for (const uint64_t value : {uint64_t{0}, uint64_t{0x7fffffff}, UINT64_MAX}) {
      GoTableBytes table = {kTable, whole};
      std::memcpy(table.bytes.data() + at, &value, sizeof value);
      parsed(table);
    }
}

// A program of Go's own, and what strippers make of it.
class GoProgram : public testing::Test {
 protected:
  void SetUp() override {
    if (run_shell("command -v go").status != 0) GTEST_SKIP() << "Go's compiler is not installed";
  }
  std::string built(const std::string& name, const std::string& options) {
    const std::string path = scratch_ / name;
    const std::string line = "GO111MODULE=off GOFLAGS= CGO_ENABLED=0 GOCACHE=" GO_CACHE
                             " go build " +
                             options + " -o " + path + " " IMAGE_SOURCES "../goroutines.go 2>&1";
    EXPECT_EQ(run_shell(line).status, 0) << line;
    return path;
  }
  using Names = std::map<Address, std::set<std::string>>;
  // Functions with code of the program's own and of Go's runtime.
  static Names listed(const std::string& path) {
    Names names;
    // 0000000000401000 T name, which may have spaces
    constexpr size_t kType = 17, kName = 19;
    for (const std::string& line : lines_of(run_shell("nm " + path).output)) {
      if (line.size() <= kName || (line[kType] != 'T' && line[kType] != 't')) continue;
      // Tables have names without what tells an implementation by its calling convention, or by the
      // types that it is for.
      std::string name = line.substr(kName);
      auto& known = names[hex(line.substr(0, kType - 1))];
      known.insert(name.substr(0, name.find('[')));
      if (name.ends_with(".abi0")) known.insert(name.substr(0, name.size() - 5));
    }
    return names;
  }
  void expect_all(const std::string& path, const Names& expected) {
    auto file = load_file(path);
    ASSERT_TRUE(file);
    Object& object = *file->objects.at(0);
    EXPECT_TRUE(object.elf().is_go());
    size_t found = 0;
    for (const Function& function : object.functions().functions())
      for (std::string_view name : object.functions().names(function)) {
        name = name.substr(0, name.find('['));
        const auto known = expected.find(function.range.begin);
        EXPECT_TRUE(known != expected.end() && known->second.contains(std::string(name))) << name;
        ++found;
      }
    EXPECT_GT(found, 1000u);
    const std::string_view some[] = {"runtime.morestack"}, nothing[] = {"no.such.function"};
    EXPECT_TRUE(object.may_name_any(some));
    EXPECT_FALSE(object.may_name_any(nothing));
    const auto pattern = Pattern::parse("main.main", PatternSyntax::glob);
    EXPECT_EQ(match_patterns(*file, {*pattern}, {}).matches.size(), 1u);
  }

  Scratch scratch_;
};

TEST_F(GoProgram, HasItsNamesHoweverItWasStripped) {
  const std::string whole = built("whole", "");
  const auto expected = listed(whole);
  expect_all(whole, expected);
  for (const auto& [name, how] :
       {std::pair("strip", "strip -s "), std::pair("strip_kept", "strip -s -K main.main "),
        std::pair("no_sections", "llvm-objcopy --strip-sections ")}) {
    SCOPED_TRACE(name);
    if (run_shell(std::string("command -v ") +
                  std::string(how).substr(0, std::string(how).find(' ')))
            .status != 0) {
      std::printf("left out: %s is not installed\n", how);
      continue;
    }
    const std::string path = scratch_ / name;
    std::filesystem::copy_file(whole, path);
    ASSERT_EQ(run_shell(how + path).status, 0);
    expect_all(path, expected);
  }
}

// As Go 1.26 makes it: the runtime's moduledata alone says where the text starts.
TEST_F(GoProgram, HasItsNamesIfItsTableDoesNotSayWhereTheTextStarts) {
  const std::string whole = built("whole", ""), path = scratch_ / "without_text";
  auto bytes = read_bytes(whole);
  const Section table = sections(whole).at(".gopclntab");
  constexpr size_t kTextWord = 24;
  std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(table.offset + kTextWord), 8, uint8_t{0});
  write_bytes(path, bytes);
  for (const char* how : {"strip -s ", "llvm-objcopy --strip-sections "}) {
    if (run_shell(std::string(how) + path).status != 0) continue;
    expect_all(path, listed(whole));
  }
}

TEST_F(GoProgram, HasItsNamesIfItsLinkerLeavesSymbolsOut) {
  const std::string path = built("bare", "-ldflags='-s -w -buildid='");
  EXPECT_FALSE(open_program(path).has_symtab());
  EXPECT_TRUE(open_program(path).is_go());
  auto file = load_file(path);
  ASSERT_TRUE(file);
  for (const char* name : {"main.main", "runtime.mallocgc", "runtime.(*mheap).alloc"}) {
    const auto pattern = Pattern::parse(name, PatternSyntax::glob);
    EXPECT_EQ(match_patterns(*file, {*pattern}, {}).matches.size(), 1u) << name;
  }
}

}  // namespace
}  // namespace pinprick::image
