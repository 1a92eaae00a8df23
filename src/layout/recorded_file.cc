#include "layout/recorded_file.h"

#include <algorithm>
#include <cstring>

namespace pinprick::layout {
namespace {

bool has_control_character(std::string_view name) {
  for (size_t i = 0; i < name.size(); ++i) {
    const auto byte = static_cast<unsigned char>(name[i]);
    if (byte <= ' ' || byte == 0x7f) return true;
    // In UTF-8 these are the controls from 0x80 to 0x9f, which terminals obey as well.
    if (byte == 0xc2 && i + 1 < name.size() && static_cast<unsigned char>(name[i + 1]) < 0xa0)
      return true;
  }
  return false;
}

}  // namespace

bool is_statistic_name(std::string_view name) {
  return !name.empty() && name.size() < kStatisticNameSize &&
         name.find('/') == std::string_view::npos && !has_control_character(name) && name != "." &&
         name != ".." && name != "_control" && !name.starts_with("GAP-");
}

bool is_valid(const RecordedHeader& header, uint64_t file_size) {
  return header.magic == kRecordedMagic && header.version == kRecordedVersion &&
         header.header_size == sizeof(RecordedHeader) && header.pid > 0 &&
         header.cpu_count <= kMaxCpus && header.end >= kPageSize && header.end <= file_size &&
         header.end % kPageSize == 0;
}

bool is_valid(const StatisticHeader& statistic, const RecordedHeader& header, uint64_t offset) {
  using State = StatisticHeader::State;
  if (statistic.fraction_bits > stats::kMaxFractionBits ||
      statistic.size != statistic_size(statistic.fraction_bits, header.cpu_count) ||
      offset > header.end || statistic.size > header.end - offset)
    return false;
  if (statistic.state == State::free) return true;
  return statistic.state == State::used && baseline_of(statistic.control) <= 2 &&
         is_statistic_name(name_of(statistic));
}

std::string_view name_of(const StatisticHeader& statistic) {
  const char* const end = std::find(statistic.name, std::end(statistic.name), '\0');
  return {statistic.name, static_cast<size_t>(end - statistic.name)};
}

}  // namespace pinprick::layout
