#include "layout/session_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "stats/histogram.h"

namespace pinprick::layout {
namespace {

constexpr uint64_t kBlock = histogram_size(3), kBlocks = 7;
constexpr SessionCounts kCounts = {.mappings = 3,
                                   .objects = 2,
                                   .sites = 4,
                                   .probes = 5,
                                   .functions = 2,
                                   .spans = 2,
                                   .switches = 5,
                                   .semaphores = 2,
                                   .point_sites = 2,
                                   .counters = 5,
                                   .histograms = 4,
                                   .pool_size = kBlocks * kBlock,
                                   .name_bytes = 64,
                                   .cpus = 4,
                                   .fraction_bits = 3};

// A session as a controller writes it.
struct Sample {
  FileHeader header = lay_out(kCounts);
  std::vector<MappingEntry> mappings;
  std::vector<ObjectEntry> objects;
  std::vector<SiteEntry> sites;
  std::vector<ProbeEntry> probes;
  std::vector<FunctionEntry> functions;
  std::vector<SpanEntry> spans;
  std::vector<SwitchEntry> switches = {{-90, -5}, {-40, 0}, {-41, -5, 0}, {-50, 0}, {16, 60}};
  std::vector<SemaphoreEntry> semaphores = {
      {0x5555'4028, 1, 0, SemaphoreEntry::Progress::raised},
      {0x5555'402a, 1, 7, SemaphoreEntry::Progress::lowering}};
  std::vector<PointSiteEntry> point_sites = {{0x5555'1100, 0x200, 1}, {0x5555'1200, -0x80, 1}};
  std::vector<char> names;

  Sample() {
    header.state = SessionState::armed;
    header.pid = 4242;
    constexpr auto kMapped = MappingEntry::Progress::mapped;
    mappings = {{0x7000'0000, 0x10000, MappingEntry::Kind::tables, kMapped},
                {0x7001'0000, 0x20000, MappingEntry::Kind::areas, kMapped},
                {0x7100'0000, 0x1000, MappingEntry::Kind::stubs, {}}};
    const std::string text = std::string("libfoo.so\0read\0write\0", 21);
    names.assign(text.begin(), text.end());
    names.resize(kCounts.name_bytes);
    functions = {{0x5555'1000, 0, 10}, {0x5555'0ffe, 3, 15}};
    spans = {{4, 3, 10}, {3, 3, 15}};
    objects.resize(kCounts.objects);
    objects[1].bias = 0x5555'0000;
    for (uint64_t i = 0; i < kCounts.sites; ++i) {
      SiteEntry site;
      site.address = 0x5555'1000 + i * 64;
      site.length = site.own = 5;
      site.displaced = 7;
      site.copy_distance = -0x2000;
      site.original[0] = static_cast<uint8_t>(0x50 + i);
      site.jump = 0x1000;
      sites.push_back(site);
    }
    for (uint32_t i = 0; i < kCounts.probes; ++i) {
      ProbeEntry probe;
      probe.object = static_cast<uint16_t>(i % 2);
      probe.site = i % 4;
      probe.offset = i < 4 ? 0 : 6;
      probe.copy_offset = i < 4 ? 0 : 60;
      probe.kind = i < 2 ? ProbeEntry::Kind::latency : ProbeEntry::Kind::count;
      probes.push_back(probe);
    }
  }

  std::vector<uint8_t> bytes() const {
    std::vector<uint8_t> out(header.areas_offset);
    std::memcpy(out.data(), &header, sizeof header);
    put(out, header.mappings, mappings);
    put(out, header.objects, objects);
    put(out, header.sites, sites);
    put(out, header.probes, probes);
    put(out, header.functions, functions);
    put(out, header.spans, spans);
    put(out, header.switches, switches);
    put(out, header.semaphores, semaphores);
    put(out, header.point_sites, point_sites);
    put(out, header.names, names);
    return out;
  }
  std::optional<ParseError> parse(Session& out) const {
    return parse_session(bytes(), header.file_size, out);
  }

 private:
  template <class T>
  static void put(std::vector<uint8_t>& out, const Section& section,
                  const std::vector<T>& entries) {
    std::memcpy(out.data() + section.offset, entries.data(), entries.size() * sizeof(T));
  }
};

std::vector<Range> table_ranges(const FileHeader& header) {
  const auto range = [](const Section& section, uint64_t size) {
    return Range{section.offset, section.offset + section.count * size};
  };
  return {{0, sizeof(FileHeader)},
          range(header.mappings, sizeof(MappingEntry)),
          range(header.objects, sizeof(ObjectEntry)),
          range(header.sites, sizeof(SiteEntry)),
          range(header.probes, sizeof(ProbeEntry)),
          range(header.functions, sizeof(FunctionEntry)),
          range(header.spans, sizeof(SpanEntry)),
          range(header.switches, sizeof(SwitchEntry)),
          range(header.semaphores, sizeof(SemaphoreEntry)),
          range(header.point_sites, sizeof(PointSiteEntry)),
          range(header.names, 1),
          {header.areas_offset, header.file_size}};
}

TEST(LayOut, PlacesTablesInOrderWithoutOverlap) {
  for (uint64_t probes : {0u, 1u, 127u, 40'000u}) {
    SessionCounts counts = kCounts;
    counts.sites = counts.probes = counts.counters = counts.histograms = probes;
    counts.switches = probes;
    counts.spans = std::min(probes, kMostSpans);
    const FileHeader header = lay_out(counts);
    const auto ranges = table_ranges(header);
    for (size_t i = 1; i < ranges.size(); ++i) {
      EXPECT_LE(ranges[i - 1].end, ranges[i].begin) << "table " << i << ", " << probes << " probes";
      EXPECT_LE(ranges[i].begin, ranges[i].end);
    }
  }
}

TEST(LayOut, GivesEveryTableTheRequestedRoom) {
  const FileHeader header = lay_out(kCounts);
  EXPECT_EQ(header.mappings.count, kCounts.mappings);
  EXPECT_EQ(header.objects.count, kCounts.objects);
  EXPECT_EQ(header.sites.count, kCounts.sites);
  EXPECT_EQ(header.probes.count, kCounts.probes);
  EXPECT_EQ(header.functions.count, kCounts.functions);
  EXPECT_EQ(header.spans.count, kCounts.spans);
  EXPECT_EQ(header.switches.count, kCounts.switches);
  EXPECT_EQ(header.names.count, kCounts.name_bytes);
  EXPECT_EQ(header.histogram_count, kCounts.histograms);
  EXPECT_EQ(header.cpu_count, kCounts.cpus);
  EXPECT_EQ(header.fraction_bits, kCounts.fraction_bits);
  EXPECT_EQ(header.header_size, sizeof(FileHeader));
}

TEST(LayOut, MakesHeadersThatPassTheCheck) {
  for (uint32_t bits = stats::kMinFractionBits; bits <= stats::kMaxFractionBits; ++bits)
    for (uint32_t cpus : {1u, 2u, 512u})
      for (uint64_t probes : {0u, 1u, 1000u}) {
        const SessionCounts counts = {.mappings = 6,
                                      .objects = 3,
                                      .sites = probes,
                                      .probes = probes,
                                      .counters = probes,
                                      .histograms = probes,
                                      .pool_size = probes * (cpus + 1) * kBlock,
                                      .name_bytes = probes * 20,
                                      .cpus = cpus,
                                      .fraction_bits = bits};
        const FileHeader header = lay_out(counts);
        EXPECT_EQ(check_header(header, header.file_size), std::nullopt)
            << bits << " bits, " << cpus << " CPUs, " << probes << " probes";
      }
}

// The target maps the tables read-only and the areas read-write, so no page may have both. Only
// controllers read names.
TEST(LayOut, SeparatesByPagesWhatTheTargetMayWriteFromWhatItMayOnlyRead) {
  const FileHeader header = lay_out(kCounts);
  EXPECT_EQ(header.areas_offset % kPageSize, 0u);
  EXPECT_EQ(header.area_size % kPageSize, 0u);
  EXPECT_EQ(tables_size(header) % kPageSize, 0u);
  EXPECT_LE(tables_size(header), header.names.offset);
  EXPECT_LE(header.probes.offset + header.probes.count * sizeof(ProbeEntry), tables_size(header));
}

TEST(LayOut, HasAnAreaForEachCpuAndOneForThreadsThatLock) {
  const FileHeader header = lay_out(kCounts);
  EXPECT_EQ(area_offset(header, 0), header.areas_offset);
  EXPECT_EQ(area_offset(header, kCounts.cpus) + header.area_size, header.pool_offset);
}

TEST(LayOut, PutsBlocksAfterEverythingElseEachInItsOwnCacheLines) {
  for (bool loader_handshake : {false, true}) {
    SessionCounts counts = kCounts;
    counts.loader_handshake = loader_handshake;
    const FileHeader header = lay_out(counts);
    EXPECT_GT(header.pool_offset, header.loader_handshake_offset);
    EXPECT_EQ(end_of_blocks(header, 0), header.pool_offset + kPageSize);
    EXPECT_EQ(end_of_blocks(header, kBlock) % 64, 0u);
    EXPECT_GE(kBlock, stats::slot_count(counts.fraction_bits) * sizeof(stats::Cell));
    EXPECT_LE(end_of_blocks(header, counts.pool_size), header.file_size);
    EXPECT_LT(header.file_size - end_of_blocks(header, counts.pool_size), kPageSize);
  }
}

TEST(LayOut, PutsTheEndBeforeGapsAfterTheCountersOfEachArea) {
  for (const uint64_t histograms : {1, 2, 102}) {  // 102 take 4,080 bytes
    SessionCounts counts = kCounts;
    counts.counters = 0;
    counts.histograms = histograms;
    counts.gap = Gap::cpu;
    const FileHeader header = lay_out(counts);
    EXPECT_EQ(gap_word_offset(header), time_counters_offset(header, histograms - 1) + PP_GAP_BEGAN);
    EXPECT_LE(gap_word_offset(header) + sizeof(uint64_t), header.area_size);
    EXPECT_EQ(metric_count(header), histograms - 1) << "the last one is that of the gaps";
  }
}

// The target maps all of the file up to its size, and may write its areas.
TEST(BaselineOffset, LeadsToTwoPlacesInTurnThatLieAfterWhatTheTargetMaps) {
  for (uint32_t bits = stats::kMinFractionBits; bits <= stats::kMaxFractionBits; ++bits) {
    SessionCounts counts = kCounts;
    counts.fraction_bits = bits;
    const FileHeader header = lay_out(counts);
    const uint64_t one = baseline_offset(header, 1), two = baseline_offset(header, 2);
    EXPECT_GE(std::min(one, two), header.file_size);
    EXPECT_EQ(one % kPageSize + two % kPageSize, 0u);
    EXPECT_EQ(std::max(one, two) - std::min(one, two), baseline_size(header));
    EXPECT_EQ(baseline_offset(header, 3), one);
    EXPECT_EQ(baseline_offset(header, 4), two);
    const uint64_t entry = baseline_entry_size(header);
    EXPECT_GE(entry, sizeof(BaselineEntry) + stats::slot_count(bits) * sizeof(stats::Cell));
    EXPECT_GE(baseline_size(header), (counts.cpus + 1) * counts.histograms * entry);
  }
}

TEST(BlockAt, ReturnsOnlyBlocksOfThePool) {
  const FileHeader header = lay_out(kCounts);
  for (unsigned bits = stats::kMinFractionBits; bits <= stats::kMaxFractionBits; ++bits) {
    const uint64_t size = histogram_size(bits);
    for (uint64_t from = 0; from + size <= kCounts.pool_size; from += size) {
      const uint64_t offset = end_of_blocks(header, from) - header.pool_offset;
      EXPECT_EQ(block_at(header, offset, bits), end_of_blocks(header, from));
      EXPECT_EQ(block_at(header, offset + 8, bits), std::nullopt);
      EXPECT_EQ(block_at(header, offset - 1, bits), std::nullopt);
    }
    const uint64_t end = end_of_blocks(header, kCounts.pool_size) - header.pool_offset;
    for (uint64_t offset : {uint64_t{0}, uint64_t{8}, PP_POOL_BLOCKS - size, end - size + 64, end,
                            end + size, UINT64_MAX, UINT64_MAX - size + 1, UINT64_MAX / 64 * 64})
      EXPECT_EQ(block_at(header, offset, bits), std::nullopt) << offset;
  }
  EXPECT_EQ(block_at(lay_out({.cpus = 1}), PP_POOL_BLOCKS, 3), std::nullopt) << "no pool";
}

TEST(LayOut, CountersAndTimeCountersOfAnAreaDoNotOverlap) {
  for (uint32_t bits : {0u, 3u, 5u}) {
    SessionCounts counts = kCounts;
    counts.counters = 17;
    counts.histograms = 17;
    counts.fraction_bits = bits;
    const FileHeader header = lay_out(counts);
    Address end = 0;
    for (uint64_t probe = 0; probe < counts.counters; ++probe) {
      EXPECT_GE(counter_offset(probe), end);
      end = counter_offset(probe) + sizeof(uint64_t);
    }
    for (uint64_t histogram = 0; histogram < counts.histograms; ++histogram) {
      EXPECT_GE(time_counters_offset(header, histogram), end);
      end = time_counters_offset(header, histogram) + sizeof(TimeCounters);
    }
    EXPECT_LE(end, header.area_size);
  }
}

TEST(ParseSession, ReturnsWhatWasWritten) {
  const Sample sample;
  Session session;
  ASSERT_EQ(sample.parse(session), std::nullopt);
  const auto same = [](const auto& a, const auto& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0;
  };
  EXPECT_EQ(session.header.pid, 4242);
  EXPECT_TRUE(same(session.mappings, sample.mappings));
  EXPECT_TRUE(same(session.objects, sample.objects));
  EXPECT_TRUE(same(session.sites, sample.sites));
  EXPECT_TRUE(same(session.probes, sample.probes));
  EXPECT_TRUE(same(session.functions, sample.functions));
  EXPECT_TRUE(same(session.spans, sample.spans));
  EXPECT_TRUE(same(session.switches, sample.switches));
  EXPECT_TRUE(same(session.semaphores, sample.semaphores));
  EXPECT_TRUE(same(session.point_sites, sample.point_sites));
  EXPECT_TRUE(same(session.names, sample.names));
}

TEST(ParseSession, RefusesSemaphoresOfNoObjectOrInNoKnownState) {
  Session session;
  Sample no_object;
  no_object.semaphores[1].object = kCounts.objects;
  EXPECT_EQ(no_object.parse(session), ParseError::inconsistent);
  Sample no_state;
  no_state.semaphores[0].progress = static_cast<SemaphoreEntry::Progress>(5);
  EXPECT_EQ(no_state.parse(session), ParseError::inconsistent);
}

TEST(ParseSession, RefusesPointSitesOfNoSemaphoreOrInTwoPages) {
  Session session;
  Sample no_semaphore;
  no_semaphore.point_sites[1].semaphore = kCounts.semaphores;
  EXPECT_EQ(no_semaphore.parse(session), ParseError::inconsistent);
  Sample in_two_pages;
  in_two_pages.point_sites[0].address = 0x5555'1ffc;
  EXPECT_EQ(in_two_pages.parse(session), ParseError::inconsistent);
}

// Readers copy each of them: the copies would be larger than the file.
TEST(CheckHeader, RefusesSectionsThatTakeMoreThanThereIsTogether) {
  const FileHeader good = lay_out(kCounts);
  for (Section FileHeader::*section : {&FileHeader::names, &FileHeader::mappings}) {
    FileHeader header = good;
    const uint64_t size = section == &FileHeader::names ? 1 : sizeof(MappingEntry);
    const uint64_t from = align_up(sizeof(FileHeader), 64);
    header.*section = {from, (header.areas_offset - from) / size};
    EXPECT_EQ(check_header(header, header.file_size), ParseError::inconsistent);
  }
}

TEST(ParseSession, ReadsASessionWithoutAnyProbe) {
  FileHeader header = lay_out({.cpus = 1, .fraction_bits = 0});
  std::vector<uint8_t> bytes(header.areas_offset);
  std::memcpy(bytes.data(), &header, sizeof header);
  Session session;
  EXPECT_EQ(parse_session(bytes, header.file_size, session), std::nullopt);
  EXPECT_TRUE(session.probes.empty());
}

TEST(ParseSession, FindsNamesByTheirOffset) {
  const Sample sample;
  Session session;
  ASSERT_EQ(sample.parse(session), std::nullopt);
  EXPECT_EQ(session.name(0), "libfoo.so");
  EXPECT_EQ(session.name(10), "read");
  EXPECT_EQ(session.name(12), "ad") << "the end of a name is a name";
  EXPECT_EQ(session.name(15), "write");
  EXPECT_EQ(session.name(21), "");
}

using Name = std::pair<std::string_view, uint64_t>;
Name name_of(const Session& session, size_t probe) {
  const ProbeName name = session.probe_name(probe);
  return {name.function, name.offset};
}

TEST(ParseSession, NamesProbesByTheirFunctionAndOffset) {
  const Sample sample;
  Session session;
  ASSERT_EQ(sample.parse(session), std::nullopt);
  EXPECT_EQ(name_of(session, 0), Name("read", 0));
  EXPECT_EQ(name_of(session, 1), Name("read", 64)) << "the next site";
  EXPECT_EQ(name_of(session, 2), Name("read", 128));
  EXPECT_EQ(name_of(session, 3), Name("write", 192 + 2));
  EXPECT_EQ(name_of(session, 4), Name("write", 2 + 6)) << "an offset from the first site";
}

TEST(ParseSession, NamesAProbeWithoutAFunctionAsAQuestionMark) {
  Sample sample;
  sample.functions[0].first_probe = 2;
  sample.functions[1].name = kCounts.name_bytes;
  Session session;
  ASSERT_EQ(sample.parse(session), std::nullopt);
  EXPECT_EQ(session.probe_name(1).function, "?");
  EXPECT_EQ(session.probe_name(2).function, "read");
  EXPECT_EQ(session.probe_name(3).function, "?") << "of a name that leads nowhere";
  EXPECT_EQ(session.probe_name(kCounts.probes).function, "?");
  EXPECT_EQ(Session().probe_name(0).function, "?");
}

TEST(ParseSession, ReturnsAQuestionMarkForNamesWithAnInvalidOffset) {
  Sample sample;
  sample.names.assign(kCounts.name_bytes, 'x');  // no terminating zero
  Session session;
  ASSERT_EQ(sample.parse(session), std::nullopt);
  EXPECT_EQ(session.name(static_cast<uint32_t>(kCounts.name_bytes)), "?");
  EXPECT_EQ(session.name(UINT32_MAX), "?");
  EXPECT_EQ(session.name(0), "?");
  EXPECT_EQ(Session().name(0), "?");
}

TEST(ParseSession, TakesEveryShorterCopyOfTheTablesForTruncated) {
  const Sample sample;
  const auto bytes = sample.bytes();
  Session session;
  for (size_t size = 0; size < bytes.size(); ++size)
    ASSERT_EQ(parse_session(std::span(bytes).first(size), sample.header.file_size, session),
              ParseError::truncated)
        << size;
}

TEST(CheckHeader, AFileShorterThanItSaysIsTruncated) {
  const FileHeader header = lay_out(kCounts);
  EXPECT_EQ(check_header(header, header.file_size - 1), ParseError::truncated);
  EXPECT_EQ(check_header(header, 0), ParseError::truncated);
  EXPECT_EQ(check_header(header, header.file_size + 1), std::nullopt) << "a file may have grown";
}

// A sparse file of a terabyte costs its author nothing, but a reader, which copies the tables, all
// of its memory.
TEST(CheckHeader, RefusesTablesThatAreTooLargeToCopy) {
  FileHeader header = lay_out(kCounts);
  const uint64_t areas = header.file_size - header.areas_offset;
  header.areas_offset = uint64_t{1} << 40;
  header.file_size = header.areas_offset + areas;
  EXPECT_EQ(check_header(header, header.file_size), ParseError::inconsistent);
}

// A header with room for everything after it, so that only this one field is wrong.
FileHeader roomy_header() {
  SessionCounts counts = kCounts;
  counts.cpus = 100;
  counts.pool_size = 100 * kBlock;
  FileHeader header = lay_out(counts);
  header.cpu_count = 1;
  header.pool_size = kCounts.pool_size;
  header.area_size *= 40;
  EXPECT_EQ(check_header(header, header.file_size), std::nullopt);
  return header;
}

TEST(CheckHeader, AllowsNoMoreCountersOrHistogramsThanProbes) {
  for (auto field : {&FileHeader::counter_count, &FileHeader::histogram_count}) {
    FileHeader header = roomy_header();
    header.spans.count = 0;
    header.*field = header.probes.count;
    EXPECT_EQ(check_header(header, header.file_size), std::nullopt);
    ++(header.*field);
    EXPECT_EQ(check_header(header, header.file_size), ParseError::inconsistent);
  }
}

TEST(CheckHeader, AllowsASwitchForEachProbeOrForNone) {
  FileHeader header = roomy_header();
  for (const uint64_t wrong : {header.probes.count - 1, header.probes.count + 1}) {
    header.switches.count = wrong;
    EXPECT_EQ(check_header(header, header.file_size), ParseError::inconsistent);
  }
  header.switches.count = 0;
  EXPECT_EQ(check_header(header, header.file_size), std::nullopt);
}

TEST(CheckHeader, RequiresAHistogramForGapsBesidesThoseOfProbes) {
  for (const Gap gap : {Gap::cpu, Gap::thread}) {
    FileHeader header = roomy_header();
    header.gap = gap;
    header.spans.count = 0;
    header.histogram_count = header.probes.count + 1;
    EXPECT_EQ(check_header(header, header.file_size), std::nullopt);
    ++header.histogram_count;
    EXPECT_EQ(check_header(header, header.file_size), ParseError::inconsistent);
    header.histogram_count = 0;
    EXPECT_EQ(check_header(header, header.file_size), ParseError::inconsistent);
  }
}

FileHeader header_with_keys(uint32_t log2) {
  SessionCounts counts = kCounts;
  counts.key_log2 = log2;
  return lay_out(counts);
}

TEST(LayOut, HasACounterInEachAreaForEachEntryOfTheTableOfKeys) {
  const FileHeader none = header_with_keys(0), header = header_with_keys(12);
  EXPECT_EQ(key_count(none), 0u);
  EXPECT_EQ(none.keys_offset, 0u);
  EXPECT_EQ(key_count(header), 4096u + PP_KEY_WINDOW - 1);
  EXPECT_EQ(check_header(header, header.file_size), std::nullopt);
  EXPECT_GE(key_counter_offset(header, 0), time_counters_offset(header, header.histogram_count));
  EXPECT_LE(key_counter_offset(header, key_count(header)), header.area_size);
  EXPECT_GE(header.keys_offset, area_offset(header, header.cpu_count + 1));
  EXPECT_LE(header.keys_offset + key_count(header) * sizeof(KeyEntry), header.pool_offset);
}

TEST(SessionFile, TablesOfTextsHaveRoomAndAreCheckedInAFile) {
  SessionCounts counts = kCounts;
  EXPECT_EQ(lay_out(counts).texts_offset, 0u);
  counts.key_log2 = 8;
  counts.text_log2 = 6;
  counts.has_unread = true;
  const FileHeader header = lay_out(counts);
  EXPECT_GE(header.texts_offset, header.keys_offset + key_count(header) * sizeof(KeyEntry));
  EXPECT_LE(header.texts_offset + texts_size(6), header.pool_offset);
  EXPECT_GE(header.area_size, unread_offset(header, header.probes.count));
  EXPECT_GE(unread_offset(header, 0), key_times_offset(header, 0));
  ASSERT_EQ(check_header(header, header.file_size), std::nullopt);
  for (const auto change : std::initializer_list<void (*)(FileHeader&)>{
           [](FileHeader& one) { one.text_log2 = 0; },
           [](FileHeader& one) { one.text_log2 = kMostKeyLog2 + 1; },
           [](FileHeader& one) { one.text_log2 = UINT32_MAX; },
           [](FileHeader& one) { one.texts_offset += 8; },
           [](FileHeader& one) { one.texts_offset = one.file_size; },
           [](FileHeader& one) { one.texts_offset = uint64_t{1} << 63; }}) {
    FileHeader bad = header;
    change(bad);
    EXPECT_EQ(check_header(bad, header.file_size), ParseError::inconsistent);
  }
}

TEST(SessionFile, RingsOfEventsLieInTheirAreasAfterTheirCounters) {
  SessionCounts counts = kCounts;
  const FileHeader none = lay_out(counts);
  counts.event_log2 = kLeastEventLog2;
  counts.has_unread = true;
  const FileHeader header = lay_out(counts);
  EXPECT_GE(dropped_offset(header, 0), unread_offset(header, header.probes.count));
  EXPECT_GE(ring_offset(header), dropped_offset(header, header.probes.count));
  EXPECT_EQ(ring_offset(header) % alignof(EventRing), 0u);
  EXPECT_LE(ring_offset(header) + event_ring_size(kLeastEventLog2), header.area_size);
  EXPECT_GE(header.area_size, none.area_size + (1 << kLeastEventLog2));
  ASSERT_EQ(check_header(header, header.file_size), std::nullopt);
  for (const uint64_t log2 :
       {uint64_t{1}, uint64_t{kLeastEventLog2} - 1, uint64_t{kLeastEventLog2} + 2,
        uint64_t{kMostEventLog2}, uint64_t{kMostEventLog2} + 1, uint64_t{64}, uint64_t{1} << 32,
        UINT64_MAX}) {
    FileHeader bad = header;
    bad.event_log2 = log2;
    EXPECT_EQ(check_header(bad, header.file_size), ParseError::inconsistent) << log2;
  }
  FileHeader bad = header;
  bad.rings = static_cast<EventRings>(3);
  EXPECT_EQ(check_header(bad, header.file_size), ParseError::inconsistent);
}

TEST(KeyParts, AreWhatWasAddedAndNumbersBeyond) {
  using Is = KeyParts::Is;
  KeyParts parts;
  for (const Is one : {Is::text, Is::signed_number, Is::code, Is::number}) parts.add(one);
  EXPECT_EQ(parts.count, 4u);
  EXPECT_EQ(parts.at(0), Is::text);
  EXPECT_EQ(parts.at(1), Is::signed_number);
  EXPECT_EQ(parts.at(2), Is::code);
  EXPECT_EQ(parts.at(3), Is::number);
  for (const size_t beyond : {4, 16, 255}) EXPECT_EQ(parts.at(beyond), Is::number);
}

TEST(CheckHeader, RequiresKeysAndTheirCountersToLieInTheFile) {
  const FileHeader right = header_with_keys(8);
  for (const auto& damage : std::vector<std::function<void(FileHeader&)>>{
           [](FileHeader& header) { ++header.key_log2; },
           [](FileHeader& header) { header.key_log2 = kMostKeyLog2 + 1; },
           [](FileHeader& header) { header.key_log2 = UINT32_MAX; },
           [](FileHeader& header) { header.keys_offset += 8; },
           [](FileHeader& header) { header.keys_offset = header.file_size; },
           [](FileHeader& header) { header.keys_offset = uint64_t{1} << 63; }}) {
    FileHeader header = right;
    damage(header);
    EXPECT_EQ(check_header(header, header.file_size), ParseError::inconsistent);
  }
}

TEST(CheckHeader, AllowsOnlyKindsOfGapsThatThereAre) {
  FileHeader header = roomy_header();
  header.spans.count = 0;
  for (const uint32_t kind : {3u, 4u, UINT32_MAX}) {
    header.gap = static_cast<Gap>(kind);
    EXPECT_EQ(check_header(header, header.file_size), ParseError::inconsistent) << kind;
  }
}

TEST(CheckHeader, RequiresTheEndBeforeGapsToLieInItsArea) {
  SessionCounts counts = kCounts;
  counts.spans = 0;
  counts.switches = counts.probes = counts.histograms = 102;  // 4,080 bytes of an area
  for (const uint64_t counters : {1, 2}) {
    counts.counters = counters;
    FileHeader header = lay_out(counts);
    ASSERT_EQ(header.area_size, kPageSize);
    EXPECT_EQ(check_header(header, header.file_size), std::nullopt);
    header.gap = Gap::cpu;
    const auto expected =
        counters == 1 ? std::nullopt : std::optional(ParseError::inconsistent);  // past its end
    EXPECT_EQ(check_header(header, header.file_size), expected);
  }
}

// Any number of resets is at one of two offsets, whatever is there.
TEST(CheckHeader, AllowsAnyNumberOfResets) {
  FileHeader header = roomy_header();
  for (const uint64_t resets : {uint64_t{1}, uint64_t{1} << 63, UINT64_MAX}) {
    header.resets = resets;
    EXPECT_EQ(check_header(header, header.file_size), std::nullopt);
    EXPECT_GE(baseline_offset(header, resets), header.file_size);
  }
}

// Two points may have four spans, beside probes that record what else there is to know.
TEST(CheckHeader, AllowsHistogramsOfProbesBesideThoseOfMoreSpansThanThereAreProbes) {
  FileHeader header = roomy_header();
  header.spans.count = header.probes.count + 2;
  header.histogram_count = header.spans.count + header.probes.count;
  EXPECT_EQ(check_header(header, header.file_size), std::nullopt);
  ++header.histogram_count;
  EXPECT_EQ(check_header(header, header.file_size), ParseError::inconsistent);
}

// A few points may have many spans.
TEST(CheckHeader, RequiresAHistogramForEachSpan) {
  FileHeader header = roomy_header();
  header.spans.count = header.histogram_count = header.probes.count + 1;
  EXPECT_EQ(check_header(header, header.file_size), std::nullopt);
  ++header.spans.count;
  EXPECT_EQ(check_header(header, header.file_size), ParseError::inconsistent);
}

TEST(CheckHeader, AllowsNoFinerHistogramsThanTheFormulaHas) {
  FileHeader header = roomy_header();
  header.fraction_bits = stats::kMaxFractionBits;
  EXPECT_EQ(check_header(header, header.file_size), std::nullopt);
  ++header.fraction_bits;
  EXPECT_EQ(check_header(header, header.file_size), ParseError::inconsistent);
}

TEST(CheckHeader, RequiresAreasToStartOnAPage) {
  FileHeader header = roomy_header();
  header.areas_offset += kPageSize;
  EXPECT_EQ(check_header(header, header.file_size), std::nullopt);
  header.areas_offset += 64;
  EXPECT_EQ(check_header(header, header.file_size), ParseError::inconsistent);
}

TEST(CheckHeader, RequiresEveryEntryToLieInTheTables) {
  const std::pair<Section FileHeader::*, uint64_t> sections[] = {
      {&FileHeader::mappings, sizeof(MappingEntry)},   {&FileHeader::objects, sizeof(ObjectEntry)},
      {&FileHeader::sites, sizeof(SiteEntry)},         {&FileHeader::probes, sizeof(ProbeEntry)},
      {&FileHeader::functions, sizeof(FunctionEntry)}, {&FileHeader::names, 1}};
  for (const auto& [section, size] : sections) {
    FileHeader header = roomy_header();
    (header.*section).offset = header.areas_offset - 2 * size;
    (header.*section).count = 2;
    header.counter_count = header.histogram_count = header.spans.count = 0;
    header.switches.count = 0;
    EXPECT_EQ(check_header(header, header.file_size), std::nullopt) << size;
    ++(header.*section).offset;
    EXPECT_EQ(check_header(header, header.file_size), ParseError::inconsistent) << size;
    --(header.*section).offset;
    ++(header.*section).count;
    EXPECT_EQ(check_header(header, header.file_size), ParseError::inconsistent) << size;
  }
}

struct Damage {
  const char* what;
  std::function<void(Sample&)> apply;
  ParseError expected = ParseError::inconsistent;
};

void PrintTo(const Damage& damage, std::ostream* out) {
  *out << damage.what;
}

class DamagedSession : public testing::TestWithParam<Damage> {};

TEST_P(DamagedSession, IsRefused) {
  Sample sample;
  const FileHeader header = sample.header;
  GetParam().apply(sample);
  const FileHeader damaged = std::exchange(sample.header, header);
  auto bytes = sample.bytes();  // the tables lie where they should, whatever the header says
  std::memcpy(bytes.data(), &damaged, sizeof damaged);
  Session session;
  EXPECT_EQ(parse_session(bytes, header.file_size, session), GetParam().expected);
}

constexpr uint64_t kHuge[] = {uint64_t{1} << 24, uint64_t{1} << 32, uint64_t{1} << 59,
                              uint64_t{1} << 60, uint64_t{1} << 63, UINT64_MAX};

// Each section, damaged in each way: an offset or count that leads out of the tables, also by
// wrapping around, and an offset that leads into the header.
std::vector<Damage> damaged_sections() {
  struct Named {
    const char* name;
    Section FileHeader::*section;
  };
  const Named sections[] = {
      {"mappings", &FileHeader::mappings},   {"objects", &FileHeader::objects},
      {"sites", &FileHeader::sites},         {"probes", &FileHeader::probes},
      {"functions", &FileHeader::functions}, {"spans", &FileHeader::spans},
      {"switches", &FileHeader::switches},   {"names", &FileHeader::names}};
  std::vector<Damage> damages;
  for (const Named& named : sections) {
    const auto section = named.section;
    damages.push_back({named.name, [section](Sample& sample) {
                         (sample.header.*section).offset = sample.header.areas_offset;
                       }});
    damages.push_back({named.name, [section](Sample& sample) {
                         (sample.header.*section).offset = sizeof(FileHeader) - 1;
                       }});
    damages.push_back(
        {named.name, [section](Sample& sample) { (sample.header.*section).offset = 0; }});
    damages.push_back({named.name, [section](Sample& sample) {
                         (sample.header.*section).count = sample.header.areas_offset;
                       }});
    for (uint64_t huge : kHuge) {
      damages.push_back({named.name, [section, huge](Sample& sample) {
                           (sample.header.*section).offset = huge;
                         }});
      damages.push_back(
          {named.name, [section, huge](Sample& sample) { (sample.header.*section).count = huge; }});
    }
  }
  return damages;
}
INSTANTIATE_TEST_SUITE_P(Sections, DamagedSession, testing::ValuesIn(damaged_sections()));

template <class T>
Damage header_field(const char* what, T FileHeader::*field, std::type_identity_t<T> value,
                    ParseError expected = ParseError::inconsistent) {
  return {what, [field, value](Sample& sample) { sample.header.*field = value; }, expected};
}

INSTANTIATE_TEST_SUITE_P(
    Header, DamagedSession,
    testing::Values(
        header_field("magic", &FileHeader::magic, kFileMagic + 1, ParseError::not_a_session),
        header_field("version 0", &FileHeader::version, 0, ParseError::version),
        header_field("next version", &FileHeader::version, kFileVersion + 1, ParseError::version),
        header_field("header size 0", &FileHeader::header_size, 0, ParseError::version),
        header_field("header size", &FileHeader::header_size, sizeof(FileHeader) + 8,
                     ParseError::version),
        header_field("huge file", &FileHeader::file_size, UINT64_MAX, ParseError::truncated),
        header_field("file size 0", &FileHeader::file_size, 0),
        header_field("state 0", &FileHeader::state, SessionState{0}),
        header_field("state 4", &FileHeader::state, SessionState{4}),
        header_field("state", &FileHeader::state, SessionState{UINT32_MAX}),
        header_field("no CPUs", &FileHeader::cpu_count, 0),
        header_field("a CPU more", &FileHeader::cpu_count, kCounts.cpus + 1),
        header_field("CPUs", &FileHeader::cpu_count, UINT32_MAX),
        header_field("fraction bits", &FileHeader::fraction_bits, stats::kMaxFractionBits + 1),
        header_field("fraction bits 64", &FileHeader::fraction_bits, 64),
        header_field("fraction bits 2^32-1", &FileHeader::fraction_bits, UINT32_MAX),
        header_field("more histograms than probes and spans", &FileHeader::histogram_count,
                     kCounts.probes + kCounts.spans + 1),
        header_field("counters", &FileHeader::counter_count, UINT64_MAX),
        header_field("histograms", &FileHeader::histogram_count, UINT64_MAX),
        header_field("areas at 0", &FileHeader::areas_offset, 0),
        header_field("areas on no page", &FileHeader::areas_offset, kPageSize + 8),
        header_field("areas outside", &FileHeader::areas_offset, uint64_t{1} << 40),
        header_field("areas", &FileHeader::areas_offset, UINT64_MAX - kPageSize + 1),
        header_field("area size 0", &FileHeader::area_size, 0),
        header_field("two pages per area", &FileHeader::area_size, 2 * kPageSize),
        header_field("area size 2^40", &FileHeader::area_size, uint64_t{1} << 40),
        header_field("area size 2^62", &FileHeader::area_size, uint64_t{1} << 62),
        header_field("area size", &FileHeader::area_size, UINT64_MAX),
        header_field("loader handshake on no page", &FileHeader::loader_handshake_offset, 8),
        header_field("loader handshake outside", &FileHeader::loader_handshake_offset,
                     uint64_t{1} << 40),
        header_field("loader handshake", &FileHeader::loader_handshake_offset,
                     UINT64_MAX - kPageSize + 1),
        header_field("exec handshake on no page", &FileHeader::exec_handshake_offset, 8),
        header_field("exec handshake outside", &FileHeader::exec_handshake_offset,
                     uint64_t{1} << 40),
        header_field("exec handshake", &FileHeader::exec_handshake_offset,
                     UINT64_MAX - kPageSize + 1),
        Damage{"areas on no page", [](Sample& sample) { sample.header.area_size -= 4; }},
        Damage{"more histograms than an area has room for",
               [](Sample& sample) {
                 sample.header.histogram_count = kCounts.probes;
                 sample.header.area_size = time_counters_offset(sample.header, kCounts.probes) - 8;
               }},
        header_field("histograms without a pool", &FileHeader::pool_offset, 0),
        header_field("pool on no page", &FileHeader::pool_offset, kPageSize + 8),
        header_field("pool outside", &FileHeader::pool_offset, uint64_t{1} << 40),
        header_field("pool", &FileHeader::pool_offset, UINT64_MAX - kPageSize + 1),
        header_field("a page of blocks more", &FileHeader::pool_size,
                     kCounts.pool_size + kPageSize),
        header_field("blocks", &FileHeader::pool_size, UINT64_MAX - kPageSize)));

INSTANTIATE_TEST_SUITE_P(
    Entries, DamagedSession,
    testing::Values(
        Damage{"more probes that count than counters",
               [](Sample& sample) { sample.header.counter_count = 2; }},
        Damage{"probe of a histogram where there is none",
               [](Sample& sample) { sample.probes[4].kind = ProbeEntry::Kind::value; }},
        Damage{"site of length 0", [](Sample& sample) { sample.sites[3].length = 0; }},
        Damage{"site of a length that no jump has",
               [](Sample& sample) { sample.sites[2].length = 4; }},
        Damage{"site longer than its bytes",
               [](Sample& sample) { sample.sites[0].length = kMaxSiteLength + 1; }},
        Damage{"site of which nothing is written", [](Sample& sample) { sample.sites[1].own = 0; }},
        Damage{"site of which more is written than the jump",
               [](Sample& sample) { sample.sites[1].own = 6; }},
        Damage{"probe of no kind",
               [](Sample& sample) { sample.probes[4].kind = ProbeEntry::Kind{0}; }},
        Damage{"probe of an unknown kind",
               [](Sample& sample) { sample.probes[4].kind = ProbeEntry::Kind{6}; }},
        Damage{"probe in no object",
               [](Sample& sample) { sample.probes[4].object = kCounts.objects; }},
        Damage{"probe at no site", [](Sample& sample) { sample.probes[4].site = kCounts.sites; }},
        Damage{"latency without a histogram",
               [](Sample& sample) { sample.probes[2].kind = ProbeEntry::Kind::latency; }},
        Damage{"span that begins at no probe",
               [](Sample& sample) { sample.spans[1].start = kCounts.probes; }},
        Damage{"span that ends at no probe",
               [](Sample& sample) { sample.spans[0].end = UINT32_MAX; }},
        Damage{"mapping on no page", [](Sample& sample) { sample.mappings[2].address += 8; }},
        Damage{"mapping of no whole pages", [](Sample& sample) { sample.mappings[0].size -= 1; }},
        Damage{"mapping around the end of memory",
               [](Sample& sample) { sample.mappings[1].size = UINT64_MAX - kPageSize + 1; }},
        Damage{"mapping of no kind",
               [](Sample& sample) { sample.mappings[1].kind = MappingEntry::Kind{0}; }},
        Damage{"mapping of an unknown kind",
               [](Sample& sample) { sample.mappings[1].kind = MappingEntry::Kind{8}; }}));

TEST(SiteEntry, LeadsToATargetRelativeToItsEnd) {
  SiteEntry site;
  site.address = 0x5555'1000;
  site.length = 5;
  site.jump = -0x1005;
  EXPECT_EQ(site.target(), 0x5555'0000u);
  site.length = 2;
  site.jump = 0x10;
  EXPECT_EQ(site.target(), 0x5555'1012u);
}

TEST(ParseSession, RefusesAProbeAfterItsWindow) {
  Sample sample;
  sample.probes[4].offset = 7;
  Session session;
  EXPECT_EQ(sample.parse(session), ParseError::inconsistent);
}

TEST(ParseSession, RefusesAnInvalidPhase) {
  Sample sample;
  sample.sites[1].phase = static_cast<SiteEntry::Phase>(kPhases);
  Session session;
  EXPECT_EQ(sample.parse(session), ParseError::inconsistent);
}

}  // namespace
}  // namespace pinprick::layout
