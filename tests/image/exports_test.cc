// What objects offer by name: the same as their symbol tables say, by either kind of hash table.
#include "image/elf/exports.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>

#include "image/programs.h"
#include "library_path.h"

namespace pinprick::image {
namespace {

using Found = std::set<std::pair<Address, bool>>;

std::map<std::string, Found> functions_of(const ElfFile& file) {
  std::map<std::string, Found> all;
  for (const Symbol& symbol : file.dynamic_symbols())
    if (symbol.global && symbol.kind != Symbol::Kind::other &&
        file.in_executable_segment(symbol.address))
      all[std::string(symbol.name)].emplace(symbol.address, symbol.kind == Symbol::Kind::ifunc);
  return all;
}

Found found(const Exports& exports, const std::string& name) {
  Found all;
  for (const Definition& one : exports.find(HashedName(name)))
    all.emplace(one.address, one.is_resolver);
  return all;
}

std::vector<std::string> files() {
  std::vector<std::string> all;
  for (const char* soname : {"libc.so.6", "libstdc++.so.6", "libm.so.6"})
    all.push_back(library_path(soname));
  for (const char* name : {"libbasic.so.1", "libbasic_sysv.so.1"}) all.push_back(program(name));
  return all;
}

TEST(Exports, AreFoundByTheNamesThatTheSymbolTableHas) {
  for (const std::string& path : files()) {
    const auto file = ElfFile::open(path);
    ASSERT_TRUE(file) << path;
    const auto bare = ElfFile::from_bytes(without_section_headers(read_bytes(path)), "bare");
    ASSERT_TRUE(bare) << path;
    const Exports exports(*file), of_bare(*bare);
    const auto functions = functions_of(*file);
    EXPECT_FALSE(functions.empty()) << path;
    for (const auto& [name, addresses] : functions) {
      EXPECT_EQ(found(exports, name), addresses) << path << ' ' << name;
      EXPECT_EQ(found(of_bare, name), addresses) << path << ' ' << name;
      for (const std::string& other : {name + "_", name.substr(1), "_" + name})
        EXPECT_TRUE(functions.contains(other) || found(exports, other).empty()) << other;
    }
  }
}

TEST(Exports, HaveAllVersionsOfAFunctionAndTellResolversFromFunctions) {
  const auto libc = ElfFile::open(library_path("libc.so.6"));
  ASSERT_TRUE(libc);
  const Exports exports(*libc);
  EXPECT_EQ(exports.find(HashedName("memcpy")).size(), 2u) << "GLIBC_2.2.5 and GLIBC_2.14";
  EXPECT_TRUE(exports.find(HashedName("strlen")).front().is_resolver);
  EXPECT_FALSE(exports.find(HashedName("malloc")).front().is_resolver);
  EXPECT_TRUE(exports.find(HashedName("stdout")).empty()) << "a variable";
  EXPECT_TRUE(exports.find(HashedName("")).empty());
}

TEST(Exports, NameTheLibraryAndWhatItNeeds) {
  const auto file = ElfFile::open(library_path("libstdc++.so.6"));
  ASSERT_TRUE(file);
  const Exports exports(*file);
  EXPECT_EQ(exports.soname(), "libstdc++.so.6");
  const auto& needed = exports.needed();
  EXPECT_NE(std::find(needed.begin(), needed.end(), "libc.so.6"), needed.end());
}

// Whatever its tables hold, the search ends.
TEST(Exports, OfADamagedFileAreMissing) {
  std::mt19937 random(1);
  for (const char* name : {"libbasic.so.1", "libbasic_sysv.so.1"}) {
    const std::string path = program(name);
    const auto file = ElfFile::open(path);
    ASSERT_TRUE(file);
    const auto functions = functions_of(*file);
    const auto whole = read_bytes(path);
    const size_t tables =
        std::min<size_t>(whole.size() - sizeof(Elf64_Ehdr), 0x1000);  // the first segment's
    for (int round = 0; round < 300; ++round) {
      auto bytes = whole;
      for (int i = 0; i < 8; ++i)
        bytes[sizeof(Elf64_Ehdr) + random() % tables] = static_cast<uint8_t>(random());
      const auto damaged = ElfFile::from_bytes(std::move(bytes), "damaged");
      if (!damaged) continue;
      const Exports exports(*damaged);
      for (const auto& [function, addresses] : functions)
        for (const auto& [address, is_resolver] : found(exports, function))
          EXPECT_TRUE(damaged->in_executable_segment(address));
    }
  }
}

}  // namespace
}  // namespace pinprick::image
