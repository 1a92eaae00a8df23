// Functions that a program copies, checks, or knows by their bytes (known_functions.h), and methods
// of .NET and Mono (managed_code.h), as assemblers and linkers make them.
#include "image/scan/known_functions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "image/object.h"
#include "image/process.h"
#include "image/programs.h"
#include "image/scan/managed_code.h"

namespace pinprick::image {
namespace {

ProcessImage load(const std::string& name) {
  auto image = load_file(program(name));
  EXPECT_TRUE(image) << name;
  return *std::move(image);
}

bool is_reserved(Object& object, std::string_view name) {
  const std::string_view names[] = {name};
  const Function* const function = object.functions_named(names).front();
  EXPECT_NE(function, nullptr) << name;
  const auto& all = object.reserved();
  return function != nullptr && std::any_of(all.begin(), all.end(), [&](Range range) {
           return range.contains(function->range);
         });
}

class Copied : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Functions, Copied,
                         testing::Values("stub_precode", "fixup_precode", "call_counting",
                                         "backwards", "pending", "cipher",
                                         "BORINGSSL_bcm_text_start"));
TEST_P(Copied, AreReservedAsAWhole) {
  auto image = load("copied");
  EXPECT_TRUE(is_reserved(*image.objects.at(0), GetParam()));
}

class Similar : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Functions, Similar,
                         testing::Values("_start", "through_data", "has_bytes", "compares",
                                         "after_check"));
TEST_P(Similar, AreNotReserved) {
  auto image = load("copied");
  EXPECT_FALSE(is_reserved(*image.objects.at(0), GetParam()));
}

TEST(Templates, AreNoneInASegmentThatMayHavePointersAmongItsCode) {
  auto image = load("copied_writable");
  EXPECT_FALSE(is_reserved(*image.objects.at(0), "stub_precode"));
  EXPECT_FALSE(is_reserved(*image.objects.at(0), "through_data"));
  EXPECT_TRUE(is_reserved(*image.objects.at(0), "pending"));
}

class Mono : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Linked, Mono, testing::Values("mono_pie", "mono_nopie"));

TEST_P(Mono, HasMethodsAndAfterThemCodeThatItDecodes) {
  const std::string path = program(GetParam());
  auto image = load(GetParam());
  Object& object = *image.objects.at(0);
  const ManagedCode& managed = object.managed_code();
  const Range methods = {*address_of(path, "_start"), *address_of(path, "jit_code_end")};
  EXPECT_EQ(managed.methods, std::vector{methods});
  EXPECT_EQ(managed.untouchable, (std::vector{Range{methods.end, *address_of(path, "plt_end")}}));
  EXPECT_FALSE(managed.has_helpers);
  EXPECT_TRUE(is_reserved(object, "plt"));
  EXPECT_FALSE(is_reserved(object, "quiet"));
  EXPECT_FALSE(is_reserved(object, "after"));
  EXPECT_EQ(object.stack_reading_runtime(), "Mono");
}

TEST_P(Mono, MakesNoCallsThatMayBeTimed) {
  auto image = load(GetParam());
  Object& object = *image.objects.at(0);
  const Range methods = object.managed_code().methods.at(0);
  for (const Range calling : object.calling_code()) EXPECT_FALSE(calling.overlaps(methods));
  auto other = load("core_clr_pie");
  EXPECT_EQ(other.objects.at(0)->calling_code(), other.objects.at(0)->executable_ranges());
}

TEST(MonoInAProgram, HasMethodsOfEachModule) {
  for (const char* name : {"mono_twice_pie", "mono_twice_nopie"}) {
    const std::string path = program(name);
    const auto label = [&](const char* symbol) { return *address_of(path, symbol); };
    auto image = load(name);
    const ManagedCode& managed = image.objects.at(0)->managed_code();
    EXPECT_EQ(managed.methods, (std::vector{Range{label("_start"), label("jit_code_end")},
                                            Range{label("second"), label("second_end")}}))
        << name;
    EXPECT_EQ(managed.untouchable,
              (std::vector{Range{label("jit_code_end"), label("plt_end")},
                           Range{label("second_end"), label("second_plt_end")}}))
        << name;
  }
}

TEST(ManagedCode, IsLeftOutByWholePages) {
  const ManagedCode managed = {{{0x1800, 0x2800}, {0x5000, 0x6000}}, {}};
  const auto without = [&](Range code) { return without_methods({{code}}, managed, 0x100000); };
  using Ranges = std::vector<Range>;
  EXPECT_EQ(without({0x100000, 0x108000}),
            (Ranges{{0x100000, 0x101000}, {0x103000, 0x105000}, {0x106000, 0x108000}}));
  EXPECT_EQ(without({0x101000, 0x103000}), Ranges{});
  EXPECT_EQ(without({0x102000, 0x104000}), (Ranges{{0x103000, 0x104000}}));
  EXPECT_EQ(without({0x1000, 0x9000}), (Ranges{{0x1000, 0x9000}}));
}

TEST(CoreClr, HasHelpersThatMayFault) {
  for (const char* name : {"core_clr_pie", "core_clr_nopie"}) {
    auto image = load(name);
    Object& object = *image.objects.at(0);
    EXPECT_TRUE(object.managed_code().has_helpers) << name;
    EXPECT_TRUE(object.managed_code().methods.empty()) << name;
    EXPECT_TRUE(object.managed_code().untouchable.empty()) << name;
    EXPECT_EQ(object.stack_reading_runtime(), ".NET") << name;
  }
}

TEST(NativeAot, HasMethodsThatAreReserved) {
  for (const char* name : {"native_aot_pie", "native_aot_nopie"}) {
    auto image = load(name);
    Object& object = *image.objects.at(0);
    EXPECT_TRUE(object.managed_code().has_helpers) << name;
    EXPECT_TRUE(is_reserved(object, "method")) << name;
    EXPECT_TRUE(is_reserved(object, "unboxes")) << name;
    EXPECT_FALSE(is_reserved(object, "framed")) << name;
    EXPECT_EQ(object.stack_reading_runtime(), ".NET") << name;
  }
}

TEST(NativeAot, IsAllReservedWithoutSectionHeaders) {
  const auto bytes = read_bytes(program("native_aot_pie"));
  const auto file = ElfFile::from_bytes(without_section_headers(bytes), "stripped");
  ASSERT_TRUE(file);
  const ManagedCode managed =
      find_managed_code(*file, [] { return std::span<const Relocation>(); });
  for (const Segment& segment : file->segments())
    EXPECT_EQ(std::ranges::count(managed.untouchable, segment.range), segment.executable ? 1 : 0);
}

TEST(OrdinaryPrograms, HaveNoManagedCode) {
  auto image = load("basic_pie");
  const ManagedCode& managed = image.objects.at(0)->managed_code();
  EXPECT_TRUE(managed.methods.empty() && managed.untouchable.empty() && !managed.has_helpers);
}

}  // namespace
}  // namespace pinprick::image
