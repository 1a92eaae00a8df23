#include "image/scan/managed_code.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

namespace pinprick::image {
namespace {

constexpr std::string_view kMonoFile = "mono_aot_file_info", kMonoModule = "mono_aot_module_",
                           kNativeAot = "DotNetRuntimeDebugHeader";
// Of libcoreclr, and of programs into which it is linked.
constexpr std::array<std::string_view, 3> kCoreClr = {"coreclr_initialize", "g_dacTable",
                                                      "DotNetRuntimeInfo"};

bool is_mono_image(std::string_view symbol) {
  return symbol == kMonoFile || (symbol.starts_with(kMonoModule) && symbol.ends_with("_info"));
}

bool is_core_clr(std::string_view symbol) {
  return std::find(kCoreClr.begin(), kCoreClr.end(), symbol) != kCoreClr.end();
}

// Mono describes its compiled code by a structure of numbers and pointers (MonoAotFileInfo), which
// differs from version to version. Of the pointers to code, the lowest two are the start and the
// end of the methods in all of them; the others are tables of jumps after these.
constexpr size_t kMostImages = 1024;  // more than programs have
struct MonoImage {
  Range description;
  std::vector<Address> pointers;  // to code
};

// By address. A program into which Mono is linked may have many.
std::vector<MonoImage> mono_images(const ElfFile& elf, std::vector<Symbol> symbols) {
  constexpr uint64_t kLargest = 1024;
  const Range all = elf.extent();
  std::erase_if(symbols, [&](const Symbol& symbol) {
    return !is_mono_image(symbol.name) || !all.contains(symbol.address);
  });
  std::sort(symbols.begin(), symbols.end(),
            [](const Symbol& a, const Symbol& b) { return a.address < b.address; });
  std::vector<MonoImage> images;
  for (const Symbol& symbol : symbols)
    if (images.empty() || images.back().description.begin != symbol.address)
      images.push_back({{symbol.address, symbol.address + kLargest}, {}});
  for (size_t i = 1; i < images.size(); ++i)
    images[i - 1].description.end =
        std::min(images[i - 1].description.end, images[i].description.begin);
  return images;
}

void find_pointers(const ElfFile& elf, std::span<const Relocation> relocations,
                   std::vector<MonoImage>& images) {
  const auto add = [&](MonoImage& image, Address pointer) {
    // The last may lead to the end of all code.
    if (elf.in_executable_segment(pointer) || elf.in_executable_segment(pointer - 1))
      image.pointers.push_back(pointer);
  };
  // At fixed addresses the file has them.
  for (MonoImage& image : images) {
    const auto bytes = elf.read(image.description);
    for (size_t at = 0; at + sizeof(Address) <= bytes.size(); at += sizeof(Address)) {
      Address word;
      std::memcpy(&word, bytes.data() + at, sizeof word);
      add(image, word);
    }
  }
  for (const Relocation& relocation : relocations) {
    if (relocation.kind != Relocation::Kind::relative) continue;
    const auto after = std::upper_bound(
        images.begin(), images.end(), relocation.address,
        [](Address at, const MonoImage& image) { return at < image.description.begin; });
    if (after != images.begin() && std::prev(after)->description.contains(relocation.address))
      add(*std::prev(after), static_cast<Address>(relocation.addend));
  }
}

void add_mono_images(const ElfFile& elf, std::span<const Relocation> relocations,
                     std::vector<MonoImage> images, ManagedCode& code) {
  find_pointers(elf, relocations, images);
  for (auto& [description, pointers] : images) {
    std::sort(pointers.begin(), pointers.end());
    pointers.erase(std::unique(pointers.begin(), pointers.end()), pointers.end());
    if (pointers.size() < 2) continue;
    code.methods.push_back({pointers[0], pointers[1]});
    if (pointers.back() != pointers[1]) code.untouchable.push_back({pointers[1], pointers.back()});
  }
}

void add_all_code(const ElfFile& elf, ManagedCode& code) {
  for (const Segment& segment : elf.segments())
    if (segment.executable) code.untouchable.push_back(segment.range);
}

// NativeAOT has sections for its methods, and for the stubs that unbox their arguments. Without
// section headers it could be any code.
void add_native_aot(const ElfFile& elf, ManagedCode& code) {
  code.has_helpers = true;
  bool is_found = false;
  for (const ElfFile::CodeSection& section : elf.code_sections()) {
    if (section.name != "__managedcode" && section.name != "__unbox") continue;
    code.untouchable.push_back(section.range);
    is_found = true;
  }
  if (!is_found) add_all_code(elf, code);
}

}  // namespace

ManagedCode find_managed_code(const ElfFile& elf,
                              const std::function<std::span<const Relocation>()>& relocations) {
  constexpr std::array<std::string_view, 6> kNames = {kMonoFile,   kMonoModule, kNativeAot,
                                                      kCoreClr[0], kCoreClr[1], kCoreClr[2]};
  constexpr std::array<std::string_view, 1> kHaskell = {"stg_upd_frame_info"};
  ManagedCode code;
  code.has_tables = elf.may_name_any(kHaskell);
  if (!elf.may_name_any(kNames)) return code;
  bool is_native_aot = false;
  auto symbols = elf.symtab();
  const auto dynamic = elf.dynamic_symbols();
  symbols.insert(symbols.end(), dynamic.begin(), dynamic.end());
  for (const Symbol& symbol : symbols) {
    is_native_aot |= symbol.name == kNativeAot;
    code.has_helpers |= is_core_clr(symbol.name);
  }
  auto images = mono_images(elf, std::move(symbols));
  if (images.size() > kMostImages)
    add_all_code(elf, code);
  else if (!images.empty())
    add_mono_images(elf, relocations(), std::move(images), code);
  if (is_native_aot) add_native_aot(elf, code);
  return code;
}

std::vector<Range> without_methods(std::span<const Range> code, const ManagedCode& managed,
                                   uint64_t bias) {
  std::vector<Range> left(code.begin(), code.end());
  for (const Range methods : managed.methods) {
    const Range pages = {align_down(methods.begin + bias, kPageSize),
                         align_up(methods.end + bias, kPageSize)};
    std::vector<Range> rest;
    for (const Range one : left) {
      const Range before = {one.begin, std::min(one.end, pages.begin)};
      const Range after = {std::max(one.begin, pages.end), one.end};
      for (const Range part : {before, after})
        if (part.begin < part.end) rest.push_back(part);
    }
    left = std::move(rest);
  }
  return left;
}

}  // namespace pinprick::image
