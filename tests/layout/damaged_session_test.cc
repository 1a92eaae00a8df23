// A session's file that is damaged is refused.
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "layout/sample_session.h"

namespace pinprick::layout {
namespace {

struct Damage {
  const char* what;
  std::function<void(SampleSession&)> apply;
  ParseError expected = ParseError::inconsistent;
};

void PrintTo(const Damage& damage, std::ostream* out) {
  *out << damage.what;
}

class DamagedSession : public testing::TestWithParam<Damage> {};

TEST_P(DamagedSession, IsRefused) {
  SampleSession sample;
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
    damages.push_back({named.name, [section](SampleSession& sample) {
                         (sample.header.*section).offset = sample.header.areas_offset;
                       }});
    damages.push_back({named.name, [section](SampleSession& sample) {
                         (sample.header.*section).offset = sizeof(FileHeader) - 1;
                       }});
    damages.push_back(
        {named.name, [section](SampleSession& sample) { (sample.header.*section).offset = 0; }});
    damages.push_back({named.name, [section](SampleSession& sample) {
                         (sample.header.*section).count = sample.header.areas_offset;
                       }});
    for (uint64_t huge : kHuge) {
      damages.push_back({named.name, [section, huge](SampleSession& sample) {
                           (sample.header.*section).offset = huge;
                         }});
      damages.push_back({named.name, [section, huge](SampleSession& sample) {
                           (sample.header.*section).count = huge;
                         }});
    }
  }
  return damages;
}
INSTANTIATE_TEST_SUITE_P(Sections, DamagedSession, testing::ValuesIn(damaged_sections()));

template <class T>
Damage header_field(const char* what, T FileHeader::*field, std::type_identity_t<T> value,
                    ParseError expected = ParseError::inconsistent) {
  return {what, [field, value](SampleSession& sample) { sample.header.*field = value; }, expected};
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
        Damage{"areas on no page", [](SampleSession& sample) { sample.header.area_size -= 4; }},
        Damage{"more histograms than an area has room for",
               [](SampleSession& sample) {
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
               [](SampleSession& sample) { sample.header.counter_count = 2; }},
        Damage{"probe of a histogram where there is none",
               [](SampleSession& sample) { sample.probes[4].kind = ProbeEntry::Kind::value; }},
        Damage{"site of length 0", [](SampleSession& sample) { sample.sites[3].length = 0; }},
        Damage{"site of a length that no jump has",
               [](SampleSession& sample) { sample.sites[2].length = 4; }},
        Damage{"site longer than its bytes",
               [](SampleSession& sample) { sample.sites[0].length = kMaxSiteLength + 1; }},
        Damage{"site of which nothing is written",
               [](SampleSession& sample) { sample.sites[1].own = 0; }},
        Damage{"site of which more is written than the jump",
               [](SampleSession& sample) { sample.sites[1].own = 6; }},
        Damage{"probe of no kind",
               [](SampleSession& sample) { sample.probes[4].kind = ProbeEntry::Kind{0}; }},
        Damage{"probe of an unknown kind",
               [](SampleSession& sample) { sample.probes[4].kind = ProbeEntry::Kind{6}; }},
        Damage{"probe in no object",
               [](SampleSession& sample) { sample.probes[4].object = kCounts.objects; }},
        Damage{"probe at no site",
               [](SampleSession& sample) { sample.probes[4].site = kCounts.sites; }},
        Damage{"latency without a histogram",
               [](SampleSession& sample) { sample.probes[2].kind = ProbeEntry::Kind::latency; }},
        Damage{"span that begins at no probe",
               [](SampleSession& sample) { sample.spans[1].start = kCounts.probes; }},
        Damage{"span that ends at no probe",
               [](SampleSession& sample) { sample.spans[0].end = UINT32_MAX; }},
        Damage{"mapping on no page",
               [](SampleSession& sample) { sample.mappings[2].address += 8; }},
        Damage{"mapping of no whole pages",
               [](SampleSession& sample) { sample.mappings[0].size -= 1; }},
        Damage{"mapping around the end of memory",
               [](SampleSession& sample) { sample.mappings[1].size = UINT64_MAX - kPageSize + 1; }},
        Damage{"mapping of no kind",
               [](SampleSession& sample) { sample.mappings[1].kind = MappingEntry::Kind{0}; }},
        Damage{"mapping of an unknown kind",
               [](SampleSession& sample) { sample.mappings[1].kind = MappingEntry::Kind{8}; }}));

}  // namespace
}  // namespace pinprick::layout
