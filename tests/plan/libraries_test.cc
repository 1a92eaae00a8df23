// The planner over whole libraries: what it promises of every patch, looked at by other means.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "arch/disassembler.h"
#include "arch/x86_64/stub.h"
#include "bytes.h"
#include "image/process.h"
#include "library_path.h"
#include "plan/planner.h"

namespace pinprick::plan {
namespace {

class Library {
 public:
  explicit Library(const std::string& soname) {
    auto process = image::load_file(library_path(soname));
    EXPECT_TRUE(process) << soname;
    if (process) image_ = *std::move(process);
    object().targets();  // decodes all text
  }
  image::Object& object() { return *image_.objects[0]; }
  const std::vector<image::Function>& functions() { return object().functions().functions(); }

  FunctionCode code(const image::Function& function) {
    FunctionCode code;
    code.range = function.range;
    code.bytes = object().code(function);
    code.targets = &object().targets();
    code.reserved = object().reserved();
    return code;
  }

 private:
  image::ProcessImage image_;
};

class Libraries : public testing::TestWithParam<const char*> {
 protected:
  // Where capstone sees instructions begin, from `begin` up to `end` or a little further.
  std::vector<Address> boundaries(const FunctionCode& code, Address begin, Address end) {
    std::vector<Address> all;
    while (begin < end) {
      all.push_back(begin);
      const size_t length =
          disassembler.length(code.bytes.subspan(begin - code.range.begin), begin);
      if (length == 0) return {};  // does not know it: arch/boundaries_test.cc compares with care
      begin += length;
    }
    all.push_back(begin);
    return all;
  }

  void check(const FunctionCode& code, const Patch& patch) {
    SCOPED_TRACE(testing::Message() << std::hex << patch.site);
    ASSERT_TRUE(code.range.contains(patch.site));
    ASSERT_GE(patch.displaced, 1);
    const Address written_end = patch.site + patch.written;
    const Address displaced_end = patch.site + patch.displaced;
    ASSERT_LE(std::max(written_end, displaced_end), code.limit());
    ASSERT_LE(displaced_end, code.range.end);
    for (Address a = patch.site; a < std::max(written_end, displaced_end); ++a)
      ASSERT_EQ(patch.original[a - patch.site], code.bytes[a - code.range.begin]);
    // Nobody comes in behind the first byte.
    for (Address a = patch.site + 1; a < std::max(written_end, displaced_end); ++a)
      ASSERT_FALSE(code.targets->contains(a));
    const auto begins = boundaries(code, patch.site, displaced_end);
    if (begins.empty()) return;
    ASSERT_EQ(begins.back(), displaced_end) << "displaces a part of an instruction";
    std::vector<uint8_t> interior;
    for (Address begin : begins)
      if (begin > patch.site && begin < std::min(written_end, displaced_end))
        interior.push_back(static_cast<uint8_t>(begin - patch.site));
    ASSERT_EQ(patch.interior, interior);
    // And there is a stub for it.
    arch::Assembler stub(patch.site + (1 << 30));
    arch::ArenaEntries arena;
    arena.locked_count = stub.here();
    const arch::CountPoint point;
    arch::emit_count_stub(stub, arena, std::nullopt, {&point, 1},
                          {patch.site, patch.displaced_bytes()});
    ASSERT_TRUE(stub.finish());
  }

  arch::Disassembler disassembler;
};
INSTANTIATE_TEST_SUITE_P(Real, Libraries, testing::Values("libc.so.6", "libstdc++.so.6"),
                         [](const auto& library) {
                           return library.param[3] == 'c' ? "libc" : "libstdcxx";
                         });

TEST_P(Libraries, KeepItsPromisesAtEveryEntryAndTakeNearlyAll) {
  Library library(GetParam());
  size_t planned = 0;
  std::map<std::string_view, size_t> refused;
  for (const image::Function& function : library.functions()) {
    const FunctionCode code = library.code(function);
    const auto patch = plan_site(code, function.range.begin);
    if (patch) {
      ++planned;
      ASSERT_NO_FATAL_FAILURE(check(code, *patch));
    } else {
      ++refused[name(patch.error().reason)];
    }
  }
  EXPECT_GT(planned, 0.98 * static_cast<double>(library.functions().size()))
      << testing::PrintToString(refused);
}

TEST_P(Libraries, KeepItsPromisesAtEveryInstructionAndTakeNineInTen) {
  Library library(GetParam());
  size_t sites = 0, planned = 0;
  std::map<std::string_view, size_t> refused;
  for (const image::Function& function : library.functions()) {
    // From the begin to a site everything is decoded each time: enough of the giants is enough.
    constexpr uint64_t kMost = 1000;
    const FunctionCode code = library.code(function);
    for (Address site = function.range.begin; site < function.range.end;) {
      if (site - function.range.begin > kMost) break;
      const auto instruction = arch::decode(code.bytes.subspan(site - code.range.begin), site);
      if (!instruction) break;
      ++sites;
      const auto patch = plan_site(code, site);
      if (patch) {
        ++planned;
        ASSERT_NO_FATAL_FAILURE(check(code, *patch));
      } else {
        ++refused[name(patch.error().reason)];
      }
      site = instruction->end();
    }
  }
  EXPECT_GT(sites, 100'000u);
  EXPECT_GT(planned, 0.9 * static_cast<double>(sites)) << testing::PrintToString(refused);
  EXPECT_EQ(refused["mid_instruction"], 0u);
  EXPECT_EQ(refused["outside"], 0u);
}

}  // namespace
}  // namespace pinprick::plan
