// Names, linkage tables and relocations of one program, as each linker makes it and each tool
// strips it. What was there before stripping, as binutils list it, says what is right.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "image/object.h"
#include "image/process.h"
#include "image/programs.h"

namespace pinprick::image {
namespace {

bool is_installed(const std::string& command) {
  return run_shell("command -v " + command).status == 0;
}

// Which names are left: those of the whole file, or those that nm lists in the stripped one. What
// it exports keeps its name.
enum class Left : uint8_t { all, listed };

// `{}` is the file, `{}.debug` a file beside it.
struct Stripped {
  const char* name;
  const char* how;
  Left left;
  const char* needs = nullptr;
};

// The first ones are for each way to link.
constexpr size_t kStripsForEachLink = 4;
constexpr Stripped kStripped[] = {
    {"not stripped", "true", Left::all},
    {"strip -s", "strip -s {}", Left::listed},
    {"debug file, one symbol kept",
     "objcopy --only-keep-debug {} {}.debug && strip -s -K open_c {} && "
     "objcopy --add-gnu-debuglink={}.debug {}",
     Left::all},
    {"llvm-objcopy --strip-sections", "llvm-objcopy --strip-sections {}", Left::listed,
     "llvm-objcopy"},
    {"strip -g", "strip -g {}", Left::all},
    {"strip --strip-unneeded", "strip --strip-unneeded {}", Left::listed},
    {"strip -s -K", "strip -s -K open_c {}", Left::listed},
    {"objcopy -x", "objcopy -x {}", Left::listed},
    {"debug file by its id", "objcopy --only-keep-debug {} {}.debug && strip -s {}", Left::all},
    {".gnu_debugdata",
     "objcopy --only-keep-debug {} {}.mini && objcopy -S -K hidden_a -K open_c -K untyped -K run "
     "{}.mini "
     "&& xz -f {}.mini && strip -s {} && objcopy --add-section .gnu_debugdata={}.mini.xz {}",
     Left::all},
    {".gnu_debugdata in two streams",
     "objcopy --only-keep-debug {} {}.mini && objcopy -S -K hidden_a -K open_c -K untyped -K run "
     "{}.mini "
     "&& strip -s {} && (head -c 1000 {}.mini | xz; tail -c +1001 {}.mini | xz) >{}.xz && "
     "objcopy --add-section .gnu_debugdata={}.xz {}",
     Left::all},
    {".gnu_debugdata, one symbol kept",
     "objcopy --only-keep-debug {} {}.mini && objcopy -S -K hidden_a -K untyped -K run {}.mini && "
     "xz -f {}.mini && strip -s -K open_c {} && "
     "objcopy --add-section .gnu_debugdata={}.mini.xz {}",
     Left::all},
    {"llvm-objcopy --strip-sections, debug file by its id",
     "objcopy --only-keep-debug {} {}.debug && llvm-objcopy --strip-sections {}", Left::all,
     "llvm-objcopy"},
};

std::string for_file(std::string command, const std::string& path) {
  for (size_t at; (at = command.find("{}")) != command.npos;) command.replace(at, 2, path);
  return command;
}

using Names = std::set<std::string>;
using OneRelocation = std::tuple<Address, Relocation::Kind, int64_t, std::string>;

struct Truth {
  std::vector<Range> linkage_tables;
  std::map<std::string, Address> functions;
  Names exported;
  std::set<OneRelocation> relocations;
};

std::set<OneRelocation> listed_relocations(const std::string& path) {
  using Kind = Relocation::Kind;
  const std::map<std::string, Kind> kinds = {{"R_X86_64_RELATIVE", Kind::relative},
                                             {"R_X86_64_IRELATIVE", Kind::irelative},
                                             {"R_X86_64_JUMP_SLOT", Kind::symbol},
                                             {"R_X86_64_GLOB_DAT", Kind::symbol},
                                             {"R_X86_64_64", Kind::symbol}};
  std::set<OneRelocation> all;
  for (const std::string& line : lines_of(run_shell("readelf -rW '" + path + "' 2>&1").output)) {
    const auto words = words_of(line);
    if (words.size() < 4 || words[2].find("R_X86_64_") != 0) continue;
    const auto kind = kinds.find(words[2]);
    const bool named = words.size() > 4;
    all.emplace(hex(words[0]), kind == kinds.end() ? Kind::other : kind->second,
                named ? static_cast<int64_t>(hex(words.back())) : 0,
                named ? words[4].substr(0, words[4].find('@')) : "");
  }
  return all;
}

Truth truth_of(const std::string& path) {
  Truth truth;
  for (const auto& [name, section] : sections(path))
    if (name.starts_with(".plt")) truth.linkage_tables.push_back(section.range);
  for (const NmSymbol& symbol : nm(path)) truth.functions[symbol.name] = symbol.address;
  for (const NmSymbol& symbol : nm(path, "-D")) truth.exported.insert(symbol.name);
  truth.relocations = listed_relocations(path);
  return truth;
}

// Addends of relative relocations are not compared: readelf prints them elsewhere.
std::set<OneRelocation> found_relocations(Object& object) {
  std::set<OneRelocation> all;
  for (const Relocation& one : object.relocations())
    all.emplace(one.address, one.kind, one.symbol.empty() ? 0 : one.addend, one.symbol);
  return all;
}

Names names_of(Object& object, Address start) {
  Names names;
  for (const Function& function : object.functions().functions())
    if (function.range.begin == start)
      for (std::string_view name : object.functions().names(function)) names.emplace(name);
  return names;
}

bool is_function(Object& object, Address start) {
  return object.functions().starts_at(start);
}

// The file lies at /app/left below `root`.
void expect_right(const std::string& path, const std::string& root, const Truth& truth, Left left) {
  auto elf = ElfFile::open(path);
  ASSERT_TRUE(elf);
  Object object(*std::move(elf), 0, {"left"}, "/app/left", root, {});
  for (const Function& function : object.functions().functions())
    for (const Range& table : truth.linkage_tables)
      EXPECT_FALSE(table.contains(function.range.begin))
          << std::hex << function.range.begin << " is an entry of a linkage table";

  Names names = truth.exported;
  if (object.elf().has_symtab())
    for (const NmSymbol& symbol : nm(path)) names.insert(symbol.name);
  for (const char* name : {"hidden_a", "open_c", "untyped", "run"}) {
    const Address start = truth.functions.at(name);
    EXPECT_TRUE(is_function(object, start)) << name;
    EXPECT_EQ(names_of(object, start).contains(name), left == Left::all || names.contains(name))
        << name;
  }

  EXPECT_EQ(found_relocations(object), truth.relocations);
  for (const auto& [address, kind, addend, symbol] : truth.relocations)
    if (kind == Relocation::Kind::symbol) {
      EXPECT_EQ(object.imported_at(address), symbol) << std::hex << address;
    }
  const std::string_view imported[] = {"getenv"}, nothing[] = {"nothing_has_this_name"};
  EXPECT_TRUE(object.elf().may_import_any(imported));
  EXPECT_FALSE(object.elf().may_import_any(nothing));
  EXPECT_TRUE(object.may_name_any(imported)) << "as an import";
  const std::string_view hidden[] = {"hidden_a"};
  EXPECT_TRUE(left != Left::all || object.may_name_any(hidden));
}

struct Linked {
  const char* name;
  const char* flags;
  const char* only_linker = nullptr;
};

// Ways to strip matter to the first two; the others have other linkage tables and hash tables.
constexpr Linked kLinked[] = {
    {"pie", "-fPIE -pie -Wl,-z,lazy"},
    {"library", "-DLIBRARY -fPIC -shared -Wl,--hash-style=gnu"},
    {"pie_exporting", "-fPIE -pie -rdynamic -Wl,-z,now -Wl,--hash-style=sysv"},
    {"nopie", "-fno-pie -no-pie -fcf-protection=none -Wl,-z,now"},
    {"past_plt", "-fPIE -pie -fno-plt -Wl,--hash-style=gnu"},
    {"ibt", "-fno-pie -no-pie -fcf-protection=full -Wl,-z,lazy -Wl,-z,ibtplt", "bfd"},
};
constexpr size_t kLinkedForEachStrip = 2;

struct Tools {
  const char* compiler;
  const char* linker;
};

class LinkedAndStripped : public testing::TestWithParam<Tools> {};

INSTANTIATE_TEST_SUITE_P(Tools, LinkedAndStripped,
                         testing::Values(Tools{"gcc", "bfd"}, Tools{"gcc", "gold"},
                                         Tools{"gcc", "lld"}, Tools{"gcc", "mold"},
                                         Tools{"clang", "lld"}),
                         [](const auto& tools) {
                           return std::string(tools.param.compiler) + "_" + tools.param.linker;
                         });

TEST_P(LinkedAndStripped, FilesHaveTheNamesThatAreLeftAndAllRelocationsAndNoLinkageTableFunctions) {
  const auto [compiler, linker] = GetParam();
  for (const std::string& tool : {std::string(compiler), "ld." + std::string(linker)})
    if (!is_installed(tool)) GTEST_SKIP() << tool << " is not installed";
  const bool has_llvm_objcopy = is_installed("llvm-objcopy");
  if (!has_llvm_objcopy) std::printf("llvm-objcopy is not installed: not tried\n");
  const Scratch scratch;
  for (const Linked& linked : kLinked) {
    if (linked.only_linker != nullptr && linked.only_linker != std::string_view(linker)) continue;
    const bool each_strip = &linked < kLinked + kLinkedForEachStrip;
    const std::string whole = scratch / "whole";
    const std::string build = std::string(compiler) + " -g -O1 -fasynchronous-unwind-tables " +
                              linked.flags + " -fuse-ld=" + linker + " -Wl,--build-id=sha1 -o " +
                              whole + " " + IMAGE_SOURCES + "left.c";
    ASSERT_EQ(run_shell(build + " 2>&1").status, 0) << build;
    const Truth truth = truth_of(whole);
    const std::string id = open_program(whole).build_id();
    ASSERT_GT(id.size(), 2u);
    for (const Stripped& stripped : kStripped) {
      SCOPED_TRACE(std::string(linked.name) + ", " + stripped.name);
      if (!each_strip && &stripped >= kStripped + kStripsForEachLink) continue;
      if (stripped.needs != nullptr && !has_llvm_objcopy) continue;
      std::filesystem::remove_all(scratch / "root");
      const std::string folder = scratch / "root/usr/lib/debug/.build-id/" + id.substr(0, 2);
      std::filesystem::create_directories(folder);
      std::filesystem::create_directories(scratch / "root/app");
      const std::string path = scratch / "root/app/left";
      std::filesystem::copy_file(whole, path);
      const std::string how = for_file(stripped.how, path);
      ASSERT_EQ(run_shell(how + " 2>&1").status, 0) << how;
      if (std::string_view(stripped.name).find("by its id") != std::string_view::npos)
        std::filesystem::rename(path + ".debug", folder + "/" + id.substr(2) + ".debug");
      expect_right(path, scratch / "root", truth, stripped.left);
    }
  }
}

}  // namespace
}  // namespace pinprick::image
