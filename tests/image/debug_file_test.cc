#include "image/elf/debug_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "image/match.h"
#include "image/programs.h"

namespace pinprick::image {
namespace {

// A file system of the test, in which /opt/app/basic is a stripped program.
class DebugFile : public testing::Test {
 protected:
  void install(const std::string& name) {
    std::filesystem::create_directories(scratch_ / "opt/app");
    std::filesystem::copy_file(program(name), installed());
  }
  void strip() { shell("strip " + installed()); }
  // Writes the program's symbols to the file of that name.
  void separate(const std::string& to) {
    std::filesystem::create_directories(std::filesystem::path(scratch_ / to).parent_path());
    shell("objcopy --only-keep-debug " + installed() + " " + (scratch_ / to));
  }
  void link(const std::string& to) {
    shell("objcopy --add-gnu-debuglink=" + (scratch_ / to) + " " + installed());
  }
  void remove(const std::string& name) { std::filesystem::remove(scratch_ / name); }
  std::string installed() const { return scratch_ / "opt/app/basic"; }
  std::string id_path() const {
    const std::string id = open_program(installed()).build_id();
    return "usr/lib/debug/.build-id/" + id.substr(0, 2) + "/" + id.substr(2) + ".debug";
  }
  // Returns where the debug file was found, below the root; empty if it was not found.
  std::string found() const {
    const ElfFile object = open_program(installed());
    EXPECT_FALSE(object.has_symtab());
    const auto file = find_debug_file(object, scratch_.path(), "/opt/app/basic");
    if (!file) return "";
    EXPECT_TRUE(file->has_symtab());
    EXPECT_TRUE(file->path().starts_with(scratch_.path())) << file->path();
    return file->path().substr(scratch_.path().size() + 1);
  }
  static void shell(const std::string& line) { ASSERT_EQ(run_shell(line).status, 0) << line; }

  Scratch scratch_;
};

TEST_F(DebugFile, IsFoundByBuildId) {
  install("basic_pie");
  separate(id_path());
  strip();
  EXPECT_EQ(found(), id_path());
}

TEST_F(DebugFile, OfAnotherBuildIsNotTaken) {
  install("basic_nopie");
  separate("other.debug");
  remove("opt/app/basic");
  install("basic_pie");
  strip();
  std::filesystem::create_directories(std::filesystem::path(scratch_ / id_path()).parent_path());
  std::filesystem::rename(scratch_ / "other.debug", scratch_ / id_path());
  EXPECT_EQ(found(), "");
}

TEST_F(DebugFile, WithoutSymbolsIsNotTaken) {
  install("basic_pie");
  strip();
  separate(id_path());
  EXPECT_EQ(found(), "");
}

TEST_F(DebugFile, IsFoundByItsLinkBesideTheProgramInDotDebugOrUnderUsrLibDebug) {
  for (const std::string path :
       {"opt/app/basic.debug", "opt/app/.debug/basic.debug", "usr/lib/debug/opt/app/basic.debug"}) {
    install("basic_no_id");
    separate(path);
    link(path);
    strip();
    EXPECT_EQ(found(), path);
    remove(path);
    EXPECT_EQ(found(), "");
    remove("opt/app/basic");
  }
}

TEST_F(DebugFile, FoundByItsLinkNeedsTheRightChecksumWithoutABuildId) {
  install("basic_no_id");
  separate("opt/app/basic.debug");
  link("opt/app/basic.debug");
  strip();
  ASSERT_EQ(found(), "opt/app/basic.debug");
  auto bytes = read_bytes(scratch_ / "opt/app/basic.debug");
  bytes.push_back(0);
  write_bytes(scratch_ / "opt/app/basic.debug", bytes);
  EXPECT_EQ(found(), "");
}

TEST_F(DebugFile, FoundByItsLinkNeedsTheRightBuildIdIfThereIsOne) {
  install("basic_nopie");
  separate("other.debug");
  remove("opt/app/basic");
  install("basic_pie");
  std::filesystem::rename(scratch_ / "other.debug", scratch_ / "opt/app/basic.debug");
  link("opt/app/basic.debug");
  strip();
  EXPECT_EQ(found(), "");
  remove("opt/app/basic");
  install("basic_pie");
  separate("opt/app/basic.debug");
  link("opt/app/basic.debug");
  strip();
  EXPECT_EQ(found(), "opt/app/basic.debug");
}

// The author of the program chose the link; it is a file name, not a path.
TEST_F(DebugFile, IsNotLookedForIfALinkPointsOutOfItsDirectory) {
  install("basic_no_id");
  separate("opt/else/basic.debug");
  link("opt/else/basic.debug");
  strip();
  std::filesystem::create_directories(scratch_ / "opt/app");
  auto bytes = read_bytes(installed());
  // The name in the section: "basic.debug" becomes "../e/basic.", of the same length.
  const std::string name = "basic.debug", path = "../e/basic.";
  const auto at = std::search(bytes.begin(), bytes.end(), name.begin(), name.end());
  ASSERT_NE(at, bytes.end());
  std::copy(path.begin(), path.end(), at);
  write_bytes(installed(), bytes);
  std::filesystem::create_directories(scratch_ / "opt/e");
  std::filesystem::rename(scratch_ / "opt/else/basic.debug", scratch_ / "opt/e/basic.");
  ASSERT_EQ(open_program(installed()).debug_link()->file, path);
  EXPECT_EQ(found(), "");
}

TEST_F(DebugFile, OfAProgramWithNeitherIsNotFound) {
  install("basic_no_id");
  strip();
  EXPECT_EQ(found(), "");
}

// A container's files come first; but its libraries may be those of this machine.
TEST_F(DebugFile, IsLookedForInOurOwnFileSystemIfTheRootHasNone) {
  install("basic_pie");
  separate("opt/app/basic.debug");
  link("opt/app/basic.debug");
  strip();
  const ElfFile object = open_program(installed());
  const auto file = find_debug_file(object, scratch_ / "no/such/root", installed());
  ASSERT_TRUE(file);
  EXPECT_EQ(file->path(), scratch_ / "opt/app/basic.debug");
  const auto without_root = find_debug_file(object, "", installed());
  ASSERT_TRUE(without_root);
  EXPECT_EQ(without_root->path(), scratch_ / "opt/app/basic.debug");
}

// Returns the function of that name in the program's own image; 0 if there is none.
Address function_named(const std::string& path, const std::string& name) {
  auto image = load_file(path);
  EXPECT_TRUE(image);
  auto pattern = Pattern::parse(name, PatternSyntax::glob);
  const auto found = match_patterns(*image, {*std::move(pattern)}, {});
  return found.matches.empty() ? 0 : found.matches[0].site;
}

TEST(EmbeddedDebugFile, NamesTheFunctionsWhoseSymbolsWereStripped) {
  const std::string path = image::program("basic_embedded");
  EXPECT_FALSE(open_program(path).has_symtab());
  EXPECT_EQ(function_named(path, "local_one"), address_of(program("basic_pie"), "local_one"));
  EXPECT_EQ(function_named(path, "weak_one"), 0u) << "it was not kept";
}

// A program whose debug file is `content`.
class EmbeddedDebugFileOf : public DebugFile {
 protected:
  void embed(const std::string& content) {
    install("basic_pie");
    shell("objcopy -S --add-section .gnu_debugdata=" + content + " " + installed());
    EXPECT_FALSE(open_program(installed()).compressed_debug_file().empty());
  }
  bool is_taken() const { return embedded_debug_file(open_program(installed())).has_value(); }
};

TEST_F(EmbeddedDebugFileOf, AnotherBuildIsNotUsed) {
  shell("objcopy --only-keep-debug " + program("basic_nopie") + " " + (scratch_ / "other"));
  shell("xz " + (scratch_ / "other"));
  embed(scratch_ / "other.xz");
  EXPECT_FALSE(is_taken());
}

TEST_F(EmbeddedDebugFileOf, GarbageOrAPartIsNotUsed) {
  shell("head -c 5000 /dev/urandom >" + (scratch_ / "garbage"));
  embed(scratch_ / "garbage");
  EXPECT_FALSE(is_taken());
  remove("opt/app/basic");
  shell("objcopy --only-keep-debug " + program("basic_pie") + " " + (scratch_ / "own"));
  shell("xz " + (scratch_ / "own"));
  embed(scratch_ / "own.xz");
  EXPECT_TRUE(is_taken());
  remove("opt/app/basic");
  shell("head -c 700 " + (scratch_ / "own.xz") + " >" + (scratch_ / "part.xz"));
  embed(scratch_ / "part.xz");
  EXPECT_FALSE(is_taken());
}

// A few kilobytes may decompress to gigabytes.
TEST_F(EmbeddedDebugFileOf, HugeSizeIsNotUsed) {
  shell("(cat " + program("basic_pie") + "; head -c 100000000 /dev/zero) | xz -0 >" +
        (scratch_ / "huge.xz"));
  embed(scratch_ / "huge.xz");
  EXPECT_FALSE(is_taken());
}

}  // namespace
}  // namespace pinprick::image
