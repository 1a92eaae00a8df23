// The file that controller and target share, as a hostile target might leave it.
#include "ledger/session_file.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "engine/owners/shared_sites.h"
#include "fuzzer.h"

namespace {

using namespace pinprick;

// One for the process; /dev/shm, since that is where such files lie.
const std::string& path() {
  static const std::string name = "/dev/shm/pinprick-fuzz-" + std::to_string(::getpid());
  return name;
}

struct RemoveAtExit {
  RemoveAtExit() { path(); }  // so that the name outlives this
  ~RemoveAtExit() { ::unlink(path().c_str()); }
};

// Of the last histogram, which is that of the gaps, and of the first.
void look_at_cpus(const ledger::SessionFile& file, const layout::Session& found,
                  const std::vector<stats::Histogram>& all) {
  CHECK(file.read_by_cpu(found, all.size()).empty());
  for (const size_t number : {size_t{0}, all.size() - 1}) {
    if (number >= all.size()) continue;
    stats::Histogram sum(found.header.fraction_bits);
    for (const stats::CpuHistogram& one : file.read_by_cpu(found, number)) {
      CHECK(one.cpu >= -1 && one.cpu < static_cast<int>(found.header.cpu_count));
      sum.merge(one.histogram);
    }
    CHECK(sum.count() == all[number].count());
  }
}

// A reset of what a hostile target has left, by a controller that believes the header.
void reset(const std::string& path) {
  auto file = ledger::SessionFile::open(path, ledger::SessionFile::Lock::exclusive);
  CHECK(file);
  auto found = file->read();
  if (!found) return;
  static_cast<void>(file->forget_gaps(*found));
  ledger::Events events;
  static_cast<void>(file->take_events(*found, events));
  for (const ledger::Event& one : events) CHECK(one.values.size() <= PP_MOST_EVENT_VALUES);
  constexpr uint64_t kBearable = uint64_t{1} << 20;
  if (layout::baseline_size(found->header) > kBearable) return;
  const uint64_t resets = found->header.resets;
  if (!file->reset(*found)) return;
  CHECK(found->header.resets == resets + 1 && file->resets() == resets + 1);
  const auto again = file->read();
  CHECK(again && again->header.resets == resets + 1);
  if (resets + 1 == 0) return;
  for (const stats::Histogram& one : file->read_histograms(*again)) CHECK(one.count() == 0);
}

void look_at(const ledger::SessionFile& file, const layout::Session& found) {
  const layout::FileHeader& header = found.header;
  CHECK(file.resets() == header.resets);
  CHECK(file.read_counters(found).size() == header.counter_count);
  CHECK(file.read_losses(found).size() == header.histogram_count);
  const std::vector<stats::Histogram> all = file.read_histograms(found);
  CHECK(all.size() == header.histogram_count);
  look_at_cpus(file, found, all);
  size_t histograms = 0;
  const std::vector<uint32_t> cells = found.cells_of_probes();
  for (const layout::ProbeEntry& probe : found.probes) {
    CHECK(probe.object < found.objects.size());
    CHECK(probe.site < found.sites.size());
    if (probe.kind != layout::ProbeEntry::Kind::latency || ++histograms > 4) continue;
    const auto index = static_cast<size_t>(&probe - found.probes.data());
    const stats::Histogram& histogram = all.at(cells.at(index));
    const stats::Histogram none(header.fraction_bits);
    uint64_t last = 0;
    for (double p : {0.0, 0.5, 0.99, 1.0}) {
      const uint64_t value = histogram.since(none).quantile(p);
      CHECK(value >= last);
      last = value;
    }
    histogram.maximum();
    histogram.sum();
    for (uint32_t slot = 0; slot < histogram.cells().size(); ++slot) histogram.average(slot);
  }
  for (size_t i = 0; i <= found.probes.size(); ++i) found.probe_name(i);
  for (const layout::ObjectEntry& object : found.objects) {
    found.name(object.name);
    found.name(object.path);
  }
  for (const layout::SiteEntry& site : found.sites)
    CHECK(site.length >= 1 && site.length <= layout::kMaxSiteLength);
  for (const layout::MappingEntry& mapping : found.mappings)
    CHECK(mapping.address + mapping.size >= mapping.address);
}

// As another owner's, and as that of one that leaves, in a process that has other bytes there.
void share(const layout::Session& found) {
  static const auto memory = target::Memory::open(::getpid());
  CHECK(memory);
  const layout::Session* const journals[] = {&found, &found};
  const engine::OtherSites others(journals, *memory);
  uint8_t bytes[64] = {};
  for (const layout::SiteEntry& site : found.sites) {
    others.put_back(site.address - 8, bytes);
    for (const engine::OtherSite* other : others.in({site.address, site.end()}))
      engine::OtherSites::arming(site, others.position_for(*memory, *other, true));
    others.disarming(*memory, engine::head_of(found, site));
    others.last_at(*memory, site);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const RemoveAtExit remove_at_exit;
  layout::Session session;
  layout::parse_session({data, size}, size, session);

  if (FILE* out = std::fopen(path().c_str(), "we")) {
    std::fwrite(data, 1, size, out);
    std::fclose(out);
  }
  // As long as it says, as far as that is bearable: the areas are mostly holes.
  layout::FileHeader header;
  if (size >= sizeof header) {
    std::memcpy(&header, data, sizeof header);
    const uint64_t wanted = std::clamp<uint64_t>(header.file_size, size, uint64_t{16} << 20);
    CHECK(::truncate(path().c_str(), static_cast<off_t>(wanted)) == 0);
  }
  const auto file = ledger::SessionFile::open(path(), ledger::SessionFile::Lock::none);
  CHECK(file);
  if (const auto found = file->read()) {
    look_at(*file, *found);
    share(*found);
  }
  reset(path());
  return 0;
}

std::vector<Input> seeds() {
  using namespace pinprick::layout;
  std::vector<Input> all;
  for (uint32_t bits : {0u, 3u, 5u}) {
    // The finest take 31 KB; scripts/fuzz makes inputs of up to 64.
    const uint64_t blocks = bits == 5 ? 1 : 3;
    const Gap gap = bits == 0 ? Gap::cpu : bits == 3 ? Gap::none : Gap::thread;
    const FileHeader laid_out = lay_out({.mappings = 2,
                                         .objects = 1,
                                         .sites = 2,
                                         .probes = 3,
                                         .functions = 2,
                                         .counters = 3,
                                         .histograms = 2,
                                         .pool_size = blocks * histogram_size(bits),
                                         .name_bytes = 32,
                                         .cpus = 2,
                                         .fraction_bits = bits,
                                         .gap = gap});
    FileHeader header = laid_out;
    header.state = SessionState::armed;
    // Baselines of finer histograms would take more than an input may have.
    const bool has_baseline = bits == 0;
    header.resets = has_baseline ? 2 : 0;
    Input bytes(has_baseline ? baseline_offset(header, header.resets) + baseline_size(header)
                             : header.file_size);
    const auto put = [&](uint64_t offset, const auto& value) {
      std::memcpy(bytes.data() + offset, &value, sizeof value);
    };
    put(0, header);
    for (uint64_t i = 0; i < 2; ++i) {
      put(header.mappings.offset + i * sizeof(MappingEntry),
          MappingEntry{0x7000'0000 + i * 0x1000, 0x1000, MappingEntry::Kind::tables,
                       MappingEntry::Progress::mapped});
      SiteEntry site;
      site.address = 0x5555'1000 + i * 16;
      site.length = site.own = 5;
      site.displaced = 5;
      put(header.sites.offset + i * sizeof(SiteEntry), site);
    }
    for (uint32_t i = 0; i < 3; ++i) {
      ProbeEntry probe;
      probe.site = i % 2;
      probe.kind = i < 2 ? ProbeEntry::Kind::latency : ProbeEntry::Kind::count;
      put(header.probes.offset + i * sizeof(ProbeEntry), probe);
    }
    put(header.functions.offset, FunctionEntry{0x5555'1000, 0, 7});
    put(header.functions.offset + sizeof(FunctionEntry), FunctionEntry{0x5555'1000, 2, 12});
    std::memcpy(bytes.data() + header.names.offset, "object\0read\0write", 18);
    for (uint64_t area = 0; area < 3; ++area) {
      const uint64_t block = end_of_blocks(header, area % blocks * histogram_size(bits));
      put(area_offset(header, area) + time_counters_offset(header, 0) +
              offsetof(TimeCounters, block),
          block - header.pool_offset);
      for (uint64_t cell = 0; cell < 20; ++cell) put(block + cell * 16, cell * 3);
      if (!has_baseline) continue;
      const uint64_t baseline = baseline_offset(header, header.resets) +
                                area * header.histogram_count * baseline_entry_size(header);
      put(baseline, BaselineEntry{{}, 1});
      for (uint64_t cell = 0; cell < 20; ++cell)
        put(baseline + sizeof(BaselineEntry) + cell * 16, cell * 2);
    }
    all.push_back(std::move(bytes));
  }
  return all;
}
