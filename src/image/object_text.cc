// The text of an Object, and its other bytes: from the file while the process has not changed it,
// else from memory.
#include <algorithm>
#include <cstring>
#include <utility>

#include "image/object.h"

namespace pinprick::image {
namespace {

// More than any function, or the data that a program starts with, takes. A .bss may have any size,
// and so may anything in a hostile file.
constexpr uint64_t kLargestFunction = uint64_t{64} << 20;
constexpr uint64_t kLargestZeroed = uint64_t{256} << 20;

bool has_all_text(const ObjectText& text) {
  return std::none_of(text.begin(), text.end(),
                      [](const SegmentBytes& segment) { return segment.bytes.empty(); });
}

}  // namespace

// Is all of the text that of the file, unless the process has written to it?
bool Object::has_text_of_file() const {
  const auto& segments = elf_.segments();
  return !elf_.has_text_relocations() &&
         std::none_of(segments.begin(), segments.end(), [](const Segment& segment) {
           return segment.executable &&
                  (segment.writable || segment.file_size != segment.range.size());
         });
}

// Is the text in memory that of the files which contents() hashed? Asked once: from then on, text
// is read from the file, as long as the file stays as it is.
bool Object::is_text_of_file() {
  if (is_text_of_file_) return *is_text_of_file_;
  const auto& segments = elf_.segments();
  return *(is_text_of_file_ = contents() && has_text_of_file() && are_files_unchanged() &&
                              std::all_of(segments.begin(), segments.end(),
                                          [&](const Segment& segment) {
                                            return !segment.executable ||
                                                   is_in_memory_as_in_file(segment);
                                          }) &&
                              are_files_unchanged());
}

// Only pages that the process has written to may differ, and only those are read.
bool Object::is_in_memory_as_in_file(const Segment& segment) const {
  if (!reader_) return true;
  const Range memory = {segment.range.begin + bias_, segment.range.end + bias_};
  const auto own = own_pages_ ? own_pages_(memory) : std::nullopt;
  return own && std::all_of(own->begin(), own->end(), [&](const Range& pages) {
           constexpr uint64_t kAtOnce = 64 << 10;
           const Range part = {std::max(pages.begin, memory.begin),
                               std::min(pages.end, memory.end)};
           std::vector<uint8_t> there, in_file;
           for (Address at = part.begin; at < part.end; at += there.size()) {
             there.resize(std::min(kAtOnce, part.end - at));
             in_file.resize(there.size());
             if (!reader_(at, there) ||
                 !elf_.read({segment.offset + (at - memory.begin), there.size()}, in_file) ||
                 there != in_file)
               return false;
           }
           return true;
         });
}

bool Object::read(Address address, std::span<uint8_t> out) const {
  if (reader_) return reader_(address, out);
  const auto bytes = elf_.read({address - bias_, address - bias_ + out.size()});
  if (bytes.size() != out.size()) return false;
  std::copy(bytes.begin(), bytes.end(), out.begin());
  return true;
}

// Returns a segment's memory. The .bss is left out if it is not readable or huge, and for a file:
// words there that are addresses of code were copied from elsewhere. Returns nothing of a segment
// that is larger than any real one: a file with holes can be as large as its owner likes.
SegmentBytes Object::segment_bytes(const Segment& segment, From from) const {
  SegmentBytes out = {segment.range.begin, nullptr, {}};
  if (segment.file_size > kLargestCopied) return out;
  const auto take = [&](uint64_t size, auto&& fill) {
    out.storage = std::make_unique_for_overwrite<uint8_t[]>(size);
    const std::span<uint8_t> bytes(out.storage.get(), size);
    if (fill(bytes)) out.bytes = bytes;
    return !out.bytes.empty();
  };
  if (!reader_ || from == From::file) {
    take(segment.file_size, [&](std::span<uint8_t> bytes) {
      return elf_.read({segment.offset, bytes.size()}, bytes);
    });
    return out;
  }
  const bool whole = segment.range.size() - segment.file_size <= kLargestZeroed;
  for (uint64_t size : {whole ? segment.range.size() : segment.file_size, segment.file_size})
    if (take(size,
             [&](std::span<uint8_t> bytes) { return reader_(segment.range.begin + bias_, bytes); }))
      break;
  return out;
}

std::shared_ptr<const ObjectText> Object::read_text(From from) const {
  ObjectText text;
  for (const Segment& segment : elf_.segments())
    if (segment.executable) text.push_back(segment_bytes(segment, from));
  return std::make_shared<const ObjectText>(std::move(text));
}

// Takes the bytes in memory if the file cannot be read any more, or changes while it is read: text
// that is missing would mean to a caller that nothing is there.
std::shared_ptr<const ObjectText> Object::find_text() {
  if (!is_text_of_file()) return read_text(From::memory);
  if (auto known = store_->recall_text(*hashed_)) return known;
  auto text = read_text(From::file);
  if (has_all_text(*text) && are_files_unchanged()) {
    store_->remember_text(*hashed_, text);
    return text;
  }
  is_text_of_file_ = false;
  return read_text(From::memory);
}

const ObjectText& Object::text() {
  if (const ObjectText* const known = known_text_.load(std::memory_order_acquire)) return *known;
  const std::lock_guard lock(text_mutex_);
  if (text_ == nullptr) known_text_.store((text_ = find_text()).get(), std::memory_order_release);
  return *text_;
}

void Object::load_text() {
  text();
}

std::span<const uint8_t> Object::code(const Function& function) {
  if (function.limit - function.range.begin > kLargestFunction) return {};
  return code_at({function.range.begin, function.limit});
}

std::span<const uint8_t> Object::code_at(Range range) {
  if (known_text_.load(std::memory_order_acquire) == nullptr)
    if (const auto part = part_of_file(range)) return *part;
  for (const SegmentBytes& segment : text())
    if (Range{segment.address, segment.address + segment.bytes.size()}.contains(range))
      return segment.bytes.subspan(range.begin - segment.address, range.size());
  return {};
}

// Reads no more of the text than this. Returns nullopt if the whole text has to be asked.
std::optional<std::span<const uint8_t>> Object::part_of_file(Range range) {
  const std::lock_guard lock(text_mutex_);
  if (!is_text_of_file()) return std::nullopt;
  const auto above = parts_of_text_.upper_bound({range.begin, ~Address{0}});
  if (above != parts_of_text_.begin()) {
    const auto& [part, bytes] = *std::prev(above);
    if (part.contains(range))
      return std::span(bytes).subspan(range.begin - part.begin, range.size());
  }
  const auto& segments = elf_.segments();
  const auto segment = std::find_if(segments.begin(), segments.end(), [&](const Segment& one) {
    return one.executable && one.range.contains(range);
  });
  if (segment == segments.end()) return std::nullopt;
  std::vector<uint8_t> bytes(range.size());
  if (!elf_.read({segment->offset + (range.begin - segment->range.begin), bytes.size()}, bytes) ||
      !are_files_unchanged())
    return std::nullopt;
  return parts_of_text_.emplace(range, std::move(bytes)).first->second;
}

std::span<const uint8_t> Object::code_from(Address address) {
  for (const SegmentBytes& segment : text())
    if (address - segment.address < segment.bytes.size())
      return std::span(segment.bytes).subspan(address - segment.address);
  return {};
}

}  // namespace pinprick::image
