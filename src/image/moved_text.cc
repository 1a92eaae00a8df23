#include "image/moved_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "base/machine.h"
#include "base/process_folder.h"

namespace pinprick::image {
namespace {

bool is_in_no_file(const Mapping& mapping) {
  return mapping.inode == 0 || mapping.deleted || is_anonymous_code(mapping);
}

// The kernel's own code has a name.
bool may_be_moved_text(const Mapping& mapping) {
  const bool is_kernels = mapping.inode == 0 && mapping.path.starts_with("[v");
  return mapping.executable && is_in_no_file(mapping) && !is_kernels;
}

// Returns whether one mapping after the other fills the range, each of which `accepts`.
template <class F>
bool fills(Range range, const std::vector<Mapping>& maps, F&& accepts) {
  Address at = range.begin;
  for (const Mapping& mapping : maps)
    if (mapping.range.contains(at) && accepts(mapping)) at = mapping.range.end;
  return at >= range.end;
}

Range pages_of(const Segment& segment, uint64_t bias) {
  return {align_down(segment.range.begin, kPageSize) + bias,
          align_up(segment.range.end, kPageSize) + bias};
}

// Does it hold the file's bytes? Spread over the segment, so that neither a page that is the same
// in every program nor one that has changed decides.
bool has_bytes_of(const ElfFile& elf, const Segment& segment, uint64_t bias,
                  const MemoryReader& reader) {
  constexpr uint64_t kPieces = 64, kPiece = 32;
  const uint64_t step = std::max(kPiece, segment.file_size / kPieces);
  uint64_t same = 0, pieces = 0;
  for (uint64_t at = 0; at < segment.file_size; at += step, ++pieces) {
    const Address begin = segment.range.begin + at;
    const auto in_file = elf.read(Range{begin, begin + std::min(kPiece, segment.file_size - at)});
    std::vector<uint8_t> in_memory(in_file.size());
    if (in_file.empty() || !reader(begin + bias, in_memory)) return false;
    same += in_file == in_memory ? 1 : 0;
  }
  return pieces != 0 && same >= pieces - pieces / 8;
}

// Returns the size of the pages that the mapping at `begin` consists of, from the text of smaps.
uint64_t page_size_at(Address begin, std::string_view smaps) {
  const std::string line = fmt::format("\n{:08x}-", begin);
  const auto entry = smaps.starts_with(std::string_view(line).substr(1)) ? 0 : smaps.find(line);
  if (entry == smaps.npos) return kPageSize;
  constexpr std::string_view kField = "KernelPageSize:";
  auto at = smaps.find(kField, entry);
  if (at == smaps.npos) return kPageSize;
  at = smaps.find_first_not_of(' ', at + kField.size());
  uint64_t kilobytes = 0;
  if (at != smaps.npos) std::from_chars(smaps.data() + at, smaps.data() + smaps.size(), kilobytes);
  return kilobytes << 10;
}

}  // namespace

std::optional<uint64_t> bias_by(const Mapping& mapping, const Segment& segment) {
  const uint64_t first = align_down(segment.offset, kPageSize);
  if (mapping.offset < first || mapping.offset >= segment.offset + segment.file_size)
    return std::nullopt;
  return mapping.range.begin -
         (align_down(segment.range.begin, kPageSize) + (mapping.offset - first));
}

bool may_have_moved_text(const std::vector<Mapping>& maps) {
  return std::any_of(maps.begin(), maps.end(), may_be_moved_text);
}

bool has_text_of(const ElfFile& elf, uint64_t bias, const std::vector<Mapping>& maps,
                 const MemoryReader& reader) {
  const auto is_code = [](const Mapping& mapping) { return mapping.executable; };
  bool any = false;
  for (const Segment& segment : elf.segments()) {
    if (!segment.executable || segment.file_size == 0) continue;
    any = true;
    if (!fills(pages_of(segment, bias), maps, is_code) || !has_bytes_of(elf, segment, bias, reader))
      return false;
  }
  return any;
}

std::optional<uint64_t> bias_of_moved(const ElfFile& elf, std::span<const Mapping> of_file,
                                      const std::vector<Mapping>& maps,
                                      const MemoryReader& reader) {
  for (const Mapping& mapping : of_file)
    for (const Segment& segment : elf.segments())
      // A page of the file may be mapped for two segments.
      if (const auto bias = bias_by(mapping, segment);
          bias && has_text_of(elf, *bias, maps, reader))
        return bias;
  return std::nullopt;
}

std::optional<Unwritable> why_unwritable(pid_t pid, const ElfFile& elf, uint64_t bias,
                                         const std::vector<Mapping>& maps) {
  std::optional<std::string> smaps;
  for (const Segment& segment : elf.segments()) {
    if (!segment.executable) continue;
    for (const Mapping& mapping : maps) {
      if (!mapping.executable || !mapping.range.overlaps(pages_of(segment, bias))) continue;
      if (mapping.shared && !mapping.writable) return Unwritable::shared;
      constexpr KernelVersion kWritesHugePages = {6, 14};
      if (!is_in_no_file(mapping) || kernel_version() >= kWritesHugePages) continue;
      if (!smaps) {
        auto text = read_process_file(pid, "smaps");
        smaps = text ? *std::move(text) : std::string();
      }
      if (page_size_at(mapping.range.begin, *smaps) > kPageSize) return Unwritable::huge_pages;
    }
  }
  return std::nullopt;
}

std::vector<Range> moved_text(const std::vector<Mapping>& maps) {
  std::vector<Range> found;
  for (size_t first = 1; first < maps.size(); ++first) {
    if (!may_be_moved_text(maps[first])) continue;
    size_t last = first;
    while (last + 1 < maps.size() && may_be_moved_text(maps[last + 1]) &&
           maps[last + 1].range.begin == maps[last].range.end)
      ++last;
    const Range text = {maps[first].range.begin, maps[last].range.end};
    const Mapping& before = maps[first - 1];
    if (last + 1 < maps.size() && before.range.end == text.begin &&
        maps[last + 1].range.begin == text.end && before.inode != 0 &&
        same_file(before, maps[last + 1]))
      found.push_back(text);
    first = last;
  }
  return found;
}

}  // namespace pinprick::image
