#include "image/object.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/task.h"
#include "image/code_scan.h"
#include "image/debug_file.h"
#include "image/demangle.h"
#include "image/language_runtime.h"

namespace pinprick::image {
namespace {

// More memory than any function, or the data that programs begin with, takes. A .bss may be of any
// size, and so may whatever a hostile file claims.
constexpr uint64_t kLargestFunction = uint64_t{64} << 20;
constexpr uint64_t kLargestZeroed = uint64_t{256} << 20;

}  // namespace

Object::Object(ElfFile elf, uint64_t bias, std::vector<std::string> names, std::string path,
               std::string root, MemoryReader reader)
    : elf_(std::move(elf)),
      bias_(bias),
      names_(std::move(names)),
      path_(std::move(path)),
      root_(std::move(root)),
      reader_(std::move(reader)) {}

Range Object::extent() const {
  const Range own = elf_.extent();
  return {own.begin + bias_, own.end + bias_};
}

std::vector<Range> Object::executable_ranges() const {
  std::vector<Range> ranges;
  for (const Segment& segment : elf_.segments())
    if (segment.executable)
      ranges.push_back({segment.range.begin + bias_, segment.range.end + bias_});
  return ranges;
}

const std::vector<FrameEntry>& Object::frames() {
  if (!frames_) {
    const auto section = elf_.eh_frame();
    frames_ = section ? parse_eh_frame(section->data, section->address) : std::vector<FrameEntry>();
  }
  return *frames_;
}

const FunctionTable& Object::functions() {
  if (!functions_) {
    symbols_ = elf_.symtab();
    if (symbols_.empty()) {
      debug_ = find_debug_file(elf_, root_, path_);
      if (!debug_) debug_ = embedded_debug_file(elf_);
      if (debug_) symbols_ = debug_->symtab();
    }
    const auto dynamic = elf_.dynamic_symbols();
    symbols_.insert(symbols_.end(), dynamic.begin(), dynamic.end());
    functions_ = FunctionTable::build(elf_, symbols_, frames());
  }
  return *functions_;
}

const std::vector<Relocation>& Object::relocations() {
  if (!relocations_) relocations_ = elf_.relocations();
  return *relocations_;
}

std::string_view Object::imported_at(Address address) {
  if (!imports_) {
    imports_.emplace();
    for (const Relocation& relocation : relocations())
      if (relocation.kind == Relocation::Kind::symbol && !relocation.symbol.empty())
        imports_->emplace_back(relocation.address, relocation.symbol);
    std::sort(imports_->begin(), imports_->end());
  }
  const auto found =
      std::lower_bound(imports_->begin(), imports_->end(), std::pair(address, std::string_view()));
  return found != imports_->end() && found->first == address ? found->second : std::string_view();
}

std::optional<std::string_view> Object::stack_reading_runtime() {
  if (!stack_reading_runtime_) {
    functions();  // which finds the debug file
    stack_reading_runtime_ = image::stack_reading_runtime(elf_, debug_ ? &*debug_ : nullptr);
  }
  return *stack_reading_runtime_;
}

std::vector<Address> Object::landing_pads(size_t most) {
  constexpr uint64_t kLongest = 1024;  // of a table that is worth it
  std::vector<Address> all;
  for (const FrameEntry& frame : frames()) {
    if (frame.lsda == 0) continue;
    if (most-- == 0) break;
    for (const Segment& segment : elf_.segments()) {
      if (!segment.range.contains(frame.lsda)) continue;
      std::vector<uint8_t> table(std::min(kLongest, segment.range.end - frame.lsda));
      if (!read(frame.lsda + bias_, table)) break;
      const auto pads = parse_landing_pads(table, frame.lsda, frame.code);
      all.insert(all.end(), pads.begin(), pads.end());
    }
  }
  return all;
}

bool Object::read(Address address, std::span<uint8_t> out) const {
  if (reader_) return reader_(address, out);
  const auto bytes = elf_.read({address - bias_, address - bias_ + out.size()});
  if (bytes.size() != out.size()) return false;
  std::copy(bytes.begin(), bytes.end(), out.begin());
  return true;
}

// A segment's memory; shorter where its end is not readable, or is a huge .bss, or from a file is
// any: addresses of code that lie there have been somewhere else before.
Object::SegmentBytes Object::segment_bytes(const Segment& segment) const {
  SegmentBytes out = {segment.range.begin, {}};
  if (!reader_) {
    out.bytes = elf_.read(segment.range);
    return out;
  }
  const bool whole = segment.range.size() - segment.file_size <= kLargestZeroed;
  for (uint64_t size : {whole ? segment.range.size() : segment.file_size, segment.file_size}) {
    out.bytes.resize(size);
    if (reader_(segment.range.begin + bias_, out.bytes)) return out;
  }
  out.bytes.clear();
  return out;
}

const std::vector<Object::SegmentBytes>& Object::text() {
  if (!text_) {
    text_.emplace();
    for (const Segment& segment : elf_.segments())
      if (segment.executable) text_->push_back(segment_bytes(segment));
  }
  return *text_;
}

std::span<const uint8_t> Object::code(const Function& function) {
  if (function.limit - function.range.begin > kLargestFunction) return {};
  for (const SegmentBytes& segment : text()) {
    const Range range = {segment.address, segment.address + segment.bytes.size()};
    if (range.contains(function.range.begin) && function.limit <= range.end)
      return std::span(segment.bytes)
          .subspan(function.range.begin - range.begin, function.limit - function.range.begin);
  }
  return {};
}

std::span<const uint8_t> Object::code_from(Address address) {
  for (const SegmentBytes& segment : text())
    if (address - segment.address < segment.bytes.size())
      return std::span(segment.bytes).subspan(address - segment.address);
  return {};
}

void Object::scan_code() {
  std::vector<SegmentBytes> data;
  for (const Segment& segment : elf_.segments())
    if (!segment.executable) data.push_back(segment_bytes(segment));
  ObjectBytes object;
  object.bias = reader_ ? bias_ : 0;
  object.fixed_addresses = !elf_.position_independent();
  for (const SegmentBytes& segment : text())
    object.text.push_back({segment.address, segment.bytes});
  for (const SegmentBytes& segment : data) object.data.push_back({segment.address, segment.bytes});
  std::vector<Address> landing_pads;
  const auto add_landing_pads = [&](const FrameEntry& frame, const CodeBytes& part) {
    if (!part.range().contains(frame.lsda)) return;
    const auto table = part.bytes.subspan(frame.lsda - part.address);
    const auto pads = parse_landing_pads(table, frame.lsda, frame.code);
    landing_pads.insert(landing_pads.end(), pads.begin(), pads.end());
  };
  for (const FrameEntry& frame : frames()) {
    check_cancelled();
    if (frame.lsda == 0) continue;
    for (const CodeBytes& part : object.data) add_landing_pads(frame, part);
    for (const CodeBytes& part : object.text) add_landing_pads(frame, part);
  }
  targets_ = find_branch_targets(object, functions(), relocations(), landing_pads);
  reserved_ = find_restartable_sequences(object, relocations());
}

const BranchTargets& Object::targets() {
  if (!targets_) scan_code();
  return *targets_;
}

const std::vector<Range>& Object::reserved() {
  if (!targets_) scan_code();
  return reserved_;
}

std::string_view Object::function_name(const Function& function, std::string_view symbol) {
  if (symbol.empty()) {
    const auto [known, is_new] = without_symbol_.try_emplace(function.range.begin);
    if (is_new) known->second = fmt::format("{}+{:#x}", name(), function.range.begin);
    return known->second;
  }
  if (const auto known = demangled_.find(symbol.data()); known != demangled_.end())
    return known->second;
  std::string shown = demangle(symbol);
  if (shown == symbol) return symbol;
  return demangled_.emplace(symbol.data(), std::move(shown)).first->second;
}

}  // namespace pinprick::image
