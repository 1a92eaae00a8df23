#include "image/notes/sdt_notes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <random>
#include <set>
#include <tuple>

#include "bytes.h"
#include "image/object.h"
#include "image/programs.h"

namespace pinprick::image {
namespace {

// What a test compares: address, semaphore, PROVIDER:NAME, arguments.
using Row = std::tuple<Address, Address, std::string, std::string>;

std::vector<Row> rows_of(const std::vector<SdtSite>& sites) {
  std::vector<Row> rows;
  for (const SdtSite& site : sites)
    rows.emplace_back(site.address, site.semaphore, site.label, site.arguments);
  std::sort(rows.begin(), rows.end());
  return rows;
}

std::vector<Row> rows_of(const std::string& path) {
  return rows_of(sdt_sites(open_program(path), nullptr));
}

std::vector<Row> rows_of_readelf(const std::string& path) {
  std::vector<Row> rows;
  std::string provider, name;
  Address address = 0, semaphore = 0;
  const auto after = [](const std::string& line, const std::string& key) {
    const size_t at = line.find(key);
    return at == line.npos ? std::string() : line.substr(at + key.size());
  };
  for (const std::string& line : lines_of(run_shell("readelf -nW '" + path + "'").output)) {
    if (const auto text = after(line, "    Provider: "); !text.empty()) provider = text;
    if (const auto text = after(line, "    Name: "); !text.empty()) name = text;
    if (const auto text = after(line, "Location: 0x"); !text.empty()) address = hex(text);
    if (const auto text = after(line, "Semaphore: 0x"); !text.empty()) semaphore = hex(text);
    if (line.find("    Arguments: ") != line.npos)
      rows.emplace_back(address, semaphore, provider + ":" + name, after(line, "Arguments: "));
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

// One note as it is in a section.
struct NoteText {
  uint64_t address = 0x1000;
  uint64_t base = 0;
  uint64_t semaphore = 0;
  std::string strings = std::string("shop\0order\0008@%rax\0", 18);
  std::string owner = std::string("stapsdt\0", 8);
  uint32_t type = 3;
};

void append(std::vector<uint8_t>& bytes, const void* data, size_t size) {
  const auto* const begin = static_cast<const uint8_t*>(data);
  bytes.insert(bytes.end(), begin, begin + size);
}

std::vector<uint8_t> section_of(std::span<const NoteText> notes) {
  std::vector<uint8_t> bytes;
  for (const NoteText& note : notes) {
    const uint32_t head[] = {static_cast<uint32_t>(note.owner.size()),
                             static_cast<uint32_t>(24 + note.strings.size()), note.type};
    append(bytes, head, sizeof head);
    append(bytes, note.owner.data(), note.owner.size());
    bytes.resize(align_up(bytes.size(), 4));
    for (const uint64_t word : {note.address, note.base, note.semaphore})
      append(bytes, &word, sizeof word);
    append(bytes, note.strings.data(), note.strings.size());
    bytes.resize(align_up(bytes.size(), 4));
  }
  return bytes;
}

std::vector<uint8_t> section_of(const NoteText& note) {
  return section_of({&note, 1});
}

TEST(SdtNote, HasAddressesNamesAndArguments) {
  NoteText first;
  first.address = 0x1234;
  first.base = 0x2000;
  first.semaphore = 0x4028;
  NoteText second;
  second.strings = std::string("app\0x\0\0", 7);
  const auto bytes = section_of(std::vector{first, second});
  const auto notes = parse_sdt_notes(bytes);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes[0], (SdtNote{0x1234, 0x2000, 0x4028, "shop", "order", "8@%rax"}));
  EXPECT_EQ(notes[1], (SdtNote{0x1000, 0, 0, "app", "x", ""}));
}

TEST(SdtNote, OfAnotherOwnerOrTypeIsLeftOutAndThoseAfterItAreRead) {
  NoteText other_owner, other_type, last;
  other_owner.owner = std::string("GNU\0", 4);
  other_type.type = 2;
  last.address = 7;
  const auto bytes = section_of(std::vector{other_owner, other_type, last});
  const auto notes = parse_sdt_notes(bytes);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].address, 7u);
}

TEST(SdtNote, WhoseStringsAreNotTerminatedIsLeftOut) {
  NoteText note;
  note.strings = std::string("shop\0order\0008@%rax", 17);
  const auto bytes = section_of(note);
  EXPECT_TRUE(parse_sdt_notes(bytes).empty());
}

TEST(SdtNote, WithANameThatCannotBeShownOrWrittenInAPatternIsLeftOut) {
  for (const std::string_view name : {"", "a:b", "a b", "\x1b[2J", "\xc3\xa9"}) {
    NoteText note;
    note.strings = std::string("shop\0", 5) + std::string(name) + std::string("\0\0", 2);
    const auto bytes = section_of(note);
    EXPECT_TRUE(parse_sdt_notes(bytes).empty()) << name;
  }
  NoteText note;
  note.strings = "shop" + std::string(1, '\0') + std::string(257, 'x') + std::string("\0\0", 2);
  const auto bytes = section_of(note);
  EXPECT_TRUE(parse_sdt_notes(bytes).empty());
}

TEST(SdtNote, ThatEndsAfterTheSectionEndsTheList) {
  const auto bytes = section_of(std::vector{NoteText(), NoteText()});
  const size_t half = bytes.size() / 2;
  for (size_t size = half; size < bytes.size() - 4; ++size)
    EXPECT_EQ(parse_sdt_notes(std::span(bytes).first(size)).size(), 1u) << size;
  auto huge = bytes;
  std::fill_n(huge.begin() + static_cast<ptrdiff_t>(half), 8, uint8_t{0xff});  // both sizes
  EXPECT_EQ(parse_sdt_notes(huge).size(), 1u);
}

class SdtPrograms : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Objects, SdtPrograms,
                         testing::Values(program("points_pie"), program("points_nopie"),
                                         "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
                                         "/usr/bin/python3.11"),
                         [](const auto& path) {
                           std::string text = std::filesystem::path(path.param).filename();
                           std::erase_if(text, [](char c) { return !std::isalnum(c) && c != '_'; });
                           return text;
                         });

TEST_P(SdtPrograms, HaveTheSitesThatReadelfLists) {
  if (!std::filesystem::exists(GetParam())) GTEST_SKIP() << GetParam() << " is not installed";
  const auto expected = rows_of_readelf(GetParam());
  if (expected.empty()) GTEST_SKIP() << GetParam() << " was built without SDT notes";
  EXPECT_EQ(rows_of(GetParam()), expected);
}

TEST(SdtSites, OfOnePointAreAllThere) {
  for (const char* name : {"points_pie", "points_nopie"}) {
    const auto sites = sdt_sites(open_program(program(name)), nullptr);
    EXPECT_EQ(std::count_if(sites.begin(), sites.end(),
                            [](const SdtSite& site) { return site.label == "shop:order"; }),
              2)
        << name;
    const auto other = std::find_if(sites.begin(), sites.end(),
                                    [](const SdtSite& site) { return site.label == "till:order"; });
    ASSERT_NE(other, sites.end());
    EXPECT_EQ(other->provider(), "till");
    EXPECT_EQ(other->name(), "order");
  }
}

// Writes a copy of a program in which `change` has changed each note's address, base and semaphore.
template <class F>
std::string with_notes_changed(const Scratch& scratch, const std::string& path, F&& change) {
  auto bytes = read_bytes(path);
  const ElfFile file = open_program(path);
  const auto section = file.sdt_notes();
  const auto at = std::search(bytes.begin(), bytes.end(), section.begin(), section.end());
  EXPECT_NE(at, bytes.end());
  for (const SdtNote& note : parse_sdt_notes(section)) {
    const auto offset = reinterpret_cast<const uint8_t*>(note.provider.data()) - section.data();
    uint64_t words[] = {note.address, note.base, note.semaphore};
    change(words[0], words[1], words[2]);
    std::memcpy(&*at + offset - sizeof words, words, sizeof words);
  }
  std::string out = scratch / "changed";
  write_bytes(out, bytes);
  return out;
}

TEST(SdtSites, OfAnObjectThatWasMovedAfterItWasLinkedAreMovedWithIt) {
  const Scratch scratch;
  const auto moved = with_notes_changed(scratch, program("points_pie"),
                                        [](uint64_t& address, uint64_t& base, uint64_t& semaphore) {
                                          address -= 0x7000;
                                          base -= 0x7000;
                                          if (semaphore != 0) semaphore -= 0x7000;
                                        });
  EXPECT_EQ(rows_of(moved), rows_of(program("points_pie")));
}

TEST(SdtSites, WithoutABaseSectionAreWhereTheNotesSay) {
  const Scratch scratch;
  const std::string path = scratch / "no_base";
  ASSERT_EQ(run_shell("objcopy --rename-section .stapsdt.base=.other " + program("points_pie") +
                      " " + path)
                .status,
            0);
  EXPECT_FALSE(open_program(path).sdt_base());
  EXPECT_EQ(rows_of(path), rows_of(program("points_pie")));
}

TEST(SdtSites, OutsideOfTheCodeAreLeftOut) {
  const Scratch scratch;
  int number = 0;
  const auto changed = with_notes_changed(
      scratch, program("points_pie"), [&](uint64_t& address, uint64_t&, uint64_t&) {
        const uint64_t wrong[] = {0, UINT64_MAX, 0x4000, uint64_t{1} << 63};
        address = wrong[number++ % 4];
      });
  EXPECT_TRUE(rows_of(changed).empty());
}

TEST(SdtSites, WhoseSemaphoreCouldNotBeRaisedAreLeftOut) {
  const Scratch scratch;
  const auto segments = open_program(program("points_pie")).segments();
  const auto data = std::find_if(segments.begin(), segments.end(),
                                 [](const Segment& segment) { return segment.writable; });
  ASSERT_NE(data, segments.end());
  const uint64_t end = data->range.begin + data->file_size;
  for (const uint64_t wrong : {segments[0].range.begin + 8, end - 1, end, UINT64_MAX}) {
    const auto changed =
        with_notes_changed(scratch, program("points_pie"),
                           [&](uint64_t&, uint64_t&, uint64_t& semaphore) { semaphore = wrong; });
    EXPECT_TRUE(rows_of(changed).empty()) << wrong;
  }
}

TEST(SdtSites, OfAStrippedObjectAreReadFromItsDebugFile) {
  const Scratch scratch;
  const std::string path = scratch / "app";
  for (const std::string& line :
       {"objcopy --only-keep-debug " + program("points_pie") + " " + path + ".debug",
        "objcopy --strip-all -R .note.stapsdt --add-gnu-debuglink=" + path + ".debug " +
            program("points_pie") + " " + path})
    ASSERT_EQ(run_shell(line).status, 0) << line;
  ASSERT_TRUE(open_program(path).sdt_notes().empty());
  Object object(open_program(path), 0, {"app"}, path, "", {});
  EXPECT_EQ(rows_of(object.sdt_sites()), rows_of(program("points_pie")));
}

TEST(SdtSites, AreInTheFunctionThatHasThem) {
  Object object(open_program(program("points_pie")), 0, {"points"}, program("points_pie"), "", {});
  for (const SdtSite& site : object.sdt_sites())
    EXPECT_TRUE(object.function_of(site).range.contains(site.address)) << site.label;
}

TEST(SdtSites, OfTenThousandDamagedFilesAreInTheirObjects) {
  const auto original = read_bytes(program("points_pie"));
  const ElfFile whole = open_program(program("points_pie"));
  const auto section = whole.sdt_notes();
  const auto at = static_cast<size_t>(
      std::search(original.begin(), original.end(), section.begin(), section.end()) -
      original.begin());
  ASSERT_LT(at, original.size());
  std::mt19937_64 random(2011);
  size_t sites = 0;
  for (int i = 0; i < 10'000; ++i) {
    auto bytes = original;
    for (uint64_t n = 1 + random() % 8; n != 0; --n) {
      // Also in the section headers, which are last.
      const size_t position =
          random() % 4 == 0 ? bytes.size() - 1 - random() % 2048 : at + random() % section.size();
      bytes[position] = static_cast<uint8_t>(random());
    }
    const auto file = ElfFile::from_bytes(std::move(bytes), "damaged");
    if (!file) continue;
    for (const SdtSite& site : sdt_sites(*file, nullptr)) {
      ++sites;
      EXPECT_TRUE(file->in_executable_segment(site.address));
      EXPECT_EQ(site.label, std::string(site.provider()) + ":" + std::string(site.name()));
      if (site.semaphore == 0) continue;
      EXPECT_TRUE(std::any_of(file->segments().begin(), file->segments().end(), [&](const auto& s) {
        return s.writable && s.range.contains(Range{site.semaphore, site.semaphore + 2});
      }));
    }
  }
  EXPECT_GT(sites, 10'000u) << "hardly any file had a site left";
}

}  // namespace
}  // namespace pinprick::image
