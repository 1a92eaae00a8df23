// A session's file as a controller writes it, for tests that read it, or damage it first.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "layout/session_file.h"
#include "stats/histogram.h"

namespace pinprick::layout {

inline constexpr uint64_t kBlock = histogram_size(3), kBlocks = 7;
inline constexpr SessionCounts kCounts = {.mappings = 3,
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
struct SampleSession {
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

  SampleSession() {
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

}  // namespace pinprick::layout
