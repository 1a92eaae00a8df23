#include "image/elf/elf_file.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

#include "base/process_folder.h"
#include "image/programs.h"

namespace pinprick::image {
namespace {

ElfError why_not(const std::string& path) {
  const auto file = ElfFile::open(path);
  EXPECT_FALSE(file) << path;
  return file ? ElfError() : file.error();
}

ElfCause why_not_bytes(std::vector<uint8_t> bytes) {
  const auto file = ElfFile::from_bytes(std::move(bytes), "bytes");
  EXPECT_FALSE(file);
  return file ? ElfCause{} : file.error().cause;
}

// (address, name), sorted.
using Names = std::set<std::pair<Address, std::string>>;

Names functions_of(const std::vector<Symbol>& symbols) {
  Names names;
  for (const Symbol& symbol : symbols)
    if (symbol.is_function()) names.emplace(symbol.address, symbol.name);
  return names;
}

class Programs : public testing::TestWithParam<const char*> {
 protected:
  std::string path_ = program(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Kinds, Programs,
                         testing::Values("basic_pie", "basic_nopie", "basic_static",
                                         "libbasic.so.1", "libbasic_sysv.so.1", "throws_pie",
                                         "throws_one_segment", "nested"),
                         [](const auto& name) {
                           std::string text = name.param;
                           std::replace(text.begin(), text.end(), '.', '_');
                           return text;
                         });

TEST_P(Programs, SegmentsAreThoseThatReadelfLists) {
  const ElfFile file = open_program(path_);
  std::vector<Segment> expected;
  for (const std::string& line : lines_of(run_shell("readelf -lW '" + path_ + "'").output)) {
    const auto words = words_of(line);
    if (words.empty() || words[0] != "LOAD") continue;
    Segment segment;
    segment.offset = hex(words[1]);
    segment.range = {hex(words[2]), hex(words[2]) + hex(words[5])};
    segment.file_size = hex(words[4]);
    std::string flags;
    for (size_t i = 6; i + 1 < words.size(); ++i) flags += words[i];
    segment.readable = flags.find('R') != flags.npos;
    segment.writable = flags.find('W') != flags.npos;
    segment.executable = flags.find('E') != flags.npos;
    expected.push_back(segment);
  }
  ASSERT_EQ(file.segments().size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const Segment& segment = file.segments()[i];
    EXPECT_EQ(segment.range, expected[i].range);
    EXPECT_EQ(segment.offset, expected[i].offset);
    EXPECT_EQ(segment.file_size, expected[i].file_size);
    EXPECT_EQ(segment.readable, expected[i].readable);
    EXPECT_EQ(segment.writable, expected[i].writable);
    EXPECT_EQ(segment.executable, expected[i].executable);
    EXPECT_TRUE(file.extent().contains(segment.range));
    EXPECT_EQ(file.in_executable_segment(segment.range.begin), segment.executable);
  }
  EXPECT_EQ(file.extent().begin % kPageSize, 0u);
  EXPECT_EQ(file.extent().end % kPageSize, 0u);
}

TEST_P(Programs, FunctionSymbolsAreThoseThatReadelfLists) {
  const ElfFile file = open_program(path_);
  // Address, size, name, whether it is a resolver, whether it is global.
  using Entry = std::tuple<Address, uint64_t, std::string, bool, bool>;
  std::set<Entry> expected;
  bool in_symtab = false;
  for (const std::string& line : lines_of(run_shell("readelf -sW '" + path_ + "'").output)) {
    if (line.starts_with("Symbol table")) in_symtab = line.find(".symtab") != line.npos;
    const auto words = words_of(line);
    if (!in_symtab || words.size() < 8 || words[6] == "UND") continue;
    if (words[3] != "FUNC" && words[3] != "IFUNC") continue;
    const std::string name = words[7].substr(0, words[7].find('@'));
    expected.emplace(hex(words[1]), std::stoull(words[2], nullptr, 0), name, words[3] == "IFUNC",
                     words[4] != "LOCAL");
  }
  std::set<Entry> found;
  for (const Symbol& symbol : file.symtab())
    if (symbol.is_function())
      found.emplace(symbol.address, symbol.size, symbol.name.substr(0, symbol.name.find('@')),
                    symbol.kind == Symbol::Kind::ifunc, symbol.global);
  EXPECT_EQ(found, expected);
  EXPECT_FALSE(found.empty());
  EXPECT_TRUE(file.has_symtab());
}

TEST_P(Programs, DynamicSymbolsAreThoseThatNmLists) {
  const ElfFile file = open_program(path_);
  Names expected;
  if (sections(path_).contains(".dynsym"))
    for (const NmSymbol& symbol : nm(path_, "-D"))
      if (symbol.type != 'A') expected.emplace(symbol.address, symbol.name);
  Names found;
  for (const Symbol& symbol : file.dynamic_symbols()) found.emplace(symbol.address, symbol.name);
  EXPECT_EQ(found, expected);
}

ElfFile open_anew(const std::string& path) {
  auto file =
      ElfFile::open(path, ElfFile::Use::code, ElfFile::Proof::none, ElfFile::Descriptor::none);
  EXPECT_TRUE(file) << path << ": cause " << static_cast<int>(file.error().cause);
  return *std::move(file);
}

Names names_of(const std::vector<Symbol>& symbols) {
  Names names;
  for (const Symbol& symbol : symbols) names.emplace(symbol.address, symbol.name);
  return names;
}

TEST_P(Programs, AreReadInTheSameWayIfTheyAreNotKeptOpen) {
  const ElfFile kept = open_program(path_);
  const auto before = descriptor_numbers(::getpid());
  const ElfFile anew = open_anew(path_);
  EXPECT_EQ(names_of(anew.symtab()), names_of(kept.symtab()));
  EXPECT_EQ(names_of(anew.dynamic_symbols()), names_of(kept.dynamic_symbols()));
  EXPECT_EQ(anew.build_id(), kept.build_id());
  EXPECT_EQ(anew.startup_addresses(), kept.startup_addresses());
  EXPECT_EQ(anew.procedure_linkage_tables(), kept.procedure_linkage_tables());
  EXPECT_EQ(anew.is_go(), kept.is_go());
  const std::array<std::string_view, 1> wanted = {"main"};
  EXPECT_EQ(anew.may_name_any(wanted), kept.may_name_any(wanted));
  const auto frames = anew.eh_frame(), kept_frames = kept.eh_frame();
  ASSERT_EQ(frames.has_value(), kept_frames.has_value());
  if (frames) {
    EXPECT_EQ(frames->data, kept_frames->data);
  }
  const auto relocations = anew.relocations(), kept_relocations = kept.relocations();
  ASSERT_EQ(relocations.size(), kept_relocations.size());
  for (size_t i = 0; i < relocations.size(); ++i) {
    EXPECT_EQ(relocations[i].address, kept_relocations[i].address);
    EXPECT_EQ(relocations[i].addend, kept_relocations[i].addend);
    EXPECT_EQ(relocations[i].symbol, kept_relocations[i].symbol);
  }
  for (const Segment& segment : kept.segments())
    EXPECT_EQ(anew.read(segment.range), kept.read(segment.range));
  EXPECT_EQ(descriptor_numbers(::getpid()), before);
}

// Their symbols lie far from their headers, so they were not read together with these.
TEST(ElfFile, ThatIsNotKeptOpenIsNotMistakenForOneThatReplacedIt) {
  const Scratch scratch;
  const std::string path = scratch / "file";
  std::filesystem::copy_file(program("basic_static"), path);
  const ElfFile whole = open_anew(path);
  const ElfFile part = open_anew(path);
  const size_t symbols = whole.symtab().size();
  EXPECT_GT(symbols, 0u);
  std::filesystem::copy_file(program("basic_nopie"), scratch / "new");
  std::filesystem::rename(scratch / "new", path);
  EXPECT_EQ(whole.symtab().size(), symbols) << "they were read before";
  EXPECT_TRUE(part.symtab().empty());
  EXPECT_TRUE(part.read(part.segments().front().range).empty());
}

// One that is mapped would kill the process.
TEST(ElfFile, ThatIsNotKeptOpenMayBecomeShorter) {
  const Scratch scratch;
  const std::string path = scratch / "file";
  std::filesystem::copy_file(program("basic_static"), path);
  const ElfFile file = open_anew(path);
  std::filesystem::resize_file(path, 64);
  EXPECT_TRUE(file.symtab().empty());
  EXPECT_TRUE(file.read(file.segments().back().range).empty());
  EXPECT_FALSE(file.eh_frame() && !file.eh_frame()->data.empty());
}

TEST(ElfFile, ThatIsBrokenIsRefusedIfItIsNotKeptOpen) {
  const Scratch scratch;
  const auto cause_of = [&](std::vector<uint8_t> bytes) {
    write_bytes(scratch / "broken", bytes);
    const auto file = ElfFile::open(scratch / "broken", ElfFile::Use::code, ElfFile::Proof::none,
                                    ElfFile::Descriptor::none);
    return file ? std::nullopt : std::optional(file.error().cause);
  };
  const auto whole = read_bytes(program("basic_pie"));
  EXPECT_EQ(cause_of({}), ElfCause::not_elf);
  EXPECT_EQ(cause_of({whole.begin(), whole.begin() + 40}), ElfCause::truncated);
  EXPECT_EQ(cause_of({whole.begin(), whole.begin() + 64}), ElfCause::truncated);
  EXPECT_EQ(cause_of({whole.begin(), whole.begin() + 5000}), ElfCause::truncated);
  EXPECT_EQ(cause_of(without_section_headers(whole)), std::nullopt);
}

TEST(ElfFile, PackedRelocationsEqualThoseBeforePacking) {
  // By the symbols at their sites and targets: addresses differ between programs.
  const auto relative = [](const std::string& path) {
    std::map<Address, std::string> names;
    for (const NmSymbol& symbol : nm(path)) names[symbol.address] = symbol.name;
    std::set<std::pair<std::string, std::string>> found;
    const auto file = ElfFile::open(path);
    EXPECT_TRUE(file);
    for (const Relocation& relocation : file->relocations())
      if (relocation.kind == Relocation::Kind::relative)
        found.emplace(names[relocation.address], names[static_cast<Address>(relocation.addend)]);
    return found;
  };
  const auto packed = relative(program("jumps_packed"));
  EXPECT_EQ(packed, relative(program("jumps_pie")));
  EXPECT_GE(packed.size(), 3u);
  EXPECT_NE(run_shell("readelf -SW " + program("jumps_packed")).output.find("RELR"),
            std::string::npos);
}

TEST_P(Programs, RelocationsAreThoseThatReadelfLists) {
  const ElfFile file = open_program(path_);
  using Kind = Relocation::Kind;
  const std::map<std::string, Kind> kinds = {{"R_X86_64_RELATIVE", Kind::relative},
                                             {"R_X86_64_IRELATIVE", Kind::irelative},
                                             {"R_X86_64_JUMP_SLOT", Kind::symbol},
                                             {"R_X86_64_GLOB_DAT", Kind::symbol},
                                             {"R_X86_64_64", Kind::symbol}};
  using Entry = std::tuple<Address, Kind, std::string>;
  std::multiset<Entry> expected;
  for (const std::string& line : lines_of(run_shell("readelf -rW '" + path_ + "' 2>&1").output)) {
    const auto words = words_of(line);
    if (words.size() < 4 || words[2].find("R_X86_64_") != 0) continue;
    const auto kind = kinds.find(words[2]);
    const bool named = words.size() > 4;
    expected.emplace(hex(words[0]), kind == kinds.end() ? Kind::other : kind->second,
                     named ? words[4].substr(0, words[4].find('@')) : "");
  }
  std::multiset<Entry> found;
  for (const Relocation& relocation : file.relocations())
    found.emplace(relocation.address, relocation.kind, relocation.symbol);
  EXPECT_EQ(found, expected);
}

TEST_P(Programs, LinkageTablesAreTheSectionsOfThatName) {
  const ElfFile file = open_program(path_);
  std::set<Range> expected;
  for (const auto& [name, section] : sections(path_))
    if (name.starts_with(".plt") || name == ".iplt") expected.insert(section.range);
  const auto found = file.procedure_linkage_tables();
  EXPECT_EQ(std::set<Range>(found.begin(), found.end()), expected);
}

TEST_P(Programs, TheUnwindTableIsTheSectionOfThatName) {
  const ElfFile file = open_program(path_);
  const auto all = sections(path_);
  ASSERT_TRUE(all.contains(".eh_frame"));
  const Section& section = all.at(".eh_frame");
  const auto table = file.eh_frame();
  ASSERT_TRUE(table);
  EXPECT_EQ(table->address, section.range.begin);
  const auto bytes = read_bytes(path_);
  const auto begin = bytes.begin() + static_cast<ptrdiff_t>(section.offset);
  EXPECT_TRUE(std::equal(table->data.begin(), table->data.end(), begin,
                         begin + static_cast<ptrdiff_t>(section.range.size())));
}

TEST_P(Programs, ReadingGivesTheBytesOfTheFileAndNoneOfWhatIsOnlyInMemory) {
  const ElfFile file = open_program(path_);
  const auto bytes = read_bytes(path_);
  for (const Segment& segment : file.segments()) {
    const auto whole = file.read(segment.range);
    ASSERT_EQ(whole.size(), segment.file_size);
    EXPECT_EQ(std::memcmp(whole.data(), bytes.data() + segment.offset, whole.size()), 0);
    const auto part = file.read({segment.range.begin + 3, segment.range.begin + 8});
    ASSERT_EQ(part.size(), 5u);
    EXPECT_EQ(std::memcmp(part.data(), bytes.data() + segment.offset + 3, 5), 0);
    const Address end = segment.range.begin + segment.file_size;
    EXPECT_EQ(file.read({end - 1, end + 100}).size(), 1u);
    if (segment.file_size < segment.range.size()) {
      EXPECT_TRUE(file.read({end, end + 1}).empty());
      EXPECT_TRUE(file.read({end + 1, end + 2}).empty());
    }
  }
  EXPECT_TRUE(file.read({file.extent().end, file.extent().end + 8}).empty());
  EXPECT_TRUE(file.read({UINT64_MAX - 8, UINT64_MAX}).empty());
}

TEST_P(Programs, EntryAndBuildIdAreThoseThatReadelfShows) {
  const ElfFile file = open_program(path_);
  const std::string header = run_shell("readelf -hW '" + path_ + "'").output;
  const size_t entry = header.find("Entry point address:");
  ASSERT_NE(entry, header.npos);
  EXPECT_EQ(file.entry(), hex(words_of(header.substr(entry))[3]));
  const std::string notes = run_shell("readelf -nW '" + path_ + "'").output;
  const size_t id = notes.find("Build ID: ");
  EXPECT_EQ(file.build_id(), id == notes.npos ? "" : words_of(notes.substr(id))[2]);
}

// Everything in the file, from its bytes instead of its name.
TEST_P(Programs, ReadTheSameFromBytesAsFromAFile) {
  const ElfFile file = open_program(path_);
  auto from_bytes = ElfFile::from_bytes(read_bytes(path_), "bytes");
  ASSERT_TRUE(from_bytes);
  EXPECT_EQ(from_bytes->build_id(), file.build_id());
  EXPECT_EQ(from_bytes->extent(), file.extent());
  EXPECT_EQ(functions_of(from_bytes->symtab()), functions_of(file.symtab()));
  EXPECT_EQ(from_bytes->relocations().size(), file.relocations().size());
  EXPECT_EQ(from_bytes->eh_frame()->data, file.eh_frame()->data);
}

TEST_P(Programs, ACopyEqualsTheFileAndDoesNotChangeWithIt) {
  const Scratch scratch;
  const std::string path = scratch / "program";
  std::filesystem::copy_file(path_, path);
  const ElfFile file = open_program(path_);
  const auto copy = ElfFile::copy_of(open_program(path));
  write_bytes(path, std::vector<uint8_t>(std::filesystem::file_size(path_), 0xcc));
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->build_id(), file.build_id());
  EXPECT_EQ(functions_of(copy->symtab()), functions_of(file.symtab()));
  EXPECT_EQ(copy->relocations().size(), file.relocations().size());
  EXPECT_EQ(copy->eh_frame()->data, file.eh_frame()->data);
  for (const Segment& segment : file.segments())
    EXPECT_EQ(copy->read(segment.range), file.read(segment.range));
}

TEST_P(Programs, MayHaveANameIfASymbolContainsIt) {
  const ElfFile file = open_program(path_);
  const std::string_view unused_names[] = {"name_that_nothing_has", "nor_this"};
  EXPECT_FALSE(file.may_name_any(unused_names));
  for (const Symbol& symbol : file.symtab()) {
    const std::string_view names[] = {unused_names[0], symbol.name};
    EXPECT_TRUE(file.may_name_any(names)) << symbol.name;
  }
  for (const Symbol& symbol : file.dynamic_symbols())
    EXPECT_TRUE(file.may_name_any(std::span(&symbol.name, 1))) << symbol.name;
  const auto bare = ElfFile::from_bytes(without_section_headers(read_bytes(path_)), "bare");
  EXPECT_FALSE(bare->may_name_any(unused_names)) << "the dynamic section says so";
  for (const Symbol& symbol : file.dynamic_symbols())
    EXPECT_TRUE(bare->may_name_any(std::span(&symbol.name, 1))) << symbol.name;
}

TEST_P(Programs, MayImportWhatTheirRelocationsName) {
  const ElfFile file = open_program(path_);
  for (const Relocation& relocation : file.relocations()) {
    if (relocation.symbol.empty()) continue;
    EXPECT_TRUE(file.may_import_any(std::span(&relocation.symbol, 1))) << relocation.symbol;
  }
}

TEST(ElfFile, CannotImportWhatItsTableOfDynamicSymbolsDoesNotName) {
  const ElfFile file = open_program(program("libbasic.so.1"));
  const std::string_view names[] = {"name_that_nothing_has"}, used[] = {"printf"};
  EXPECT_FALSE(file.may_import_any(names));
  const auto bare = ElfFile::from_bytes(without_section_headers(read_bytes(file.path())), "bare");
  EXPECT_FALSE(bare->may_import_any(names));
  EXPECT_TRUE(bare->may_import_any(used));
}

// Sets a value of the dynamic section.
void set_dynamic(std::vector<uint8_t>& bytes, const std::string& path, int64_t tag,
                 uint64_t value) {
  const Section dynamic = sections(path).at(".dynamic");
  for (uint64_t at = dynamic.offset; at < dynamic.offset + dynamic.range.size();
       at += sizeof(Elf64_Dyn)) {
    auto* const entry = reinterpret_cast<Elf64_Dyn*>(bytes.data() + at);
    if (entry->d_tag == tag) entry->d_un.d_val = value;
  }
}

// So that nothing is left out that a damaged table would have named.
TEST(ElfFile, MayHaveAnyNameIfATableOfThemCannotBeRead) {
  const std::string path = program("libbasic.so.1");
  const auto whole = read_bytes(path);
  const std::string_view names[] = {"name_that_nothing_has"};
  auto bytes = whole;
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::span sections(reinterpret_cast<Elf64_Shdr*>(bytes.data() + header.e_shoff),
                           header.e_shnum);
  for (const Elf64_Shdr& section : sections)
    if (section.sh_type == SHT_SYMTAB) sections[section.sh_link].sh_size = bytes.size();
  const auto without_symtab = ElfFile::from_bytes(bytes, "damaged");
  ASSERT_TRUE(without_symtab);
  EXPECT_TRUE(without_symtab->may_name_any(names));
  EXPECT_FALSE(without_symtab->may_import_any(names));

  bytes = whole;
  set_dynamic(bytes, path, DT_STRSZ, bytes.size());
  const auto without_dynamic = ElfFile::from_bytes(bytes, "damaged");
  ASSERT_TRUE(without_dynamic);
  EXPECT_TRUE(without_dynamic->may_name_any(names));
  EXPECT_TRUE(without_dynamic->may_import_any(names));
}

// This program has some.
TEST(ElfFile, NeverReadsDebugInformation) {
  const ElfFile file = open_program("/proc/self/exe");
  const std::string sections =
      run_shell("readelf -SW /proc/" + std::to_string(::getpid()) + "/exe | sed 's/\\[ */[/'")
          .output;
  size_t checked = 0;
  for (const std::string& line : lines_of(sections)) {
    const auto words = words_of(line);
    if (words.size() < 6 || !words[1].starts_with(".")) continue;
    const uint64_t offset = hex(words[4]), size = hex(words[5]);
    if (words[2] == "NOBITS" || size == 0) continue;
    const auto parts = file.parts();
    const bool is_read = std::any_of(parts.begin(), parts.end(), [&](const ElfFile::Part& part) {
      return part.offset < offset + size && offset < part.offset + part.size;
    });
    EXPECT_EQ(is_read, !words[1].starts_with(".debug_")) << words[1];
    ++checked;
  }
  EXPECT_GT(checked, 20u);
}

// As in memory, which has segments and nothing else.
TEST_P(Programs, WithoutSectionHeadersTheDynamicSectionNamesTheSymbols) {
  const ElfFile file = open_program(path_);
  const auto bare = ElfFile::from_bytes(without_section_headers(read_bytes(path_)), "bare");
  ASSERT_TRUE(bare);
  EXPECT_EQ(functions_of(bare->dynamic_symbols()), functions_of(file.dynamic_symbols()));
  EXPECT_EQ(bare->build_id(), file.build_id());
  EXPECT_TRUE(bare->symtab().empty());
  EXPECT_FALSE(bare->has_symtab());
  EXPECT_TRUE(bare->procedure_linkage_tables().empty());
  if (!sections(path_).contains(".eh_frame_hdr")) return;
  const auto table = bare->eh_frame();
  ASSERT_TRUE(table);
  const auto expected = file.eh_frame();
  EXPECT_EQ(table->address, expected->address);
  ASSERT_GE(table->data.size(), expected->data.size());
  EXPECT_TRUE(std::equal(expected->data.begin(), expected->data.end(), table->data.begin()));
}

TEST(ElfFile, KnowsPositionIndependentFiles) {
  EXPECT_TRUE(open_program(program("basic_pie")).position_independent());
  EXPECT_TRUE(open_program(program("libbasic.so.1")).position_independent());
  EXPECT_FALSE(open_program(program("basic_nopie")).position_independent());
}

TEST(ElfFile, TellsFunctionsResolversAndDataApart) {
  const ElfFile file = open_program(program("basic_static"));
  std::map<std::string_view, Symbol> symbols;
  const auto all = file.symtab();
  for (const Symbol& symbol : all) symbols[symbol.name] = symbol;
  EXPECT_EQ(symbols.at("alpha").kind, Symbol::Kind::function);
  EXPECT_TRUE(symbols.at("alpha").global);
  EXPECT_GT(symbols.at("alpha").size, 0u);
  EXPECT_EQ(symbols.at("local_one").kind, Symbol::Kind::function);
  EXPECT_FALSE(symbols.at("local_one").global);
  EXPECT_TRUE(symbols.at("weak_one").global);
  EXPECT_EQ(symbols.at("zeros").kind, Symbol::Kind::data);
  EXPECT_EQ(symbols.at("zeros").size, 4096 * sizeof(int));
  EXPECT_EQ(symbols.at("strlen").kind, Symbol::Kind::ifunc);
  EXPECT_FALSE(symbols.contains("basic.c")) << "the name of a file is no symbol";
  EXPECT_EQ(symbols.at("alpha_alias").address, symbols.at("alpha").address);
}

TEST(ElfFile, ImportedSymbolsAreNotDefinedHere) {
  const ElfFile file = open_program(program("basic_pie"));
  for (const auto& symbols : {file.symtab(), file.dynamic_symbols()})
    for (const Symbol& symbol : symbols) EXPECT_NE(symbol.name.substr(0, 6), "printf");
}

// The bias: the loader has added it to addresses in the dynamic section, and nowhere else.
TEST(ElfFile, UndoesWhatTheLoaderDidToTheDynamicSection) {
  for (const char* name : {"libbasic.so.1", "libbasic_sysv.so.1"}) {
    constexpr uint64_t kBias = 0x7f12'3456'7000;
    const ElfFile file = open_program(program(name));
    auto bytes = without_section_headers(read_bytes(program(name)));
    const Section dynamic = sections(program(name)).at(".dynamic");
    for (uint64_t at = dynamic.offset; at < dynamic.offset + dynamic.range.size(); at += 16) {
      Elf64_Dyn entry;
      std::memcpy(&entry, bytes.data() + at, sizeof entry);
      for (Elf64_Sxword tag : {DT_SYMTAB, DT_STRTAB, DT_HASH, DT_GNU_HASH})
        if (entry.d_tag == tag) entry.d_un.d_ptr += kBias;
      std::memcpy(bytes.data() + at, &entry, sizeof entry);
    }
    const auto loaded = ElfFile::from_bytes(bytes, "loaded", kBias);
    ASSERT_TRUE(loaded);
    EXPECT_EQ(functions_of(loaded->dynamic_symbols()), functions_of(file.dynamic_symbols()));
    EXPECT_FALSE(loaded->dynamic_symbols().empty());
    // Some loaders (musl's) do not change the section.
    const auto untouched =
        ElfFile::from_bytes(without_section_headers(read_bytes(program(name))), "", kBias);
    ASSERT_TRUE(untouched);
    EXPECT_EQ(functions_of(untouched->dynamic_symbols()), functions_of(file.dynamic_symbols()));
  }
}

TEST(ElfFile, NamesOutliveAMove) {
  auto bare =
      ElfFile::from_bytes(without_section_headers(read_bytes(program("libbasic.so.1"))), "bare");
  ASSERT_TRUE(bare);
  const auto symbols = bare->dynamic_symbols();
  const Names before = functions_of(symbols);
  const ElfFile moved = *std::move(bare);
  EXPECT_EQ(functions_of(symbols), before);
  EXPECT_EQ(moved.path(), "bare");
}

TEST(ElfFile, AMissingOrSpecialFileIsUnreadable) {
  Scratch scratch;
  const ElfError missing = why_not(scratch / "missing");
  EXPECT_EQ(missing.cause, ElfCause::unreadable);
  EXPECT_EQ(missing.system_error, ENOENT);
  EXPECT_EQ(missing.path, scratch / "missing");
  EXPECT_EQ(why_not(scratch.path()).system_error, EISDIR);
  const std::string fifo = scratch / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(why_not(fifo).system_error, ENODEV);
}

TEST(ElfFile, OtherKindsOfFilesAreNotElf) {
  Scratch scratch;
  write_bytes(scratch / "empty", {});
  EXPECT_EQ(why_not(scratch / "empty").cause, ElfCause::not_elf);
  const std::string script = "#!/bin/sh\nexit 0\n";
  write_bytes(scratch / "script", {reinterpret_cast<const uint8_t*>(script.data()), script.size()});
  EXPECT_EQ(why_not(scratch / "script").cause, ElfCause::not_elf);
  EXPECT_EQ(why_not_bytes({}), ElfCause::not_elf);
  EXPECT_EQ(why_not_bytes({0x7f, 'E', 'L', 'F'}), ElfCause::not_elf);
  // A static library starts with a magic number that libelf knows, but has nothing to run.
  std::vector<uint8_t> archive(64, ' ');
  std::memcpy(archive.data(), "!<arch>\n", 8);
  EXPECT_EQ(why_not_bytes(archive), ElfCause::not_elf);
}

class Header : public testing::Test {
 protected:
  template <class T>
  ElfCause with(size_t offset, T value) {
    auto bytes = read_bytes(program("basic_pie"));
    std::memcpy(bytes.data() + offset, &value, sizeof value);
    return why_not_bytes(std::move(bytes));
  }
};

TEST_F(Header, OfA32BitProgramIsForAnotherMachine) {
  EXPECT_EQ(with(EI_CLASS, uint8_t{ELFCLASS32}), ElfCause::not_x86_64);
  EXPECT_EQ(with(EI_CLASS, uint8_t{0}), ElfCause::not_x86_64);
}

TEST_F(Header, OfAnotherArchitectureOrByteOrderIsForAnotherMachine) {
  EXPECT_EQ(with(offsetof(Elf64_Ehdr, e_machine), Elf64_Half{EM_AARCH64}), ElfCause::not_x86_64);
  EXPECT_EQ(with(EI_DATA, uint8_t{ELFDATA2MSB}), ElfCause::not_x86_64);
}

TEST_F(Header, OfACoreOrAnObjectFileIsNotLoadable) {
  EXPECT_EQ(with(offsetof(Elf64_Ehdr, e_type), Elf64_Half{ET_CORE}), ElfCause::not_loadable);
  EXPECT_EQ(with(offsetof(Elf64_Ehdr, e_type), Elf64_Half{ET_REL}), ElfCause::not_loadable);
  EXPECT_EQ(why_not(program("basic.o")).cause, ElfCause::not_loadable);
}

TEST_F(Header, WithoutProgramHeadersIsNotLoadable) {
  EXPECT_EQ(with(offsetof(Elf64_Ehdr, e_phnum), Elf64_Half{0}), ElfCause::not_loadable);
}

TEST_F(Header, WithProgramHeadersOutsideTheFileIsTruncated) {
  EXPECT_EQ(with(offsetof(Elf64_Ehdr, e_phoff), Elf64_Off{1} << 40), ElfCause::truncated);
  EXPECT_EQ(with(offsetof(Elf64_Ehdr, e_phnum), Elf64_Half{0x7fff}), ElfCause::truncated);
}

class ProgramHeader : public testing::Test {
 protected:
  // The program with one header changed, the first of this type.
  static std::vector<uint8_t> with(uint32_t type, void (*change)(Elf64_Phdr&)) {
    auto bytes = read_bytes(program("basic_pie"));
    Elf64_Ehdr header;
    std::memcpy(&header, bytes.data(), sizeof header);
    for (size_t i = 0; i < header.e_phnum; ++i) {
      const size_t at = header.e_phoff + i * sizeof(Elf64_Phdr);
      Elf64_Phdr program;
      std::memcpy(&program, bytes.data() + at, sizeof program);
      if (program.p_type != type) continue;
      change(program);
      std::memcpy(bytes.data() + at, &program, sizeof program);
      return bytes;
    }
    ADD_FAILURE() << "no such header";
    return bytes;
  }
  static size_t segments_with(void (*change)(Elf64_Phdr&)) {
    const auto file = ElfFile::from_bytes(with(PT_LOAD, change), "changed");
    EXPECT_TRUE(file);
    return file ? file->segments().size() : 0;
  }
};

TEST_F(ProgramHeader, OfASegmentBeyondTheFileIsTruncated) {
  EXPECT_EQ(why_not_bytes(with(PT_LOAD, [](Elf64_Phdr& p) { p.p_offset = 1 << 30; })),
            ElfCause::truncated);
  EXPECT_EQ(why_not_bytes(with(PT_LOAD, [](Elf64_Phdr& p) { p.p_filesz = p.p_memsz = 1 << 30; })),
            ElfCause::truncated);
}

TEST_F(ProgramHeader, OfSegmentsThatRepeatTheFileIsTruncated) {
  const auto whole = [](Elf64_Phdr& program, uint64_t size) {
    program.p_offset = 0;
    program.p_filesz = program.p_memsz = size;
    program.p_type = PT_LOAD;
  };
  auto bytes = read_bytes(program("basic_pie"));
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  ASSERT_GE(header.e_phnum, 3);
  std::vector<Elf64_Phdr> programs(header.e_phnum);
  std::memcpy(programs.data(), bytes.data() + header.e_phoff, programs.size() * sizeof programs[0]);
  for (Elf64_Phdr& program : programs) whole(program, bytes.size());
  std::memcpy(bytes.data() + header.e_phoff, programs.data(), programs.size() * sizeof programs[0]);
  EXPECT_EQ(why_not_bytes(bytes), ElfCause::truncated);
}

TEST_F(ProgramHeader, OfAnImpossibleSegmentReadsAsMissing) {
  const size_t all = open_program(program("basic_pie")).segments().size();
  EXPECT_EQ(segments_with([](Elf64_Phdr&) {}), all);
  EXPECT_EQ(segments_with([](Elf64_Phdr& p) { p.p_vaddr = UINT64_MAX - 10; }), all - 1);
  EXPECT_EQ(segments_with([](Elf64_Phdr& p) { p.p_offset = UINT64_MAX - 10; }), all - 1);
  EXPECT_EQ(segments_with([](Elf64_Phdr& p) { p.p_memsz = p.p_filesz - 1; }), all - 1);
}

TEST_F(ProgramHeader, OfAHugeNoteCostsNothing) {
  const auto file = ElfFile::from_bytes(
      with(PT_NOTE, [](Elf64_Phdr& p) { p.p_filesz = p.p_memsz = (1 << 30) - 1; }), "huge note");
  ASSERT_TRUE(file);
}

TEST(ElfFile, NotesArePaddedToFourBytes) {
  auto bytes = read_bytes(program("basic_pie"));
  const Section id = sections(program("basic_pie")).at(".note.gnu.build-id");
  constexpr size_t kRoom = 36;  // of a note with a name of 4 bytes and 20 bytes of SHA-1
  ASSERT_GE(id.range.size(), kRoom);
  // Another note of one byte, padded; and a build id of two, followed by zeros.
  const uint8_t notes[kRoom] = {4, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 'G', 'N', 'U', 0,   7,   0,
                                0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0,   0,   'G', 'N', 'U', 0};
  std::copy(std::begin(notes), std::end(notes), bytes.begin() + static_cast<ptrdiff_t>(id.offset));
  bytes[id.offset + kRoom] = 0xab;
  bytes[id.offset + kRoom + 1] = 0xcd;
  const auto file = ElfFile::from_bytes(std::move(bytes), "padded");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->build_id(), "abcd");
}

TEST(ElfFile, ANoteOfGoShowsThatGoLinkedIt) {
  auto bytes = read_bytes(program("basic_pie"));
  EXPECT_FALSE(ElfFile::from_bytes(bytes, "of C")->is_go());
  const Section id = sections(program("basic_pie")).at(".note.gnu.build-id");
  const uint8_t note[] = {4, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 'G', 'o', 0, 0, 'x'};
  ASSERT_GE(id.range.size(), sizeof note);
  std::copy(std::begin(note), std::end(note), bytes.begin() + static_cast<ptrdiff_t>(id.offset));
  const auto file = ElfFile::from_bytes(std::move(bytes), "of Go");
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->is_go());
}

// A file may be cut anywhere: in its headers, in a segment, after all segments. What is left is
// read; nothing else happens.
TEST(TruncatedElfFile, IsRefusedOrReadsWithoutWhatIsMissing) {
  Scratch scratch;
  const auto bytes = read_bytes(program("basic_pie"));
  const ElfFile whole = open_program(program("basic_pie"));
  uint64_t loaded_end = 0;
  std::set<uint64_t> cuts;
  for (uint64_t at = 0; at < 800; ++at) cuts.insert(at);
  for (const Segment& segment : whole.segments()) {
    loaded_end = std::max(loaded_end, segment.offset + segment.file_size);
    for (uint64_t near : {segment.offset, segment.offset + segment.file_size})
      for (int by : {-1, 0, 1}) cuts.insert(near + static_cast<uint64_t>(by));
  }
  for (const auto& [name, section] : sections(program("basic_pie")))
    for (uint64_t near : {section.offset, section.offset + section.range.size() / 2})
      for (int by : {-1, 0, 1}) cuts.insert(near + static_cast<uint64_t>(by));
  for (uint64_t at = bytes.size() - 200; at < bytes.size(); ++at) cuts.insert(at);

  for (uint64_t cut : cuts) {
    if (cut > bytes.size()) continue;
    const std::vector<uint8_t> part(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(cut));
    write_bytes(scratch / "part", part);
    for (const auto& file : {ElfFile::open(scratch / "part"), ElfFile::from_bytes(part, "part")}) {
      if (cut < loaded_end) {
        ASSERT_FALSE(file) << cut;
        EXPECT_EQ(file.error().cause, cut < EI_NIDENT ? ElfCause::not_elf : ElfCause::truncated)
            << cut;
        continue;
      }
      ASSERT_TRUE(file) << cut;
      EXPECT_EQ(file->segments().size(), whole.segments().size());
      EXPECT_EQ(file->build_id(), whole.build_id());
      EXPECT_LE(file->symtab().size(), whole.symtab().size());
      EXPECT_LE(file->dynamic_symbols().size(), whole.dynamic_symbols().size());
      EXPECT_LE(file->relocations().size(), whole.relocations().size());
      static_cast<void>(file->procedure_linkage_tables());
      static_cast<void>(file->eh_frame());
      static_cast<void>(file->debug_link());
    }
  }
}

TEST(ElfFile, SymbolsOfASeparateDebugFileAreReadWithoutTheCodeThatItDescribes) {
  Scratch scratch;
  ASSERT_EQ(run_shell("objcopy --only-keep-debug " + program("basic_pie") + " " +
                      (scratch / "basic.debug"))
                .status,
            0);
  const auto debug = ElfFile::open(scratch / "basic.debug", ElfFile::Use::symbols);
  ASSERT_TRUE(debug);
  const ElfFile file = open_program(program("basic_pie"));
  EXPECT_EQ(functions_of(debug->symtab()), functions_of(file.symtab()));
  EXPECT_EQ(debug->build_id(), file.build_id());
}

TEST(ElfFile, ADebugLinkNamesAFileAndItsChecksum) {
  Scratch scratch;
  const std::string path = scratch / "basic";
  ASSERT_EQ(run_shell("cd " + scratch.path() + " && cp " + program("basic_pie") +
                      " basic && objcopy --only-keep-debug basic basics.debug && "
                      "objcopy --add-gnu-debuglink=basics.debug basic")
                .status,
            0);
  const auto link = open_program(path).debug_link();
  ASSERT_TRUE(link);
  EXPECT_EQ(link->file, "basics.debug");
  const std::string shown = run_shell("readelf --debug-dump=links " + path).output;
  const size_t crc = shown.find("CRC value: ");
  ASSERT_NE(crc, shown.npos) << shown;
  EXPECT_EQ(link->crc, hex(words_of(shown.substr(crc))[2].substr(2)));
  EXPECT_FALSE(open_program(program("basic_pie")).debug_link());
}

}  // namespace
}  // namespace pinprick::image
