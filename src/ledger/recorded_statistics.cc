#include "ledger/recorded_statistics.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/clock.h"
#include "base/machine.h"
#include "ledger/discovery.h"
#include "ledger/runtime_directory.h"
#include "target/procfs.h"

namespace pinprick::ledger {
namespace {

using layout::StatisticHeader;
using Cause = RecordedError::Cause;

// Resets are rare; a statistic that changes more often than this is not what we think it is.
constexpr int kMostRetries = 100;

template <class T>
Result<T, SystemError> read_value(int fd, uint64_t offset) {
  T value;
  if (auto got = read_at(fd, {reinterpret_cast<uint8_t*>(&value), sizeof value}, offset); !got)
    return fail(got.error());
  return value;
}

template <class T>
T value_at(const std::vector<uint8_t>& bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// A value that is less than it was is nonsense, or the reader saw a count before its sum.
uint64_t since(uint64_t now, uint64_t before) {
  return now > before ? now - before : 0;
}

// Reads parts of a statistic's values, less its baseline.
class ValuesReader {
 public:
  ValuesReader(int fd, uint64_t offset, const StatisticHeader& statistic, uint32_t cpus)
      : fd_(fd), values_(offset + sizeof(StatisticHeader)) {
    if (const unsigned baseline = layout::baseline_of(statistic.control); baseline != 0)
      baseline_ = offset + layout::baseline_offset(statistic.fraction_bits, cpus, baseline);
  }

  // Reads `size` bytes at this offset of the values. Returns false if that fails.
  bool load(uint64_t offset, uint64_t size) {
    now_.resize(size);
    before_.resize(baseline_ == 0 ? 0 : size);
    return read_at(fd_, now_, values_ + offset).ok() &&
           (baseline_ == 0 || read_at(fd_, before_, baseline_ + offset).ok());
  }
  uint64_t operator[](uint64_t offset) const {
    const auto now = value_at<uint64_t>(now_, offset);
    return before_.empty() ? now : since(now, value_at<uint64_t>(before_, offset));
  }

 private:
  int fd_;
  uint64_t values_;
  uint64_t baseline_ = 0;
  std::vector<uint8_t> now_, before_;
};

stats::Histogram histogram_in(const ValuesReader& area, unsigned bits) {
  stats::Histogram histogram(bits);
  for (uint32_t slot = 0; slot < stats::slot_count(bits); ++slot) {
    const uint64_t cell = slot * sizeof(stats::Cell);
    const uint64_t count = area[cell + offsetof(stats::Cell, count)];
    if (count != 0) histogram.add(slot, {count, area[cell + offsetof(stats::Cell, sum)]});
  }
  return histogram;
}

// The number of resets is written before the control word, and a pinprick of an older version
// writes only the latter. With the baseline that holds, the number is another one after each of
// both.
uint64_t resets_of(const StatisticHeader& header) {
  constexpr uint64_t kBaselines = 3;
  return header.resets * kBaselines + layout::baseline_of(header.control);
}

std::optional<RecordedStatistic> read_once(int fd, uint64_t offset, const StatisticHeader& header,
                                           uint32_t cpus) {
  RecordedStatistic statistic;
  statistic.name = layout::name_of(header);
  statistic.bits = header.fraction_bits;
  statistic.running = layout::is_running(header.control);
  statistic.created_ns = header.created_ns;
  statistic.resets = resets_of(header);
  ValuesReader reader(fd, offset, header, cpus);
  if (!reader.load(0, sizeof(layout::StatisticCounts))) return std::nullopt;
  statistic.unmatched_starts = reader[offsetof(layout::StatisticCounts, unmatched_starts)];
  statistic.unmatched_ends = reader[offsetof(layout::StatisticCounts, unmatched_ends)];
  statistic.missed = reader[offsetof(layout::StatisticCounts, missed)];
  const uint64_t area = layout::recorded_area_size(statistic.bits);
  for (uint32_t i = 0; i <= cpus; ++i) {
    if (!reader.load(sizeof(layout::StatisticCounts) + i * area, area)) return std::nullopt;
    auto histogram = histogram_in(reader, statistic.bits);
    if (!histogram.cells().empty())
      statistic.cpus.push_back({static_cast<int>(i) - 1, std::move(histogram)});
  }
  return statistic;
}

bool same_statistic(const StatisticHeader& a, const StatisticHeader& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

struct flock whole_file(short type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

stats::Histogram RecordedStatistic::total() const {
  stats::Histogram all(bits);
  for (const stats::CpuHistogram& one : cpus) all.merge(one.histogram);
  return all;
}

Result<RecordedFile, RecordedError> RecordedFile::open(const std::string& path, Access access) {
  auto fd = open_file(path, (access == Access::read ? O_RDONLY : O_RDWR) | O_NOFOLLOW);
  if (!fd) return fail(RecordedError{Cause::system, path, fd.error().number});
  RecordedFile file(*std::move(fd), path);
  struct stat status = {};
  if (::fstat(file.fd_.get(), &status) != 0) return fail(file.error(Cause::system, errno));
  const auto header = read_value<layout::RecordedHeader>(file.fd_.get(), 0);
  if (!header || !layout::is_valid(*header, static_cast<uint64_t>(status.st_size)))
    return fail(file.error(Cause::not_recorded));
  if (!is_trusted_user(status.st_uid, header->pid)) return fail(file.error(Cause::untrusted));
  file.header_ = *header;
  return file;
}

bool RecordedFile::process_lives() const {
  if (std::string_view(header_.boot_id, sizeof header_.boot_id) != boot_id()) return false;
  const auto status = target::read_status(header_.pid);
  return status && status->start_time == header_.start_time && status->state != 'Z' &&
         status->state != 'X';
}

bool RecordedFile::is_in(const std::vector<image::Mapping>& maps) const {
  struct stat status = {};
  return ::fstat(fd_.get(), &status) != 0 ||
         std::any_of(maps.begin(), maps.end(), [&](const image::Mapping& mapping) {
           return mapping.shared && mapping.inode == status.st_ino;
         });
}

Result<std::vector<RecordedFile::Entry>, RecordedError> RecordedFile::entries() const {
  // It may have grown since it was opened.
  const auto header = read_value<layout::RecordedHeader>(fd_.get(), 0);
  struct stat status = {};
  if (!header || ::fstat(fd_.get(), &status) != 0) return fail(error(Cause::not_recorded));
  if (!layout::is_valid(*header, static_cast<uint64_t>(status.st_size)) ||
      header->cpu_count != header_.cpu_count)
    return fail(error(Cause::not_recorded));
  std::vector<Entry> used;
  uint64_t bytes = 0, blocks = 0;
  for (uint64_t offset = kPageSize; offset < header->end; ++blocks) {
    const auto statistic = read_value<StatisticHeader>(fd_.get(), offset);
    if (!statistic || !layout::is_valid(*statistic, *header, offset) ||
        blocks == layout::kMostBlocks)
      return fail(error(Cause::not_recorded));
    if (statistic->state == StatisticHeader::State::used) {
      bytes += layout::values_size(statistic->fraction_bits, header->cpu_count);
      if (used.size() == layout::kMostRecorded || bytes > layout::kMostRecordedBytes)
        return fail(error(Cause::not_recorded));
      used.push_back({offset, *statistic});
    }
    offset += statistic->size;
  }
  return used;
}

Result<RecordedFile::Entry, RecordedError> RecordedFile::entry_of(const std::string& name) const {
  auto all = entries();
  if (!all) return fail(all.error());
  for (const Entry& entry : *all)
    if (layout::name_of(entry.header) == name) return entry;
  return fail(error(Cause::no_statistic));
}

std::optional<RecordedStatistic> RecordedFile::read_entry(const Entry& entry) const {
  layout::RecordedHeader bounds = header_;
  bounds.end = entry.offset + entry.header.size;
  StatisticHeader before = entry.header;
  for (int i = 0; i < kMostRetries; ++i) {
    auto statistic = read_once(fd_.get(), entry.offset, before, header_.cpu_count);
    const auto after = read_value<StatisticHeader>(fd_.get(), entry.offset);
    if (!after || after->state != StatisticHeader::State::used ||
        !layout::is_valid(*after, bounds, entry.offset) ||
        layout::name_of(*after) != layout::name_of(entry.header))
      return std::nullopt;
    if (same_statistic(before, *after)) return statistic;
    before = *after;
  }
  return std::nullopt;
}

Result<std::vector<RecordedStatistic>, RecordedError> RecordedFile::read() const {
  auto all = entries();
  if (!all) return fail(all.error());
  std::vector<RecordedStatistic> statistics;
  for (const Entry& entry : *all)
    if (auto one = read_entry(entry)) statistics.push_back(*std::move(one));
  return statistics;
}

Result<RecordedStatistic, RecordedError> RecordedFile::read(const std::string& name) const {
  auto entry = entry_of(name);
  if (!entry) return fail(entry.error());
  auto statistic = read_entry(*entry);
  if (!statistic) return fail(error(Cause::no_statistic));
  return *std::move(statistic);
}

// Those that write control words take turns. The program's records never wait for the lock.
Result<void, RecordedError> RecordedFile::lock() {
  constexpr int kTries = 1000;
  const struct flock wanted = whole_file(F_WRLCK);
  for (int i = 0; i < kTries; ++i) {
    if (::fcntl(fd_.get(), F_OFD_SETLK, &wanted) == 0) return {};
    if (errno != EAGAIN && errno != EACCES) return fail(error(Cause::system, errno));
    sleep_ns(1'000'000);
  }
  return fail(error(Cause::busy));
}

void RecordedFile::unlock() {
  const struct flock none = whole_file(F_UNLCK);
  ::fcntl(fd_.get(), F_OFD_SETLK, &none);
}

template <class Change>
Result<void, RecordedError> RecordedFile::change(const std::string& name, Change&& change) {
  if (auto locked = lock(); !locked) return locked;
  auto entry = entry_of(name);
  auto done = entry ? change(*entry) : Result<void, RecordedError>(fail(entry.error()));
  unlock();
  return done;
}

// Without the check, a program that changes a statistic of its own could be ended by SIGXFSZ.
Result<void, RecordedError> RecordedFile::write(uint64_t offset, std::span<const uint8_t> bytes) {
  if (!may_have_size(offset + bytes.size())) return fail(error(Cause::system, EFBIG));
  if (auto written = write_at(fd_.get(), bytes, offset); !written)
    return fail(error(Cause::system, written.error().number));
  return {};
}

// The program takes no lock when it removes a statistic and gives its space to another one, which
// must not get what was meant for the first.
Result<void, RecordedError> RecordedFile::write_word(Entry& entry, uint64_t StatisticHeader::*word,
                                                     uint64_t value) {
  const auto now = read_value<StatisticHeader>(fd_.get(), entry.offset);
  if (!now || !same_statistic(*now, entry.header)) return fail(error(Cause::no_statistic));
  uint64_t& own = entry.header.*word;
  own = value;
  const auto* const bytes = reinterpret_cast<const uint8_t*>(&own);
  const auto at = static_cast<uint64_t>(bytes - reinterpret_cast<const uint8_t*>(&entry.header));
  return write(entry.offset + at, {bytes, sizeof own});
}

Result<void, RecordedError> RecordedFile::set_running(const std::string& name, bool running) {
  return change(name, [&](Entry& entry) {
    return write_word(entry, &StatisticHeader::control,
                      layout::with_running(entry.header.control, running));
  });
}

Result<void, RecordedError> RecordedFile::reset(const std::string& name) {
  return change(name, [&](Entry& entry) -> Result<void, RecordedError> {
    const uint64_t control = entry.header.control;
    const uint32_t bits = entry.header.fraction_bits;
    const uint64_t from = entry.offset + sizeof(StatisticHeader);
    const uint64_t to = entry.offset + layout::baseline_offset(bits, header_.cpu_count,
                                                               layout::next_baseline(control));
    const uint64_t size = layout::values_size(bits, header_.cpu_count);
    std::vector<uint8_t> part;
    for (uint64_t done = 0; done < size; done += part.size()) {
      part.resize(std::min<uint64_t>(size - done, uint64_t{1} << 20));
      if (auto copied = read_at(fd_.get(), part, from + done); !copied)
        return fail(error(Cause::system, copied.error().number));
      if (auto copied = write(to + done, part); !copied) return copied;
    }
    if (auto counted = write_word(entry, &StatisticHeader::resets, entry.header.resets + 1);
        !counted)
      return counted;
    return write_word(entry, &StatisticHeader::control, layout::after_reset(control));
  });
}

FoundRecordings find_recordings(std::optional<pid_t> pid, RecordedFile::Access access) {
  FoundRecordings found;
  for (const std::string& path : find_recorded_files(pid)) {
    auto file = RecordedFile::open(path, access);
    // What is looked for by the process's number must be of that process.
    if (file && !names_process(path, file->pid(), file->start_time()))
      found.unreadable.push_back({Cause::untrusted, path, 0});
    else if (file)
      found.files.push_back(*std::move(file));
    else if (file.error().system_error != ENOENT)
      found.unreadable.push_back(file.error());
  }
  return found;
}

}  // namespace pinprick::ledger
