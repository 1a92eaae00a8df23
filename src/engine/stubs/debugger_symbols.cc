#include "engine/stubs/debugger_symbols.h"

#include <algorithm>
#include <iterator>

#include "arch/stub.h"

namespace pinprick::engine {
namespace {

// Each table ends with a length of 0.
constexpr size_t kTerminator = sizeof(uint32_t);

}  // namespace

std::optional<UnwindTablesCopy> unwind_tables(const target::Memory& memory,
                                              const layout::Session& journal) {
  constexpr uint64_t kMostTables = 64 << 20;  // the target's memory is not trusted
  for (const layout::MappingEntry& entry : journal.mappings) {
    arch::UnwindTablesHeader header;
    Address at = 0;
    if (entry.kind != layout::MappingEntry::Kind::stubs ||
        !memory.read_value(entry.address + arch::kUnwindTablesPointer, at) ||
        !memory.read_value(at, header) || header.magic != arch::kUnwindTablesMagic ||
        header.size > kMostTables || header.frames_size > header.size ||
        header.frames_size < kTerminator ||
        header.range_count > header.size / sizeof(arch::CoveredRange))
      continue;
    std::vector<arch::CoveredRange> ranges(header.range_count);
    std::vector<arch::RangeKind> measures(header.range_count);
    UnwindTablesCopy copy;
    copy.frames.resize(header.frames_size);
    const auto as_bytes = [](auto& values) {
      return std::span(reinterpret_cast<uint8_t*>(values.data()), values.size() * sizeof values[0]);
    };
    const Address headers = header.ranges + ranges.size() * sizeof ranges[0];
    if (!memory.read(header.ranges, as_bytes(ranges)) ||
        !memory.read(headers + ranges.size() * sizeof(arch::RangeHeader), as_bytes(measures)) ||
        !memory.read(header.frames, copy.frames))
      continue;
    for (size_t i = 0; i < ranges.size(); ++i)
      if (ranges[i].size != 0)
        copy.ranges.push_back({{ranges[i].begin, ranges[i].begin + ranges[i].size}, measures[i]});
    return copy;
  }
  return std::nullopt;
}

std::vector<uint8_t> debugger_symbols(std::span<const UnwindTablesCopy> copies) {
  std::vector<image::EmittedCode> code;
  std::vector<uint8_t> tables;
  for (const UnwindTablesCopy& copy : copies) {
    // Trampolines lie in the program's text, which has a name already.
    std::copy_if(
        copy.ranges.begin(), copy.ranges.end(), std::back_inserter(code),
        [](const image::EmittedCode& one) { return one.kind != arch::RangeKind::trampoline; });
    if (!tables.empty()) tables.resize(tables.size() - kTerminator);  // only the last one stays
    tables.insert(tables.end(), copy.frames.begin(), copy.frames.end());
  }
  return image::debugger_file(code, tables);
}

}  // namespace pinprick::engine
