#include "ledger/session_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <set>
#include <tuple>

#include "ledger/new_file.h"
#include "ledger/runtime_directory.h"

namespace pinprick::ledger {
namespace {

struct flock write_lock() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

// Returns 0, or an errno; never waits.
int lock(int fd) {
  const struct flock wanted = write_lock();
  return ::fcntl(fd, F_OFD_SETLK, &wanted) == 0 ? 0 : errno;
}

// What stands in keys for the probes that add up floating-point numbers.
std::set<uint64_t> owners_of_reals(const layout::Session& session) {
  std::set<uint64_t> owners;
  const bool has_some =
      std::any_of(session.functions.begin(), session.functions.end(), layout::adds_reals);
  if (!has_some) return owners;
  const auto cells = session.cells_of_probes();
  for (size_t i = 0; i < session.probes.size(); ++i)
    if (session.probe_name(i).is_sum_real)
      owners.insert(layout::owner_of_keys(session.header, session.probes[i], cells[i]));
  return owners;
}

}  // namespace

Result<SessionFile, FileError> SessionFile::create(const std::string& path,
                                                   const layout::Session& session) {
  auto file = open_unnamed(path);
  if (!file) return file;
  auto done = file->fill(session);
  if (done) done = file->give_name();
  if (done) note_session_file(path);
  if (done) return file;
  if (file->has_name_) file->remove();
  return fail(done.error());
}

// On a file system without unnamed files (an old overlay, say) the file has its name at once. There
// a controller that dies within fill() leaves a file that does not parse; but it has not touched
// the process either.
Result<SessionFile, FileError> SessionFile::open_unnamed(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  auto made = make_new_file(folder.c_str(), path.c_str());
  if (!made) {
    const int error = made.error().number;
    const bool exists = error == EEXIST;
    return fail(
        FileError{exists ? FileError::Cause::exists : FileError::Cause::system, path, error, {}});
  }
  SessionFile file(std::move(made->descriptor), path);
  file.has_name_ = made->has_name;
  return file;
}

Result<void, FileError> SessionFile::fill(const layout::Session& session) {
  if (const int error = lock(fd_.get()); error != 0) return fail(system_error(error));
  const layout::FileHeader& header = session.header;
  if (::ftruncate(fd_.get(), static_cast<off_t>(header.file_size)) != 0)
    return fail(no_space(errno, header.file_size));
  const uint64_t first = first_blocks(header);
  const uint64_t reserved =
      header.pool_offset == 0 ? header.file_size : layout::end_of_blocks(header, first);
  // On a file system that cannot reserve space, this writes zeros.
  if (const int error = ::posix_fallocate(fd_.get(), 0, static_cast<off_t>(reserved)); error != 0)
    return fail(no_space(error, reserved));
  if (auto limited = limit_pool(header, first); !limited) return limited;
  if (auto written = write_header(session.header); !written) return written;
  constexpr uint64_t kSecond = 1'000'000'000;
  const uint64_t timeout = (kSecond << 32) / std::max<uint64_t>(header.ns_multiplier, 1);
  if (header.loader_handshake_offset != 0) {
    layout::LoaderHandshake handshake;
    handshake.timeout = timeout;
    if (auto written = write(header.loader_handshake_offset, &handshake, sizeof handshake);
        !written)
      return written;
  }
  if (header.exec_handshake_offset != 0) {
    layout::ExecHandshake handshake;
    handshake.timeout = timeout;
    if (auto written = write(header.exec_handshake_offset, &handshake, sizeof handshake); !written)
      return written;
  }
  return write_tables(session);
}

Result<void, FileError> SessionFile::give_name() {
  if (has_name_) return {};
  if (auto named = name_file(fd_.get(), path_.c_str()); !named) {
    const int error = named.error().number;
    if (error == EEXIST) return fail(FileError{FileError::Cause::exists, path_, error, {}});
    return fail(system_error(error));
  }
  has_name_ = true;
  return {};
}

Result<SessionFile, FileError> SessionFile::open(const std::string& path, Lock mode) {
  auto fd = open_file(path, (mode == Lock::none ? O_RDONLY : O_RDWR) | O_NOFOLLOW);
  if (!fd) return fail(FileError{FileError::Cause::system, path, fd.error().number, {}});
  SessionFile file(*std::move(fd), path);
  if (mode == Lock::none) return file;
  if (const int error = lock(file.fd_.get()); error != 0)
    return fail(FileError{FileError::Cause::locked, path, error, {}});
  return file;
}

std::optional<uid_t> SessionFile::owner() const {
  struct stat status = {};
  return ::fstat(fd_.get(), &status) == 0 ? std::optional(status.st_uid) : std::nullopt;
}

bool SessionFile::is_locked() const {
  struct flock question = write_lock();
  return ::fcntl(fd_.get(), F_OFD_GETLK, &question) == 0 && question.l_type != F_UNLCK;
}

Result<layout::Session, FileError> SessionFile::read(uint64_t most) const {
  struct stat status = {};
  if (::fstat(fd_.get(), &status) != 0) return fail(system_error(errno));
  const auto size = static_cast<uint64_t>(status.st_size);
  const auto bad = [&](layout::ParseError error) {
    return fail(FileError{FileError::Cause::not_a_session, path_, 0, error});
  };
  if (size < sizeof(layout::FileHeader)) return bad(layout::ParseError::truncated);
  layout::FileHeader header;
  if (auto got = read_at(fd_.get(), {reinterpret_cast<uint8_t*>(&header), sizeof header}, 0); !got)
    return fail(system_error(got.error().number));
  if (auto error = layout::check_header(header, size)) return bad(*error);
  if (header.areas_offset > most)
    return fail(FileError{FileError::Cause::untrusted, path_, 0, {}, 0});
  // Ours have no holes there. One that is little else takes no space of its owner, but our memory.
  // Some file systems compress: others are trusted less that this is the reason.
  constexpr uint64_t kBlock = 512, kMostCompressed = 64, kMostCompressedOfOthers = 2;
  const bool is_others = status.st_uid != 0 && status.st_uid != ::geteuid();
  if (static_cast<uint64_t>(status.st_blocks) * kBlock <
      header.areas_offset / (is_others ? kMostCompressedOfOthers : kMostCompressed))
    return bad(layout::ParseError::truncated);
  std::vector<uint8_t> bytes(header.areas_offset);
  if (auto got = read_at(fd_.get(), bytes, 0); !got) return fail(system_error(got.error().number));
  layout::Session session;
  if (auto error = layout::parse_session(bytes, size, session)) return bad(*error);
  return session;
}

Result<void, FileError> SessionFile::write(uint64_t offset, const void* bytes, size_t size) {
  auto written = write_at(fd_.get(), {static_cast<const uint8_t*>(bytes), size}, offset);
  if (!written) return fail(system_error(written.error().number));
  return {};
}

Result<void, FileError> SessionFile::write_header(const layout::FileHeader& header) {
  return write(0, &header, sizeof header);
}

// Small tables are written at once, with the zeros between them.
Result<void, FileError> SessionFile::write_tables(const layout::Session& session) {
  constexpr uint64_t kSmall = 64 << 10;
  const uint64_t begin = session.header.mappings.offset;
  const uint64_t end = session.header.names.offset + session.names.size();
  std::vector<uint8_t> all(begin < end && end - begin <= kSmall ? end - begin : 0);
  const auto put = [&](const layout::Section& section,
                       const auto& entries) -> Result<void, FileError> {
    const size_t size = entries.size() * sizeof entries[0];
    const bool is_inside = section.offset >= begin && section.offset + size <= end;
    if (all.empty() || !is_inside) return write(section.offset, entries.data(), size);
    if (size != 0) std::memcpy(all.data() + (section.offset - begin), entries.data(), size);
    return {};
  };
  const layout::FileHeader& header = session.header;
  for (auto result :
       {put(header.mappings, session.mappings), put(header.objects, session.objects),
        put(header.sites, session.sites), put(header.probes, session.probes),
        put(header.functions, session.functions), put(header.spans, session.spans),
        put(header.switches, session.switches), put(header.semaphores, session.semaphores),
        put(header.point_sites, session.point_sites), put(header.names, session.names)})
    if (!result) return result;
  return all.empty() ? Result<void, FileError>() : write(begin, all.data(), all.size());
}

Result<void, FileError> SessionFile::write_semaphores(const layout::Session& session) {
  return write(session.header.semaphores.offset, session.semaphores.data(),
               session.semaphores.size() * sizeof(layout::SemaphoreEntry));
}

Result<void, FileError> SessionFile::write_mappings(const layout::Session& session) {
  return write(session.header.mappings.offset, session.mappings.data(),
               session.mappings.size() * sizeof(layout::MappingEntry));
}

Result<void, FileError> SessionFile::write_mapping(const layout::Session& session, size_t index) {
  return write(session.header.mappings.offset + index * sizeof(layout::MappingEntry),
               &session.mappings[index], sizeof(layout::MappingEntry));
}

std::vector<uint64_t> SessionFile::sum_counters(const layout::Session& session, uint64_t first,
                                                size_t count) const {
  std::vector<uint64_t> sums(count);
  std::vector<uint64_t> area(count);
  for (uint64_t i = 0; i <= session.header.cpu_count; ++i) {
    auto got = read_at(fd_.get(), {reinterpret_cast<uint8_t*>(area.data()), count * 8},
                       layout::area_offset(session.header, i) + first);
    if (!got) continue;
    for (size_t p = 0; p < count; ++p) sums[p] += area[p];
  }
  return sums;
}

std::vector<uint64_t> SessionFile::read_counters(const layout::Session& session) const {
  return sum_counters(session, layout::counter_offset(0), session.header.counter_count);
}

std::vector<uint64_t> SessionFile::read_sums(const layout::Session& session) const {
  if (session.header.has_sums == 0) return {};
  const auto reals = owners_of_reals(session);
  std::vector<bool> are_real(session.header.counter_count);
  for (size_t i = 0; i < are_real.size() && !reals.empty(); ++i)
    are_real[i] = reals.contains(layout::counter_offset(i));
  return sums_of(session, layout::sums_offset(session.header), are_real);
}

// Adds up the sums of all areas, which are integers that wrap or floating-point numbers.
std::vector<uint64_t> SessionFile::sums_of(const layout::Session& session, uint64_t first,
                                           const std::vector<bool>& are_real) const {
  std::vector<uint64_t> sums(are_real.size()), area(are_real.size());
  for (uint64_t i = 0; i <= session.header.cpu_count; ++i) {
    auto got = read_at(fd_.get(), {reinterpret_cast<uint8_t*>(area.data()), area.size() * 8},
                       layout::area_offset(session.header, i) + first);
    if (!got) continue;
    for (size_t p = 0; p < area.size(); ++p) sums[p] = layout::added(sums[p], area[p], are_real[p]);
  }
  return sums;
}

SessionFile::Rests SessionFile::read_rests(const layout::Session& session) const {
  const layout::FileHeader& header = session.header;
  if (header.keys_offset == 0) return {};
  const uint64_t first = layout::rest_offset(header, 0);
  Rests rests = {sum_counters(session, first, header.histogram_count)};
  if (header.has_sums != 0) {
    const auto reals = owners_of_reals(session);
    std::vector<bool> are_real(header.histogram_count);
    for (size_t i = 0; i < are_real.size() && !reals.empty(); ++i)
      are_real[i] = reals.contains(layout::rest_offset(header, i));
    rests.sums = sums_of(session, first + layout::sums_offset(header), are_real);
  }
  return rests;
}

std::vector<layout::Extremes> SessionFile::read_extremes(const layout::Session& session) const {
  return read_extremes_at(session, layout::extremes_offset(session.header));
}

std::vector<layout::Extremes> SessionFile::read_extremes(const layout::Session& session,
                                                         uint64_t interval) const {
  return read_extremes_at(session, layout::extremes_offset(session.header, interval));
}

std::vector<layout::Extremes> SessionFile::read_extremes_at(const layout::Session& session,
                                                            uint64_t offset) const {
  if (session.header.extremes_offset == 0) return {};
  std::vector<layout::Extremes> all(layout::extremes_count(session.header));
  auto* const bytes = reinterpret_cast<uint8_t*>(all.data());
  if (!read_at(fd_.get(), {bytes, all.size() * sizeof all[0]}, offset))
    std::fill(all.begin(), all.end(), layout::Extremes());
  return all;
}

// The table of the next interval has what hits have kept of the one before the last, and of the
// last, if they were stopped between reading its number and this. It is cleared while no hit means
// it.
Result<void, FileError> SessionFile::start_interval(layout::Session& session) {
  layout::FileHeader& header = session.header;
  if (header.extremes_offset == 0) return {};
  const std::vector<layout::Extremes> empty(layout::extremes_count(header));
  ++header.interval;
  auto cleared = write(layout::extremes_offset(header, header.interval), empty.data(),
                       empty.size() * sizeof empty[0]);
  if (!cleared) return cleared;
  return write(offsetof(layout::FileHeader, interval), &header.interval, sizeof header.interval);
}

std::vector<KeyHits> SessionFile::read_keys(const layout::Session& session,
                                            const std::vector<layout::Extremes>& extremes) const {
  const layout::FileHeader& header = session.header;
  // What was complete in the first copy is whole in the second: a copy does not take an entry's two
  // words at one moment.
  std::vector<layout::KeyEntry> first(layout::key_count(header)), entries(first.size());
  for (auto* const copy : {&first, &entries})
    if (first.empty() ||
        !read_at(fd_.get(),
                 {reinterpret_cast<uint8_t*>(copy->data()), copy->size() * sizeof first[0]},
                 header.keys_offset))
      return {};
  const auto hits = sum_counters(session, layout::key_counter_offset(header, 0), entries.size());
  std::vector<uint64_t> sums(entries.size());
  const auto reals = owners_of_reals(session);
  if (header.has_sums != 0) {
    std::vector<bool> are_real(entries.size());
    for (size_t i = 0; i < entries.size() && !reals.empty(); ++i)
      are_real[i] = reals.contains(first[i].owner - 1);
    sums = sums_of(session, layout::key_counter_offset(header, 0) + layout::sums_offset(header),
                   are_real);
  }
  const uint64_t first_extremes = layout::key_counter_offset(header, 0) / sizeof(uint64_t);
  const auto extremes_of = [&](size_t entry) {
    return first_extremes + entry < extremes.size() ? extremes[first_extremes + entry]
                                                    : layout::Extremes();
  };
  std::vector<bool> has_recorded(entries.size());
  for (size_t i = 0; i < entries.size() && header.has_key_times != 0; ++i)
    has_recorded[i] = layout::owns_times(header, first[i].owner - 1);
  auto recorded = read_recorded_by_keys(session, has_recorded);
  std::vector<KeyHits> keys;
  for (size_t i = 0; i < entries.size(); ++i) {
    const uint64_t owner = first[i].owner - 1;
    if (has_recorded[i]) {
      if (recorded[i].histogram.count() != 0 || recorded[i].losses.total() != 0)
        keys.push_back({.owner = owner,
                        .key = entries[i].value,
                        .hits = 0,
                        .sum = 0,
                        .extremes = {},
                        .recorded = std::move(recorded[i])});
    } else if (hits[i] != 0 && layout::owns_counter(header, owner)) {
      keys.push_back({owner, entries[i].value, hits[i], sums[i], extremes_of(i)});
    }
  }
  // Two threads may have entered one key at the same moment.
  std::sort(keys.begin(), keys.end(), [](const KeyHits& a, const KeyHits& b) {
    return std::tie(a.owner, a.key) < std::tie(b.owner, b.key);
  });
  size_t last = 0;
  for (size_t i = 1; i < keys.size(); ++i)
    if (keys[i].owner == keys[last].owner && keys[i].key == keys[last].key) {
      keys[last].hits += keys[i].hits;
      keys[last].sum = layout::added(keys[last].sum, keys[i].sum, reals.contains(keys[i].owner));
      keys[last].extremes.add(keys[i].extremes);
      if (!keys[i].recorded) continue;
      keys[last].recorded->histogram.merge(keys[i].recorded->histogram);
      keys[last].recorded->losses += keys[i].recorded->losses;
    } else if (++last != i) {
      keys[last] = std::move(keys[i]);
    }
  if (!keys.empty()) keys.resize(last + 1);
  return keys;
}

std::vector<ReadText> SessionFile::read_texts(const layout::Session& session) const {
  return read_texts_from(session, 1);
}

std::vector<ReadText> SessionFile::read_texts_from(const layout::Session& session,
                                                   uint64_t number) const {
  const layout::FileHeader& header = session.header;
  if (header.texts_offset == 0) return {};
  layout::TextsHeader table;
  if (!read_at(fd_.get(), {reinterpret_cast<uint8_t*>(&table), sizeof table}, header.texts_offset))
    return {};
  const uint64_t taken = std::min(table.taken, layout::text_count(header.text_log2));
  std::vector<layout::TextEntry> entries(taken - std::min(taken, number - 1));
  const uint64_t first = header.texts_offset + layout::text_entries_offset(header.text_log2) +
                         (number - 1) * sizeof(layout::TextEntry);
  if (entries.empty() ||
      !read_at(fd_.get(),
               {reinterpret_cast<uint8_t*>(entries.data()), entries.size() * sizeof entries[0]},
               first))
    return {};
  std::vector<ReadText> texts;
  texts.reserve(entries.size());
  for (const layout::TextEntry& one : entries) {
    const bool is_pair = one.length == PP_TEXT_PAIR;
    ReadText& text = texts.emplace_back();
    if (is_pair) {
      uint64_t numbers[2] = {};
      std::memcpy(numbers, one.text, sizeof numbers);
      text.pair = {numbers[0], numbers[1]};
    } else if (const uint64_t frames = one.length - PP_TEXT_STACK;
               frames != 0 && frames <= PP_STACK_PIECE) {
      text.frames.resize(frames + 1);
      std::memcpy(text.frames.data(), one.text, frames * sizeof(uint64_t));
      std::memcpy(&text.frames.back(), one.text + PP_STACK_LINK, sizeof(uint64_t));
    } else {
      constexpr uint64_t kLength = PP_TEXT_CUT - 1;
      text.text.assign(one.text, std::min<size_t>(one.length & kLength, sizeof one.text));
      text.is_cut = (one.length & PP_TEXT_CUT) != 0;
    }
  }
  return texts;
}

std::vector<uint64_t> SessionFile::read_unread(const layout::Session& session) const {
  if (session.header.has_unread == 0) return {};
  return sum_counters(session, layout::unread_offset(session.header, 0), session.probes.size());
}

std::vector<uint64_t> SessionFile::read_passed(const layout::Session& session) const {
  if (session.header.event_log2 == 0) return {};
  return sum_counters(session, layout::passed_offset(session.header, 0), session.probes.size());
}

std::vector<uint64_t> SessionFile::read_dropped(const layout::Session& session) const {
  if (session.header.event_log2 == 0) return {};
  return sum_counters(session, layout::dropped_offset(session.header, 0), session.probes.size());
}

std::vector<Recorded> SessionFile::read_recorded_by_keys(const layout::Session& session,
                                                         const std::vector<bool>& wanted) const {
  const layout::FileHeader& header = session.header;
  if (header.has_key_times == 0) return {};
  std::vector<Recorded> all(wanted.size(), {stats::Histogram(header.fraction_bits), {}});
  for (uint64_t area = 0; area <= header.cpu_count; ++area) {
    const auto counters = read_time_counters_at(
        layout::area_offset(header, area) + layout::key_times_offset(header, 0), wanted.size());
    for (size_t i = 0; i < counters.size(); ++i) {
      if (!wanted[i]) continue;
      all[i].losses[layout::Loss::missed] += counters[i].missed;
      all[i].histogram.merge(read_block(session, counters[i].block));
    }
  }
  return all;
}

std::vector<layout::TimeCounters> SessionFile::read_time_counters_at(uint64_t offset,
                                                                     uint64_t count) const {
  std::vector<layout::TimeCounters> counters(count);
  if (!read_at(fd_.get(),
               {reinterpret_cast<uint8_t*>(counters.data()), counters.size() * sizeof counters[0]},
               offset))
    counters.clear();
  return counters;
}

std::vector<layout::TimeCounters> SessionFile::read_time_counters(const layout::Session& session,
                                                                  uint64_t area) const {
  return read_time_counters_at(
      layout::area_offset(session.header, area) + layout::time_counters_offset(session.header, 0),
      session.header.histogram_count);
}

std::vector<layout::Losses> SessionFile::read_losses(const layout::Session& session) const {
  using layout::Loss;
  std::vector<layout::Losses> sums(session.header.histogram_count);
  // The cells of spans, and of gaps, are layout::SpanCounters.
  static_assert(
      offsetof(layout::SpanCounters, repeated) == offsetof(layout::TimeCounters, unwound) &&
      offsetof(layout::SpanCounters, unmatched) == offsetof(layout::TimeCounters, abandoned));
  const uint64_t calls = layout::first_span_of(session.header);
  for (uint64_t i = 0; i <= session.header.cpu_count; ++i) {
    const auto area = read_time_counters(session, i);
    for (size_t histogram = 0; histogram < area.size(); ++histogram) {
      layout::TimeCounters before;
      if (session.header.resets != 0) before = read_baseline(session, i, histogram).calls;
      const bool is_of_calls = histogram < calls;
      const layout::TimeCounters& now = area[histogram];
      layout::Losses& sum = sums[histogram];
      sum[Loss::missed] += now.missed - before.missed;
      sum[is_of_calls ? Loss::unwound : Loss::repeated] += now.unwound - before.unwound;
      sum[is_of_calls ? Loss::abandoned : Loss::unmatched] += now.abandoned - before.abandoned;
      if (is_of_calls) sum[Loss::from_generated] += now.from_generated - before.from_generated;
    }
  }
  const auto unread = read_unread(session), dropped = read_dropped(session);
  const auto probes = session.probes_of_histograms();
  for (size_t i = 0; i < probes.size() && i < sums.size(); ++i) {
    if (!unread.empty()) sums[i][Loss::unread] = unread[probes[i]];
    if (!dropped.empty()) sums[i][Loss::dropped] = dropped[probes[i]];
  }
  return sums;
}

// The per-CPU areas must leave blocks for the shared area, which threads use that find no block of
// their CPU: in the full pool one for each histogram, before that a quarter of the pool, or half of
// it if there are keys.
Result<void, FileError> SessionFile::limit_pool(const layout::FileHeader& header, uint64_t bytes) {
  if (header.pool_offset == 0) return {};
  const bool all = bytes == header.pool_size;
  const uint64_t shared =
      layout::blocks_in_area(header) * layout::histogram_size(header.fraction_bits);
  const uint64_t own = header.pool_size - std::min(header.pool_size, shared);
  const uint64_t left = bytes / (header.has_key_times == 0 ? 4 : 2);
  const uint64_t limits[] = {bytes, all ? own : std::min(own, bytes - left)};
  static_assert(offsetof(layout::PoolHeader, own_limit) ==
                offsetof(layout::PoolHeader, limit) + sizeof(uint64_t));
  return write(header.pool_offset + offsetof(layout::PoolHeader, limit), limits, sizeof limits);
}

// With keys, there is a block for each in the shared area at first, unless there are very many.
uint64_t SessionFile::first_blocks(const layout::FileHeader& header) {
  const uint64_t bytes =
      header.has_key_times == 0
          ? kFirstBlocks
          : 2 * layout::blocks_in_area(header) * layout::histogram_size(header.fraction_bits);
  return std::min({bytes, kFirstBlocks, header.pool_size});
}

layout::PoolHeader SessionFile::read_pool(const layout::Session& session) const {
  layout::PoolHeader pool;
  if (session.header.pool_offset == 0) return pool;
  static_cast<void>(read_at(fd_.get(), {reinterpret_cast<uint8_t*>(&pool), sizeof pool},
                            session.header.pool_offset));
  return pool;
}

bool SessionFile::extend_pool(const layout::Session& session, uint64_t& bytes) {
  const layout::FileHeader& header = session.header;
  if (read_pool(session).taken < bytes / 2 || bytes >= header.pool_size) return false;
  const uint64_t more = std::min(header.pool_size, 2 * bytes);
  const uint64_t begin = layout::end_of_blocks(header, bytes);
  const uint64_t end = layout::end_of_blocks(header, more);
  if (::posix_fallocate(fd_.get(), static_cast<off_t>(begin), static_cast<off_t>(end - begin)) !=
          0 ||
      !limit_pool(header, more))
    return false;
  bytes = more;
  return true;
}

std::vector<stats::Cell> SessionFile::read_cells(const layout::Session& session,
                                                 uint64_t offset) const {
  const layout::FileHeader& header = session.header;
  const auto block = layout::block_at(header, offset, header.fraction_bits);
  if (!block) return {};
  std::vector<stats::Cell> cells(stats::slot_count(header.fraction_bits));
  if (!read_at(fd_.get(),
               {reinterpret_cast<uint8_t*>(cells.data()), cells.size() * sizeof cells[0]}, *block))
    return {};
  return cells;
}

stats::Histogram SessionFile::read_block(const layout::Session& session, uint64_t offset) const {
  stats::Histogram histogram(session.header.fraction_bits);
  const auto cells = read_cells(session, offset);
  for (uint32_t slot = 0; slot < cells.size(); ++slot) histogram.add(slot, cells[slot]);
  return histogram;
}

std::vector<uint64_t> SessionFile::read_hits(const layout::Session& session) const {
  std::vector<uint64_t> hits(session.header.histogram_count);
  for (uint64_t i = 0; i <= session.header.cpu_count; ++i) {
    const auto area = read_time_counters(session, i);
    for (size_t histogram = 0; histogram < area.size(); ++histogram) {
      const layout::TimeCounters& lost = area[histogram];
      hits[histogram] += lost.missed + lost.unwound + lost.abandoned + lost.from_generated;
      for (const stats::Cell& cell : read_cells(session, lost.block)) hits[histogram] += cell.count;
    }
  }
  return hits;
}

// Without a block now, there was none before: a baseline then says nothing.
stats::Histogram SessionFile::read_recorded(const layout::Session& session, uint64_t area,
                                            uint64_t histogram, uint64_t block) const {
  stats::Histogram recorded = read_block(session, block);
  if (session.header.resets == 0 || block == 0) return recorded;
  return recorded.since(read_baseline(session, area, histogram).histogram);
}

std::vector<stats::Histogram> SessionFile::read_histograms(const layout::Session& session) const {
  const layout::FileHeader& header = session.header;
  std::vector<stats::Histogram> sums(header.histogram_count,
                                     stats::Histogram(header.fraction_bits));
  for (uint64_t i = 0; i <= header.cpu_count; ++i) {
    const auto area = read_time_counters(session, i);
    for (size_t histogram = 0; histogram < area.size(); ++histogram) {
      sums[histogram].merge(read_recorded(session, i, histogram, area[histogram].block));
    }
  }
  return sums;
}

std::vector<stats::CpuHistogram> SessionFile::read_by_cpu(const layout::Session& session,
                                                          uint64_t histogram) const {
  std::vector<stats::CpuHistogram> all;
  for (uint64_t i = 0; i <= session.header.cpu_count; ++i) {
    const auto area = read_time_counters(session, i);
    if (histogram >= area.size()) continue;
    auto recorded = read_recorded(session, i, histogram, area[histogram].block);
    if (recorded.count() != 0) all.push_back({static_cast<int>(i) - 1, std::move(recorded)});
  }
  return all;
}

SessionFile::Baseline SessionFile::read_baseline(const layout::Session& session, uint64_t area,
                                                 uint64_t histogram) const {
  const layout::FileHeader& header = session.header;
  const uint64_t at =
      layout::baseline_offset(header, header.resets) +
      (area * header.histogram_count + histogram) * layout::baseline_entry_size(header);
  Baseline baseline = {{}, stats::Histogram(header.fraction_bits)};
  layout::BaselineEntry entry;
  // What was never written, after the end of the file, is a hole as well.
  if (!read_at(fd_.get(), {reinterpret_cast<uint8_t*>(&entry), sizeof entry}, at)) return baseline;
  baseline.calls = entry.calls;
  std::vector<stats::Cell> cells(stats::slot_count(header.fraction_bits));
  if (entry.has_cells == 0 ||
      !read_at(fd_.get(),
               {reinterpret_cast<uint8_t*>(cells.data()), cells.size() * sizeof cells[0]},
               at + sizeof entry))
    return baseline;
  for (uint32_t slot = 0; slot < cells.size(); ++slot) baseline.histogram.add(slot, cells[slot]);
  return baseline;
}

Result<void, FileError> SessionFile::write_baseline(const layout::Session& session,
                                                    uint64_t resets) {
  const layout::FileHeader& header = session.header;
  const uint64_t begin = layout::baseline_offset(header, resets);
  const auto end = static_cast<off_t>(begin + layout::baseline_size(header));
  struct stat status = {};
  if (::fstat(fd_.get(), &status) != 0) return fail(system_error(errno));
  if (status.st_size < end) {
    if (::ftruncate(fd_.get(), end) != 0) return fail(no_space(errno, end));
  } else {
    // What was there is of no use since the other one holds. It only takes space where it cannot
    // be given back.
    static_cast<void>(::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                  static_cast<off_t>(begin), end - static_cast<off_t>(begin)));
  }
  std::vector<uint8_t> bytes(layout::baseline_entry_size(header));
  uint64_t at = begin;
  for (uint64_t i = 0; i <= header.cpu_count; ++i) {
    const auto area = read_time_counters(session, i);
    for (uint64_t histogram = 0; histogram < header.histogram_count; ++histogram) {
      layout::BaselineEntry entry;
      uint64_t size = sizeof entry;
      if (histogram < area.size()) entry.calls = area[histogram];
      const auto block = layout::block_at(header, entry.calls.block, header.fraction_bits);
      const uint64_t cells = layout::histogram_size(header.fraction_bits);
      if (block && read_at(fd_.get(), {bytes.data() + sizeof entry, cells}, *block)) {
        entry.has_cells = 1;
        size += cells;
      }
      std::memcpy(bytes.data(), &entry, sizeof entry);
      if (auto written = write(at, bytes.data(), size); !written)
        return fail(no_space(written.error().system_error, end));
      at += layout::baseline_entry_size(header);
    }
  }
  return {};
}

Result<void, FileError> SessionFile::reset(layout::Session& session) {
  const uint64_t resets = session.header.resets + 1;
  if (auto written = write_baseline(session, resets); !written) return written;
  if (auto written = write(offsetof(layout::FileHeader, resets), &resets, sizeof resets); !written)
    return written;
  session.header.resets = resets;
  return {};
}

std::optional<uint64_t> SessionFile::resets() const {
  uint64_t resets = 0;
  if (!read_at(fd_.get(), {reinterpret_cast<uint8_t*>(&resets), sizeof resets},
               offsetof(layout::FileHeader, resets)))
    return std::nullopt;
  return resets;
}

Result<void, FileError> SessionFile::forget_gaps(const layout::Session& session) {
  const layout::FileHeader& header = session.header;
  if (header.gap != layout::Gap::cpu) return {};
  constexpr uint64_t kNone = 0;
  for (uint64_t i = 0; i <= header.cpu_count; ++i)
    if (auto written = write(layout::area_offset(header, i) + layout::gap_word_offset(header),
                             &kNone, sizeof kNone);
        !written)
      return written;
  return {};
}

void SessionFile::write_controller_gone(const layout::Session& session) {
  constexpr uint32_t kYes = 1;
  if (const uint64_t at = session.header.loader_handshake_offset; at != 0)
    static_cast<void>(
        write(at + offsetof(layout::LoaderHandshake, controller_gone), &kYes, sizeof kYes));
  if (const uint64_t at = session.header.exec_handshake_offset; at != 0)
    static_cast<void>(
        write(at + offsetof(layout::ExecHandshake, controller_gone), &kYes, sizeof kYes));
}

// The kernel grants a lease only to the one open file that there is. A process that opens the file
// while we have it is made to wait until we give it back, of which the kernel tells us by a signal.
bool SessionFile::has_other_users() const {
  // A signal that is ignored by default; the usual one would end us.
  if (::fcntl(fd_.get(), F_SETSIG, SIGURG) != 0 || ::fcntl(fd_.get(), F_SETLEASE, F_WRLCK) != 0)
    return true;
  static_cast<void>(::fcntl(fd_.get(), F_SETLEASE, F_UNLCK));
  return false;
}

void SessionFile::remove() {
  const size_t slash = path_.rfind('/');
  const Fd folder(
      ::open(path_.substr(0, slash).c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  const char* const name = path_.c_str() + slash + 1;
  struct stat there = {}, ours = {};
  if (folder && ::fstatat(folder.get(), name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
      ::fstat(fd_.get(), &ours) == 0 && there.st_dev == ours.st_dev && there.st_ino == ours.st_ino)
    ::unlinkat(folder.get(), name, 0);
  forget_session_file(path_);
}

}  // namespace pinprick::ledger
