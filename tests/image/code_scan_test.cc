#include "image/scan/code_scan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "arch/code.h"
#include "image/process.h"
#include "image/programs.h"
#include "library_path.h"

namespace pinprick::image {
namespace {

// jumps.S: every label `to_...` is a target. In the stripped program they must be found from code
// and data alone.
class ComputedJumps : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string original = program(GetParam());
    const std::string stripped = scratch_ / "stripped";
    ASSERT_EQ(run_shell("strip -s -o " + stripped + " " + original).status, 0);
    auto loaded = load_file(stripped);
    ASSERT_TRUE(loaded);
    file_ = *std::move(loaded);
    for (const NmSymbol& symbol : nm(original)) labels_[symbol.name] = symbol.address;
  }

  Object& object() { return *file_.objects.at(0); }
  const BranchTargets& targets() { return object().targets(); }
  bool has_unresolved_jump(const std::string& function) {
    return targets().has_unresolved_jump(labels_.at(function));
  }

  Scratch scratch_;
  ProcessImage file_;
  std::map<std::string, Address> labels_;
};

TEST_P(ComputedJumps, LeadOnlyToKnownTargets) {
  size_t checked = 0;
  for (const auto& [name, address] : labels_) {
    if (!name.starts_with("to_")) continue;
    if (name.starts_with("to_computed") || name == "to_behind")
      continue;  // in unresolved functions
    // At fixed addresses no relocation leads there.
    if (name == "to_packed_word" && std::string(GetParam()) == "jumps_nopie") continue;
    EXPECT_TRUE(targets().contains(address)) << name;
    ++checked;
  }
  EXPECT_GT(checked, 15u);
}

TEST_P(ComputedJumps, TheAddressAfterEachIsNotATarget) {
  // The set is not simply everything.
  for (const char* name : {"to_short", "to_conditional", "to_called", "to_function", "to_passed"})
    EXPECT_FALSE(targets().contains(labels_.at(name) + 1)) << name;
}

// At fixed addresses any 4-byte number may look like an address.
TEST_P(ComputedJumps, NumbersThatNoJumpUsesAreNotTargets) {
  const auto label = labels_.find("no_label");
  EXPECT_EQ(label != labels_.end(), std::string(GetParam()) == "jumps_nopie");
  if (label != labels_.end()) {
    EXPECT_FALSE(targets().contains(label->second));
  }
}

TEST_P(ComputedJumps, IntoTheirOwnFunctionMakeItUnresolved) {
  EXPECT_TRUE(has_unresolved_jump("computes_inside"));
  EXPECT_TRUE(has_unresolved_jump("computes_beside_data"));
  EXPECT_TRUE(has_unresolved_jump("jumps_by_whole_words"));
}

TEST_P(ComputedJumps, AmongBlocksLeadToEachBlockAndNowhereBetween) {
  EXPECT_FALSE(has_unresolved_jump("jumps_among_blocks"));
  EXPECT_FALSE(has_unresolved_jump("jumps_by_scale"));
  EXPECT_FALSE(has_unresolved_jump("blocks_of_another"));
  EXPECT_FALSE(targets().contains(labels_.at("no_block")));
}

TEST_P(ComputedJumps, AmongBlocksMakeAFunctionUnresolvedIfAnotherIndexCanEnter) {
  EXPECT_TRUE(has_unresolved_jump("enters_block_jump"));
}

TEST_P(ComputedJumps, ByASumOfUnknownOriginMakeAFunctionUnresolved) {
  EXPECT_TRUE(has_unresolved_jump("jumps_by_unknown_sum"));
}

TEST_P(ComputedJumps, ThatAreExplainedLeaveAFunctionResolved) {
  for (const char* name :
       {"tail_calls", "takes_table", "table_in_text", "words_in_text", "branches", "passes_on"})
    EXPECT_FALSE(has_unresolved_jump(name)) << name;
}

INSTANTIATE_TEST_SUITE_P(Programs, ComputedJumps,
                         testing::Values("jumps_pie", "jumps_nopie", "jumps_packed"),
                         [](const auto& chosen) { return std::string(chosen.param); });

TEST(CodeScan, AnOuterFunctionIsUnresolvedIfItsPartAfterAnInnerOneJumpsAnywhere) {
  for (const char* name : {"jumps_pie", "jumps_nopie"}) {
    auto file = load_file(program(name));
    ASSERT_TRUE(file);
    Object& object = *file->objects.at(0);
    const Address after = address_of(program(name), "to_behind").value();
    for (const Function& function : object.functions().functions()) {
      if (!function.range.contains(after)) continue;
      EXPECT_TRUE(object.targets().has_unresolved_jump(function.range.begin))
          << name << ": " << object.functions().names(function)[0];
    }
  }
}

// Every direct branch of a library that objdump prints leads to a target.
class LibraryBranches : public testing::TestWithParam<const char*> {};

TEST_P(LibraryBranches, AreAllInTheSet) {
  const std::string path = GetParam();
  if (::access(path.c_str(), R_OK) != 0) GTEST_SKIP() << path;
  auto file = load_file(path);
  ASSERT_TRUE(file);
  const BranchTargets& targets = file->objects.at(0)->targets();
  const auto result = run_shell("objdump -d --no-show-raw-insn -j .text '" + path + "'");
  std::set<Address> missing;
  size_t checked = 0;
  for (const std::string& line : lines_of(result.output)) {
    // "   26d1f:	call   7d0a0 <name>", with prefixes like bnd or notrack before
    const auto words = words_of(line);
    for (size_t i = 1; i + 1 < words.size(); ++i) {
      if (words[i][0] != 'j' && words[i] != "call" && !words[i].starts_with("loop") &&
          words[i] != "xbegin")
        continue;
      size_t end = 0;
      if (!std::isxdigit(words[i + 1][0])) break;
      const Address target = std::stoull(words[i + 1], &end, 16);
      if (end != words[i + 1].size()) break;
      if (!targets.contains(target)) missing.insert(target);
      ++checked;
      break;
    }
  }
  EXPECT_GT(checked, 1000u);
  EXPECT_EQ(missing, std::set<Address>()) << std::hex << (missing.empty() ? 0 : *missing.begin());
}

INSTANTIATE_TEST_SUITE_P(Libraries, LibraryBranches,
                         testing::Values("/lib/x86_64-linux-gnu/libc.so.6",
                                         "/lib/x86_64-linux-gnu/libgcc_s.so.1"));

TEST(CodeScan, AlignedCodeAddressesCountAnywhere) {
  // Two handwritten words of data: an address of text plus the bias of memory, and one that is not
  // aligned and does not count.
  const std::vector<uint8_t> text(64, 0x90);
  std::vector<uint8_t> data(24);
  const uint64_t bias = 0x7f0000000000;
  const auto put = [&](size_t at, uint64_t value) {
    std::copy_n(reinterpret_cast<const uint8_t*>(&value), 8, data.begin() + at);
  };
  put(0, bias + 0x1010);
  put(12, bias + 0x1020);
  ObjectBytes object;
  object.text = {{0x1000, text}};
  object.data = {{0x3000, data}};
  object.bias = bias;
  const BranchTargets targets = find_branch_targets(object, {}, {}, {});
  EXPECT_TRUE(targets.contains(0x1010));
  EXPECT_FALSE(targets.contains(0x1020));
}

TEST(CodeScan, RelocationsAndLandingPadsAreTargets) {
  const std::vector<uint8_t> text(64, 0x90);
  ObjectBytes object;
  object.text = {{0x1000, text}};
  const std::vector<Relocation> relocations = {
      {0x3001, Relocation::Kind::relative, 0x1010, {}},
      {0x3008, Relocation::Kind::irelative, 0x1018, {}},
      {0x3010, Relocation::Kind::symbol, 0x1020, "elsewhere"}};
  const std::vector<Address> pads = {0x1030};
  const BranchTargets targets = find_branch_targets(object, {}, relocations, pads);
  EXPECT_TRUE(targets.contains(0x1010));
  EXPECT_TRUE(targets.contains(0x1018));
  EXPECT_FALSE(targets.contains(0x1020));
  EXPECT_TRUE(targets.contains(0x1030));
}

class Sequences : public testing::TestWithParam<const char*> {
 protected:
  // Start and end, by the names of labels.
  Address label(const std::string& name) { return address_of(program(GetParam()), name).value(); }
};

TEST_P(Sequences, AreReservedWithTheirAnnouncementAndSignature) {
  auto file = load_file(program(GetParam()));
  ASSERT_TRUE(file);
  const auto& reserved = file->objects.at(0)->reserved();
  const auto is_reserved = [&](Address address) {
    return std::any_of(reserved.begin(), reserved.end(),
                       [&](Range range) { return range.contains(address); });
  };
  for (Address a = label("announcement"); a < label("commit_end"); ++a)
    EXPECT_TRUE(is_reserved(a)) << std::hex << a;
  for (Address a = label("signature"); a <= label("abort"); ++a)
    EXPECT_TRUE(is_reserved(a)) << std::hex << a;
}

TEST_P(Sequences, ThatAreInvalidReserveNothing) {
  auto file = load_file(program(GetParam()));
  ASSERT_TRUE(file);
  const Address unsigned_abort = label("unsigned_abort");
  const Address commit_end = label("commit_end");
  for (Range range : file->objects.at(0)->reserved()) {
    EXPECT_FALSE(range.contains(unsigned_abort));
    EXPECT_FALSE(range.contains(commit_end)) << "the first instruction that is outside";
    EXPECT_LT(range.size(), 64u);
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, Sequences, testing::Values("sequences_pie", "sequences_nopie"),
                         [](const auto& chosen) { return std::string(chosen.param); });

// A library as in its file, ready to be scanned.
struct Library {
  explicit Library(const std::string& name) : elf(*ElfFile::open(library_path(name))) {
    for (const Segment& segment : elf.segments()) {
      storage.push_back(elf.read(segment.range));
      (segment.executable ? bytes.text : bytes.data)
          .push_back({segment.range.begin, storage.back()});
    }
    const auto section = elf.eh_frame();
    const auto frames = parse_eh_frame(section->data, section->address);
    symbols = elf.dynamic_symbols();
    functions = FunctionTable::build(elf, code_layout(elf, nullptr, frames), symbols, frames);
    relocations = elf.relocations();
  }

  BranchTargets targets(size_t threads) const {
    return find_branch_targets(bytes, functions, relocations, {}, threads);
  }

  ElfFile elf;
  std::vector<std::vector<uint8_t>> storage;
  ObjectBytes bytes;
  std::vector<Symbol> symbols;
  FunctionTable functions;
  std::vector<Relocation> relocations;
};

class Scan : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Libraries, Scan, testing::Values("libc.so.6", "libstdc++.so.6"),
                         [](const auto& library) {
                           return std::string(library.param).substr(0, 4) +
                                  std::to_string(library.index);
                         });

TEST_P(Scan, FindsTheSameOnAnyNumberOfThreads) {
  const Library library(GetParam());
  const BranchTargets one = library.targets(1);
  for (size_t threads : {2, 3, 8}) {
    const BranchTargets many = library.targets(threads);
    size_t targets = 0;
    for (const CodeBytes& text : library.bytes.text)
      for (Address at = text.range().begin; at < text.range().end; ++at) {
        ASSERT_EQ(many.contains(at), one.contains(at)) << std::hex << at;
        targets += one.contains(at);
      }
    EXPECT_GT(targets, 10'000u) << "these are hardly all";
    for (const Function& function : library.functions.functions())
      EXPECT_EQ(many.has_unresolved_jump(function.range.begin),
                one.has_unresolved_jump(function.range.begin))
          << std::hex << function.range.begin;
  }
}

// The bytes of a file do not show what the program may have written to a table since.
TEST(Scan, TablesThatMayChangeAddTargetsButExplainNoJump) {
  Library library("libc.so.6");
  const BranchTargets fixed = library.targets(2);
  for (const CodeBytes& part : library.bytes.data) library.bytes.changing.push_back(part.range());
  const BranchTargets changing = library.targets(2);
  size_t explained = 0;
  for (const Function& function : library.functions.functions()) {
    const Address begin = function.range.begin;
    EXPECT_TRUE(changing.has_unresolved_jump(begin) || !fixed.has_unresolved_jump(begin))
        << std::hex << begin;
    explained += !fixed.has_unresolved_jump(begin) && changing.has_unresolved_jump(begin);
  }
  EXPECT_GT(explained, 20u) << "by switches";
  for (const CodeBytes& text : library.bytes.text)
    for (Address at = text.range().begin; at < text.range().end; ++at)
      ASSERT_TRUE(changing.contains(at) || !fixed.contains(at)) << std::hex << at;
}

// Text is decoded in pieces that start at functions: no branch is lost between two pieces.
TEST_P(Scan, EveryDirectBranchOfEveryFunctionIsATarget) {
  const Library library(GetParam());
  const BranchTargets targets = library.targets(2);
  const CodeBytes& text = library.bytes.text[0];
  size_t branches = 0;
  for (const Function& function : library.functions.functions()) {
    if (!text.range().contains(function.range.begin)) continue;
    for (Address at = function.range.begin; at < std::min(function.range.end, function.limit);) {
      const auto instruction = arch::decode(text.bytes.subspan(at - text.address), at);
      if (!instruction) break;
      if (instruction->has_target() && text.range().contains(instruction->target)) {
        ++branches;
        ASSERT_TRUE(targets.contains(instruction->target)) << std::hex << at;
      }
      at = instruction->end();
    }
  }
  EXPECT_GT(branches, 10'000u);
}

}  // namespace
}  // namespace pinprick::image
