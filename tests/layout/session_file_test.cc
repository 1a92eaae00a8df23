#include "layout/session_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "layout/sample_session.h"

namespace pinprick::layout {
namespace {

TEST(ParseSession, ReturnsWhatWasWritten) {
  const SampleSession sample;
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
  SampleSession no_object;
  no_object.semaphores[1].object = kCounts.objects;
  EXPECT_EQ(no_object.parse(session), ParseError::inconsistent);
  SampleSession no_state;
  no_state.semaphores[0].progress = static_cast<SemaphoreEntry::Progress>(5);
  EXPECT_EQ(no_state.parse(session), ParseError::inconsistent);
}

TEST(ParseSession, RefusesPointSitesOfNoSemaphoreOrInTwoPages) {
  Session session;
  SampleSession no_semaphore;
  no_semaphore.point_sites[1].semaphore = kCounts.semaphores;
  EXPECT_EQ(no_semaphore.parse(session), ParseError::inconsistent);
  SampleSession in_two_pages;
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
  const SampleSession sample;
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
  const SampleSession sample;
  Session session;
  ASSERT_EQ(sample.parse(session), std::nullopt);
  EXPECT_EQ(name_of(session, 0), Name("read", 0));
  EXPECT_EQ(name_of(session, 1), Name("read", 64)) << "the next site";
  EXPECT_EQ(name_of(session, 2), Name("read", 128));
  EXPECT_EQ(name_of(session, 3), Name("write", 192 + 2));
  EXPECT_EQ(name_of(session, 4), Name("write", 2 + 6)) << "an offset from the first site";
}

TEST(ParseSession, NamesAProbeWithoutAFunctionAsAQuestionMark) {
  SampleSession sample;
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
  SampleSession sample;
  sample.names.assign(kCounts.name_bytes, 'x');  // no terminating zero
  Session session;
  ASSERT_EQ(sample.parse(session), std::nullopt);
  EXPECT_EQ(session.name(static_cast<uint32_t>(kCounts.name_bytes)), "?");
  EXPECT_EQ(session.name(UINT32_MAX), "?");
  EXPECT_EQ(session.name(0), "?");
  EXPECT_EQ(Session().name(0), "?");
}

TEST(ParseSession, TakesEveryShorterCopyOfTheTablesForTruncated) {
  const SampleSession sample;
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
  SampleSession sample;
  sample.probes[4].offset = 7;
  Session session;
  EXPECT_EQ(sample.parse(session), ParseError::inconsistent);
}

TEST(ParseSession, RefusesAnInvalidPhase) {
  SampleSession sample;
  sample.sites[1].phase = static_cast<SiteEntry::Phase>(kPhases);
  Session session;
  EXPECT_EQ(sample.parse(session), ParseError::inconsistent);
}

}  // namespace
}  // namespace pinprick::layout
