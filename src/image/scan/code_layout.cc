#include "image/scan/code_layout.h"

#include <algorithm>

#include "arch/code.h"

namespace pinprick::image {
namespace {

// Recognises linkage tables by their code.
class Stubs {
 public:
  explicit Stubs(const ElfFile& object) : object_(object) {
    for (const Relocation& one : object.relocations())
      if (one.kind == Relocation::Kind::irelative || !one.symbol.empty())
        pointers_.push_back(one.address);
    std::sort(pointers_.begin(), pointers_.end());
  }

  // Does the code at the start of the range jump through a pointer to an imported function, or is
  // it what calls the loader for one? A function may consist of such a jump, too, but then has not
  // the size of a table of stubs.
  bool is_table(Range range) const {
    constexpr uint64_t kSizeOfStub = 8, kLongestStart = 16;
    if (range.size() % kSizeOfStub != 0) return false;
    const auto code = object_.read({range.begin, range.begin + kLongestStart});
    auto one = arch::decode(code, range.begin);
    if (one && one->special == arch::Special::landing_pad)
      one = arch::decode(std::span(code).subspan(one->length), one->end());
    if (!one || !one->has_rip_operand) return false;
    return object_.is_for_loader(one->memory) ||
           (one->flow == arch::Flow::jump_indirect &&
            std::binary_search(pointers_.begin(), pointers_.end(), one->memory));
  }

 private:
  const ElfFile& object_;
  std::vector<Address> pointers_;
};

// Sorts ranges, and joins those that overlap, which only broken files have.
std::vector<Range> disjoint(std::vector<Range> ranges) {
  std::erase_if(ranges, [](Range range) { return range.begin >= range.end; });
  std::sort(ranges.begin(), ranges.end());
  std::vector<Range> joined;
  for (Range range : ranges)
    if (!joined.empty() && range.begin < joined.back().end)
      joined.back().end = std::max(joined.back().end, range.end);
    else
      joined.push_back(range);
  return joined;
}

}  // namespace

bool CodeLayout::in_linkage_table(Address address) const {
  const auto above = std::upper_bound(linkage_tables.begin(), linkage_tables.end(), address,
                                      [](Address a, Range table) { return a < table.begin; });
  return above != linkage_tables.begin() && std::prev(above)->contains(address);
}

Address CodeLayout::next_linkage_table(Address address) const {
  const auto above = std::upper_bound(linkage_tables.begin(), linkage_tables.end(), address,
                                      [](Address a, Range table) { return a < table.begin; });
  return above != linkage_tables.end() ? above->begin : UINT64_MAX;
}

CodeLayout code_layout(const ElfFile& object, const ElfFile* debug,
                       std::span<const FrameEntry> frames) {
  CodeLayout layout;
  const bool use_debug = !object.has_section_headers() && debug != nullptr;
  const ElfFile& with_headers = use_debug ? *debug : object;
  if (with_headers.has_section_headers()) {
    for (const auto& section : with_headers.code_sections())
      layout.sections.push_back(section.range);
    std::sort(layout.sections.begin(), layout.sections.end());
    layout.linkage_tables = disjoint(with_headers.procedure_linkage_tables());
    return layout;
  }
  const Stubs stubs(object);
  std::vector<Range> tables;
  for (const FrameEntry& frame : frames)
    if (stubs.is_table(frame.code)) tables.push_back(frame.code);
  layout.linkage_tables = disjoint(std::move(tables));
  return layout;
}

}  // namespace pinprick::image
