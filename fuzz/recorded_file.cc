// The file of a program's recorded statistics, as a hostile program might leave it.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "fuzzer.h"
#include "layout/recorded_file.h"
#include "ledger/recorded_statistics.h"

namespace {

using namespace pinprick;
using ledger::RecordedFile;
using ledger::RecordedStatistic;

// One for the process; /dev/shm, since that is where such files lie.
const std::string& path() {
  static const std::string name = "/dev/shm/pinprick-fuzz-recorded-" + std::to_string(::getpid());
  return name;
}

struct RemoveAtExit {
  RemoveAtExit() { path(); }  // so that the name outlives this
  ~RemoveAtExit() { ::unlink(path().c_str()); }
};

void look_at(const RecordedStatistic& statistic, uint32_t cpus) {
  CHECK(layout::is_statistic_name(statistic.name));
  CHECK(statistic.bits <= stats::kMaxFractionBits);
  int last = -2;
  for (const stats::CpuHistogram& one : statistic.cpus) {
    CHECK(one.cpu > last && one.cpu < static_cast<int>(cpus));
    last = one.cpu;
    CHECK(one.histogram.bits() == statistic.bits);
  }
  const stats::Histogram total = statistic.total();
  uint64_t least = 0;
  for (double p : {0.0, 0.5, 0.99, 1.0}) {
    const uint64_t value = total.quantile(p);
    CHECK(value >= least);
    least = value;
  }
  for (uint32_t slot = 0; slot < total.cells().size(); ++slot) total.average(slot);
}

// Whatever the file claims, a change keeps to its size.
void change(RecordedFile& file, const std::string& name, off_t size) {
  (void)file.set_running(name, false);
  (void)file.set_running(name, true);
  (void)file.reset(name);
  FILE* const changed = std::fopen(path().c_str(), "re");
  CHECK(changed != nullptr);
  CHECK(std::fseek(changed, 0, SEEK_END) == 0 && std::ftell(changed) == size);
  std::fclose(changed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const RemoveAtExit remove_at_exit;
  if (FILE* out = std::fopen(path().c_str(), "we")) {
    std::fwrite(data, 1, size, out);
    std::fclose(out);
  }
  // As long as it says, as far as that is bearable: the baselines are mostly holes.
  layout::RecordedHeader header;
  off_t length = static_cast<off_t>(size);
  if (size >= sizeof header) {
    std::memcpy(&header, data, sizeof header);
    length = static_cast<off_t>(std::clamp<uint64_t>(header.end, size, uint64_t{16} << 20));
    CHECK(::truncate(path().c_str(), length) == 0);
  }
  auto file = RecordedFile::open(path(), RecordedFile::Access::change);
  if (!file) return 0;
  file->process_lives();
  const auto all = file->read();
  if (!all) return 0;
  CHECK(all->size() <= layout::kMostRecorded);
  for (const RecordedStatistic& one : *all) look_at(one, file->cpu_count());
  for (const RecordedStatistic& one : *all) {
    change(*file, one.name, length);
    break;
  }
  return 0;
}

std::vector<Input> seeds() {
  using namespace pinprick::layout;
  std::vector<Input> all;
  for (uint32_t bits : {0u, 3u}) {
    constexpr uint32_t kCpus = 2;
    RecordedHeader header;
    header.pid = ::getpid();
    header.cpu_count = kCpus;
    const uint64_t size = statistic_size(bits, kCpus);
    header.end = kPageSize + 2 * size;
    // What comes after the last live byte is a hole.
    Input bytes(kPageSize + size + live_size(bits, kCpus));
    const auto put = [&](uint64_t offset, const auto& value) {
      std::memcpy(bytes.data() + offset, &value, sizeof value);
    };
    put(0, header);
    for (uint64_t i = 0; i < 2; ++i) {
      const uint64_t at = kPageSize + i * size;
      StatisticHeader statistic;
      statistic.size = size;
      statistic.state = StatisticHeader::State::used;
      statistic.fraction_bits = bits;
      statistic.control = make_control(true, i == 0 ? 1 : 0, i);
      statistic.name[0] = static_cast<char>('a' + i);
      put(at, statistic);
      for (uint64_t cell = 0; cell < 20; ++cell) {
        put(at + sizeof statistic + sizeof(StatisticCounts) + cell * 16, cell * 3);
        if (i == 0) put(at + baseline_offset(bits, kCpus, 1) + 128 + cell * 16, cell);
      }
    }
    all.push_back(std::move(bytes));
  }
  return all;
}
