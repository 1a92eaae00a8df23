#include "layout/session_file.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "layout/recorded_file.h"

namespace pinprick::layout {
namespace {

// Limits that no session comes near. They keep sums of products far from overflowing.
constexpr uint64_t kMaxEntries = uint64_t{1} << 24;
constexpr uint64_t kMaxNames = uint64_t{1} << 30;
constexpr uint64_t kMaxTables = uint64_t{1} << 30;  // readers copy them, and a file may be sparse
constexpr uint64_t kMaxArea = uint64_t{1} << 40;
constexpr uint32_t kMaxCpuCount = 1 << 13;
constexpr uint64_t kMaxPool = uint64_t{1} << 50;
constexpr uint64_t kMaxFile = uint64_t{1} << 62;

template <class T>
bool section_fits(const Section& section, uint64_t end, uint64_t most = kMaxEntries) {
  return section.count <= most && section.offset >= sizeof(FileHeader) && section.offset <= end &&
         section.count * sizeof(T) <= end - section.offset;
}

template <class T>
std::vector<T> copy_section(std::span<const uint8_t> bytes, const Section& section) {
  std::vector<T> entries(section.count);
  if (section.count != 0)
    std::memcpy(entries.data(), bytes.data() + section.offset, section.count * sizeof(T));
  return entries;
}

// Readers copy each section, so sections that share bytes would take more memory than the file has.
// Each one lies after the header, and before `end`, by itself.
bool sections_fit_together(const FileHeader& header, uint64_t end) {
  const uint64_t sum =
      header.mappings.count * sizeof(MappingEntry) + header.objects.count * sizeof(ObjectEntry) +
      header.sites.count * sizeof(SiteEntry) + header.probes.count * sizeof(ProbeEntry) +
      header.functions.count * sizeof(FunctionEntry) + header.spans.count * sizeof(SpanEntry) +
      header.switches.count * sizeof(SwitchEntry) +
      header.semaphores.count * sizeof(SemaphoreEntry) +
      header.point_sites.count * sizeof(PointSiteEntry) + header.names.count;
  return sum <= end - sizeof(FileHeader);
}

bool pool_fits(const FileHeader& header) {
  if (header.pool_offset == 0) return header.histogram_count == 0 && header.pool_size == 0;
  return header.pool_offset % kPageSize == 0 && header.pool_offset <= header.file_size &&
         header.pool_size <= kMaxPool &&
         end_of_blocks(header, header.pool_size) <= header.file_size;
}

bool extremes_fit(const FileHeader& header) {
  if (header.extremes_offset == 0) return true;
  return header.extremes_offset % kPageSize == 0 && header.extremes_offset <= header.file_size &&
         extremes_size(header) <= header.file_size - header.extremes_offset;
}

bool keys_fit(const FileHeader& header) {
  if (header.keys_offset == 0) return header.key_log2 == 0 && header.has_key_times == 0;
  return header.key_log2 != 0 && header.key_log2 <= kMostKeyLog2 &&
         header.keys_offset % kPageSize == 0 && header.keys_offset <= header.file_size &&
         key_count(header) * sizeof(KeyEntry) <= header.file_size - header.keys_offset;
}

bool texts_fit(const FileHeader& header) {
  if (header.texts_offset == 0) return header.text_log2 == 0;
  return header.text_log2 != 0 && header.text_log2 <= kMostKeyLog2 &&
         header.texts_offset % kPageSize == 0 && header.texts_offset <= header.file_size &&
         texts_size(header.text_log2) <= header.file_size - header.texts_offset;
}

}  // namespace

std::optional<uint64_t> block_at(const FileHeader& header, uint64_t offset,
                                 uint32_t fraction_bits) {
  const uint64_t from = offset - PP_POOL_BLOCKS;
  const uint64_t size = histogram_size(fraction_bits);
  if (offset < PP_POOL_BLOCKS || offset % kBlockAlignment != 0 || size > header.pool_size ||
      from > header.pool_size - size)
    return std::nullopt;
  return header.pool_offset + offset;
}

FileHeader lay_out(const SessionCounts& counts) {
  FileHeader header;
  header.header_size = sizeof(FileHeader);
  header.cpu_count = counts.cpus;
  header.fraction_bits = counts.fraction_bits;
  header.counter_count = counts.counters;
  header.histogram_count = counts.histograms;
  uint64_t at = align_up(sizeof(FileHeader), 64);
  const auto place = [&](Section& section, uint64_t count, uint64_t entry_size) {
    section = {at, count};
    at = align_up(at + count * entry_size, 64);
  };
  place(header.mappings, counts.mappings, sizeof(MappingEntry));
  place(header.objects, counts.objects, sizeof(ObjectEntry));
  place(header.sites, counts.sites, sizeof(SiteEntry));
  place(header.probes, counts.probes, sizeof(ProbeEntry));
  at = align_up(at, kPageSize);
  place(header.functions, counts.functions, sizeof(FunctionEntry));
  place(header.spans, counts.spans, sizeof(SpanEntry));
  place(header.switches, counts.switches, sizeof(SwitchEntry));
  place(header.semaphores, counts.semaphores, sizeof(SemaphoreEntry));
  place(header.point_sites, counts.point_sites, sizeof(PointSiteEntry));
  place(header.names, counts.name_bytes, 1);
  header.areas_offset = align_up(at, kPageSize);
  header.gap = counts.gap;
  header.key_log2 = counts.key_log2;
  const uint64_t keys = key_count(header);
  header.has_sums = counts.has_sums ? 1 : 0;
  header.has_key_times = counts.has_key_times ? 1 : 0;
  header.text_log2 = counts.text_log2;
  header.has_unread = counts.has_unread ? 1 : 0;
  header.event_log2 = counts.event_log2;
  header.rings = counts.rings;
  header.area_size = align_up(end_of_area(header), kPageSize);
  at = area_offset(header, uint64_t{counts.cpus} + 1);
  header.loader_handshake_offset = counts.loader_handshake ? at : 0;
  if (counts.loader_handshake) at += kPageSize;
  header.exec_handshake_offset = counts.exec_handshake ? at : 0;
  if (counts.exec_handshake) at += kPageSize;
  header.keys_offset = keys != 0 ? at : 0;
  at = align_up(at + keys * sizeof(KeyEntry), kPageSize);
  header.extremes_offset = counts.has_extremes ? at : 0;
  if (counts.has_extremes) at = align_up(at + extremes_size(header), kPageSize);
  header.texts_offset = header.text_log2 != 0 ? at : 0;
  at = align_up(at + texts_size(header.text_log2), kPageSize);
  header.pool_size = counts.pool_size;
  header.pool_offset = counts.pool_size != 0 ? at : 0;
  if (counts.pool_size != 0) at = align_up(end_of_blocks(header, counts.pool_size), kPageSize);
  header.file_size = at;
  return header;
}

std::vector<uint32_t> Session::cells_of_probes() const {
  std::vector<uint32_t> cells;
  cells.reserve(probes.size());
  uint32_t counters = 0, histograms = 0;
  for (const ProbeEntry& probe : probes)
    cells.push_back(probe.has_counter() ? counters++ : probe.has_histogram() ? histograms++ : 0);
  return cells;
}

std::vector<uint32_t> Session::probes_of_histograms() const {
  std::vector<uint32_t> owners;
  for (uint32_t i = 0; i < probes.size(); ++i)
    if (probes[i].has_histogram()) owners.push_back(i);
  return owners;
}

ProbeName Session::probe_name(size_t probe) const {
  const auto above = std::upper_bound(
      functions.begin(), functions.end(), probe,
      [](size_t index, const FunctionEntry& function) { return index < function.first_probe; });
  if (above == functions.begin() || probe >= probes.size()) return {"?", 0};
  const FunctionEntry& function = *std::prev(above);
  const ProbeEntry& entry = probes[probe];
  return {name(function.name),
          sites[entry.site].address + entry.offset - function.begin,
          name(function.value),
          name(function.condition),
          function.is_point != 0,
          (function.is_signed & 1) != 0,
          entry.at_return != 0,
          name(function.sum),
          (function.is_signed & 2) != 0,
          adds_reals(function),
          name(function.key),
          (function.is_signed & 4) != 0,
          (function.is_signed & 128) != 0,
          (function.is_signed & 8) != 0,
          (function.is_signed & 16) != 0,
          (function.is_signed & 32) != 0 ? function.key_parts : KeyParts()};
}

std::string_view Session::name(uint64_t offset) const {
  if (offset >= names.size()) return "?";
  const auto begin = names.begin() + static_cast<ptrdiff_t>(offset);
  const auto end = std::find(begin, names.end(), '\0');
  return end == names.end() ? std::string_view("?")
                            : std::string_view(&*begin, static_cast<size_t>(end - begin));
}

std::optional<ParseError> check_header(const FileHeader& header, uint64_t file_size) {
  if (header.magic != kFileMagic) return ParseError::not_a_session;
  if (header.version != kFileVersion || header.header_size != sizeof(FileHeader))
    return ParseError::version;
  if (header.file_size > file_size) return ParseError::truncated;
  const uint64_t tables_end = header.areas_offset;
  const uint64_t areas_end = header.pool_offset != 0 ? header.pool_offset : header.file_size;
  const bool sane =
      header.file_size <= kMaxFile && header.cpu_count >= 1 && header.cpu_count <= kMaxCpuCount &&
      header.fraction_bits <= stats::kMaxFractionBits && header.area_size <= kMaxArea &&
      header.areas_offset <= areas_end && areas_end <= header.file_size &&
      header.areas_offset <= kMaxTables && header.areas_offset % kPageSize == 0 &&
      header.area_size % kPageSize == 0 &&
      section_fits<char>(header.names, tables_end, kMaxNames) &&
      section_fits<MappingEntry>(header.mappings, tables_end) &&
      section_fits<ObjectEntry>(header.objects, tables_end) &&
      section_fits<SiteEntry>(header.sites, tables_end) &&
      section_fits<ProbeEntry>(header.probes, tables_end) &&
      section_fits<FunctionEntry>(header.functions, tables_end) &&
      section_fits<SpanEntry>(header.spans, tables_end, kMostSpans) &&
      section_fits<SwitchEntry>(header.switches, tables_end) &&
      section_fits<SemaphoreEntry>(header.semaphores, tables_end) &&
      section_fits<PointSiteEntry>(header.point_sites, tables_end) &&
      sections_fit_together(header, tables_end) &&
      (header.switches.count == 0 || header.switches.count == header.probes.count) &&
      header.counter_count <= header.probes.count && header.gap <= Gap::thread &&
      (header.is_kept == 0 || header.histogram_count <= 2) &&
      header.histogram_count >= (header.gap == Gap::none ? 0 : 1) &&
      header.spans.count <= metric_count(header) && first_span_of(header) <= header.probes.count &&
      keys_fit(header) && extremes_fit(header) && texts_fit(header) &&
      (header.event_log2 == 0 || header.event_log2 >= kLeastEventLog2) &&
      header.event_log2 <= kMostEventLog2 && header.rings <= EventRings::newest_after_trigger &&
      end_of_area(header) <= header.area_size &&
      (uint64_t{header.cpu_count} + 1) * header.area_size <= areas_end - header.areas_offset &&
      (header.loader_handshake_offset == 0 ||
       (header.loader_handshake_offset % kPageSize == 0 &&
        header.loader_handshake_offset <= header.file_size &&
        sizeof(LoaderHandshake) <= header.file_size - header.loader_handshake_offset)) &&
      (header.exec_handshake_offset == 0 ||
       (header.exec_handshake_offset % kPageSize == 0 &&
        header.exec_handshake_offset <= header.file_size &&
        sizeof(ExecHandshake) <= header.file_size - header.exec_handshake_offset)) &&
      pool_fits(header);
  if (!sane) return ParseError::inconsistent;
  switch (header.state) {
    case SessionState::preparing:
    case SessionState::armed:
    case SessionState::disarmed:
      return std::nullopt;
  }
  return ParseError::inconsistent;
}

std::optional<ParseError> parse_session(std::span<const uint8_t> bytes, uint64_t file_size,
                                        Session& out) {
  if (bytes.size() < sizeof(FileHeader)) return ParseError::truncated;
  std::memcpy(&out.header, bytes.data(), sizeof(FileHeader));
  const FileHeader& header = out.header;
  if (auto error = check_header(header, file_size)) return error;
  if (bytes.size() < header.areas_offset) return ParseError::truncated;
  out.mappings = copy_section<MappingEntry>(bytes, header.mappings);
  out.objects = copy_section<ObjectEntry>(bytes, header.objects);
  out.sites = copy_section<SiteEntry>(bytes, header.sites);
  out.probes = copy_section<ProbeEntry>(bytes, header.probes);
  out.functions = copy_section<FunctionEntry>(bytes, header.functions);
  out.spans = copy_section<SpanEntry>(bytes, header.spans);
  out.switches = copy_section<SwitchEntry>(bytes, header.switches);
  out.semaphores = copy_section<SemaphoreEntry>(bytes, header.semaphores);
  out.point_sites = copy_section<PointSiteEntry>(bytes, header.point_sites);
  out.names = copy_section<char>(bytes, header.names);

  const bool sites_ok = std::all_of(out.sites.begin(), out.sites.end(), [](const SiteEntry& site) {
    const bool is_jump = site.length == kShortSiteLength || site.length >= kLongSiteLength;
    return is_jump && site.length <= kMaxSiteLength && site.own > 0 && site.own <= site.length &&
           static_cast<uint8_t>(site.phase) < kPhases && site.link <= SiteEntry::Link::at_start;
  });
  using Kind = ProbeEntry::Kind;
  const bool probes_ok =
      std::all_of(out.probes.begin(), out.probes.end(), [&](const ProbeEntry& probe) {
        return probe.kind >= Kind::count && probe.kind <= Kind::event &&
               (probe.at_return == 0 || probe.kind != Kind::span) &&
               probe.object < out.objects.size() && probe.site < out.sites.size() &&
               probe.offset < out.sites[probe.site].displaced;
      });
  const auto probes_with = [&](auto what) {
    return static_cast<uint64_t>(
        std::count_if(out.probes.begin(), out.probes.end(),
                      [&](const ProbeEntry& probe) { return (probe.*what)(); }));
  };
  const bool cells_ok =
      probes_with(&ProbeEntry::has_counter) <= header.counter_count &&
      probes_with(&ProbeEntry::has_histogram) + out.spans.size() <= metric_count(header);
  const bool spans_ok = std::all_of(out.spans.begin(), out.spans.end(), [&](const SpanEntry& span) {
    return span.start < out.probes.size() && span.end < out.probes.size();
  });
  const bool mappings_ok =
      std::all_of(out.mappings.begin(), out.mappings.end(), [](const MappingEntry& mapping) {
        using Mapping = MappingEntry::Kind;
        return mapping.address % kPageSize == 0 && mapping.size % kPageSize == 0 &&
               mapping.address + mapping.size >= mapping.address &&
               mapping.kind >= Mapping::scratch && mapping.kind <= Mapping::islands;
      });
  const bool semaphores_ok =
      std::all_of(out.semaphores.begin(), out.semaphores.end(), [&](const SemaphoreEntry& one) {
        return one.object < out.objects.size() && one.progress <= SemaphoreEntry::Progress::lowered;
      });
  const bool point_sites_ok =
      std::all_of(out.point_sites.begin(), out.point_sites.end(), [&](const PointSiteEntry& one) {
        return one.semaphore < out.semaphores.size() &&
               one.address % kPageSize <= kPageSize - kLongSiteLength;
      });
  // Names are shown, and are names of files.
  if (header.is_kept != 0 && !is_statistic_name(out.name(header.statistic)))
    return ParseError::inconsistent;
  if (!sites_ok || !probes_ok || !cells_ok || !spans_ok || !mappings_ok || !semaphores_ok ||
      !point_sites_ok)
    return ParseError::inconsistent;
  return std::nullopt;
}

}  // namespace pinprick::layout
