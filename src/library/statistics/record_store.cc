#include "library/statistics/record_store.h"

#include <sys/mman.h>
#include <sys/rseq.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "base/clock.h"
#include "base/machine.h"
#include "ledger/recorded_statistics.h"
#include "library/process/children.h"
#include "library/process/held_signals.h"
#include "runtime/thread.h"

namespace pinprick::library {
namespace {

using layout::StatisticHeader;
using State = StatisticHeader::State;

std::mutex mutex;

// The lock. Its holder takes no signal, so that a record in a signal handler never waits for the
// thread that it interrupts; and its own hits of probes run no handlers, which might record, too.
class Exclusive {
 public:
  Exclusive() { mutex.lock(); }
  Exclusive(const Exclusive&) = delete;
  Exclusive& operator=(const Exclusive&) = delete;
  ~Exclusive() { mutex.unlock(); }

 private:
  const runtime::InLibrary in_library_;
  const HeldSignals signals_;
};

// Held by the thread that forks, in parent and child. Several threads may be about to fork, and
// wait for the lock: what each of them keeps until then is its own. It has no destructor that the
// thread would have to register: that takes the loader's lock, which a thread in dlopen() holds
// while it runs constructors that may wait for ours.
alignas(Exclusive) constinit thread_local std::byte exclusive_of_fork[sizeof(Exclusive)] = {};
void lock_for_fork() {
  new (exclusive_of_fork) Exclusive;
}
void unlock_after_fork() {
  std::launder(reinterpret_cast<Exclusive*>(exclusive_of_fork))->~Exclusive();
}

constexpr uint64_t kFirstSegment = uint64_t{1} << 20;
constexpr size_t kMostDoublings = 10;

void* map_private(uint64_t size, void* address = nullptr) {
  return ::mmap(address, size, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (address != nullptr ? MAP_FIXED : 0),
                -1, 0);
}

StatisticHeader header_of_unused(unsigned bits, uint32_t cpus) {
  StatisticHeader header;
  header.size = layout::statistic_size(bits, cpus);
  header.state = State::free;
  header.fraction_bits = bits;
  return header;
}

StatisticHeader header_of_new(std::string_view name, unsigned bits, uint32_t cpus) {
  StatisticHeader header = header_of_unused(bits, cpus);
  header.state = State::used;
  header.control = layout::make_control(true, 0, 0);
  header.created_ns = realtime_ns();
  std::copy(name.begin(), name.end(), header.name);
  return header;
}

SystemError system_error_of(const ledger::RecordedError& error) {
  using Cause = ledger::RecordedError::Cause;
  switch (error.cause) {
    case Cause::system:
      return {error.system_error};
    case Cause::busy:
      return {EBUSY};
    case Cause::no_statistic:
      return {ENOENT};
    default:
      return {EIO};
  }
}

template <class Change>
Result<void, SystemError> change_in_file(const std::string& path, Change&& change) {
  auto file = ledger::RecordedFile::open(path, ledger::RecordedFile::Access::change);
  if (!file) return fail(system_error_of(file.error()));
  if (auto changed = change(*file); !changed) return fail(system_error_of(changed.error()));
  return {};
}

}  // namespace

// A fork may come while get() is still making the store: its child must not wait for that.
static RecordStore* known_to_forks = nullptr;

RecordStore& RecordStore::get() {
  static RecordStore* const store = new RecordStore;
  return *store;
}

// As early as possible, so that a program's own handlers come before these (registry.cc).
__attribute__((constructor)) static void watch_forks_of_recorders() {
  ::pthread_atfork(&lock_for_fork, &unlock_after_fork, &RecordStore::after_fork_in_child);
}

void RecordStore::after_fork_in_child() {
  if (known_to_forks != nullptr) known_to_forks->start_anew_in_child();
  unlock_after_fork();
}

RecordStore::RecordStore()
    : cpus_(std::min(possible_cpus(), layout::kMaxCpus)), has_rseq_(can_mark_children()) {
  known_to_forks = this;
  runtime::note_process();
  std::atexit(&remove_file_at_exit);
}

char* RecordStore::memory_of(const Block& block) const {
  return segments_[block.segment].memory + block.offset;
}

StatisticHeader& RecordStore::header_in_memory(const Block& block) const {
  return *reinterpret_cast<StatisticHeader*>(memory_of(block));
}

RecordStore::Statistic* RecordStore::find_used(std::string_view name) const {
  for (const auto& one : statistics_)
    if (one->block != nullptr && layout::name_of(one->header) == name) return one.get();
  return nullptr;
}

// Only what is in use counts.
bool RecordStore::has_room_for(unsigned bits) const {
  uint64_t count = 1, bytes = layout::values_size(bits, cpus_);
  for (const auto& one : statistics_) {
    if (one->block == nullptr) continue;
    ++count;
    bytes += layout::values_size(one->header.fraction_bits, cpus_);
  }
  return count <= layout::kMostRecorded && bytes <= layout::kMostRecordedBytes;
}

Result<RecordStore::Recorder*, SystemError> RecordStore::add(std::string_view name, unsigned bits) {
  if (bits > stats::kMaxFractionBits || !layout::is_statistic_name(name))
    return fail(SystemError{EINVAL});
  const uint64_t multiplier = ns_multiplier();  // may wait
  adopt();
  const Exclusive exclusive;
  if (find_used(name) != nullptr) return fail(SystemError{EEXIST});
  if (!has_room_for(bits)) return fail(SystemError{ENOSPC});
  if (has_rseq_) mark_children();
  const auto block = free_block(bits);
  if (!block) return fail(block.error());
  Statistic& statistic = free_statistic();
  statistic.block = *block;
  statistic.block->used_by = &statistic;
  statistic.recorder.ns_multiplier = multiplier;
  publish(statistic, header_of_new(name, bits, cpus_));
  return &statistic.recorder;
}

Result<RecordStore::Recorder*, SystemError> RecordStore::find(std::string_view name) {
  const Exclusive exclusive;
  Statistic* const statistic = find_used(name);
  if (statistic == nullptr) return fail(SystemError{ENOENT});
  return &statistic->recorder;
}

void RecordStore::remove(Recorder& recorder) {
  const Exclusive exclusive;
  Statistic& statistic = statistic_of(recorder);
  std::atomic_ref(header_in_memory(*statistic.block).state).store(State::free);
  statistic.block->used_by = nullptr;
  statistic.block = nullptr;
}

// Readers look at a statistic once its state is `used`, so that is written last.
void RecordStore::publish(Statistic& statistic, const StatisticHeader& header) {
  statistic.header = header;
  point_to_memory(statistic);
  statistic.recorder.incarnation = ++incarnations_;
  const Block& block = *statistic.block;
  StatisticHeader& shared = header_in_memory(block);
  StatisticHeader incomplete = header;
  incomplete.state = State::free;
  shared = incomplete;
  std::atomic_ref(shared.state).store(State::used);
  const Segment& segment = segments_[block.segment];
  const uint64_t end = segment.file_offset + block.offset + header.size;
  if (segment.in_file && end > file_->end()) file_->set_end(end);
}

void RecordStore::point_to_memory(Statistic& statistic) {
  Recorder& recorder = statistic.recorder;
  const unsigned bits = statistic.header.fraction_bits;
  char* const values = memory_of(*statistic.block) + sizeof(StatisticHeader);
  recorder.control = &header_in_memory(*statistic.block).control;
  recorder.counts = reinterpret_cast<layout::StatisticCounts*>(values);
  recorder.area_size = layout::recorded_area_size(bits);
  recorder.areas =
      reinterpret_cast<Address>(values) + sizeof(layout::StatisticCounts) + recorder.area_size;
  recorder.bits = bits;
  recorder.unit = 1u << bits;
  recorder.cpus = has_rseq_ ? cpus_ : 0;
  recorder.rseq_offset = has_rseq_ ? __rseq_offset : 0;
}

// -------------------------------------------------------------------------------------- memory

RecordStore::Statistic& RecordStore::free_statistic() {
  const auto known = std::find_if(statistics_.begin(), statistics_.end(),
                                  [](const auto& one) { return one->block == nullptr; });
  if (known != statistics_.end()) return **known;
  Statistic& added = *statistics_.emplace_back(std::make_unique<Statistic>());
  added.recorder.index = static_cast<uint32_t>(statistics_.size() - 1);
  return added;
}

Result<RecordStore::Block*, SystemError> RecordStore::free_block(unsigned bits) {
  const auto known = std::find_if(blocks_.begin(), blocks_.end(), [&](const auto& one) {
    return one->used_by == nullptr && one->unused.fraction_bits == bits;
  });
  if (known == blocks_.end()) return new_block(bits);
  const uint64_t head = sizeof(StatisticHeader);
  std::memset(memory_of(**known) + head, 0, layout::live_size(bits, cpus_) - head);
  return known->get();
}

Result<RecordStore::Block*, SystemError> RecordStore::new_block(unsigned bits) {
  const StatisticHeader unused = header_of_unused(bits, cpus_);
  auto in_file = segment_in_file(unused);
  auto number = in_file ? in_file : private_segment(unused.size);
  if (!number) return fail(number.error());
  auto block = std::make_unique<Block>();
  block->segment = *number;
  block->offset = segments_[*number].used;
  block->unused = unused;
  segments_[*number].used += unused.size;
  blocks_.push_back(std::move(block));
  return blocks_.back().get();
}

std::optional<size_t> RecordStore::segment_with_space(uint64_t size, bool in_file) const {
  for (size_t i = segments_.size(); i-- > 0;) {
    const Segment& segment = segments_[i];
    if (segment.in_file != in_file) continue;
    // Only the last one ends where the file does.
    return size <= segment.capacity - segment.used ? std::optional(i) : std::nullopt;
  }
  return std::nullopt;
}

uint64_t RecordStore::new_capacity(uint64_t size) const {
  return std::max(size, kFirstSegment << std::min(segments_.size(), kMostDoublings));
}

Result<size_t, SystemError> RecordStore::segment_in_file(const StatisticHeader& unused) {
  if (!file_) {
    auto identity = FileIdentity::find(cpus_);
    if (!identity) return fail(identity.error());
    identity_ = *identity;
    auto made = RecordFile::make(*identity_);
    if (!made) return fail(made.error());
    if (auto named = made->publish(); !named) return fail(named.error());
    file_.emplace(*std::move(made));
  }
  if (auto put = file_->put(file_->end(), unused); !put) return fail(put.error());
  if (const auto number = segment_with_space(unused.size, true)) return *number;
  Segment segment;
  segment.capacity = new_capacity(unused.size);
  segment.file_offset = file_->end();
  segment.in_file = true;
  auto mapped = file_->map(segment.file_offset, segment.capacity);
  if (!mapped) return fail(mapped.error());
  segment.memory = static_cast<char*>(*mapped);
  segments_.push_back(segment);
  return segments_.size() - 1;
}

Result<size_t, SystemError> RecordStore::private_segment(uint64_t size) {
  if (const auto number = segment_with_space(size, false)) return *number;
  Segment segment;
  segment.capacity = new_capacity(size);
  void* const memory = map_private(segment.capacity);
  if (memory == MAP_FAILED) return fail(SystemError{ENOMEM});
  segment.memory = static_cast<char*>(memory);
  segments_.push_back(segment);
  return segments_.size() - 1;
}

bool RecordStore::is_private(const Recorder& recorder) {
  adopt();
  const Exclusive exclusive;
  return !segment_of(recorder).in_file;
}

// -------------------------------------------------------------------------------------- control

Result<void, SystemError> RecordStore::set_running(const Recorder& recorder, bool running) {
  adopt();
  const Exclusive exclusive;
  const Statistic& statistic = statistic_of(recorder);
  if (segment_of(recorder).in_file)
    return change_in_file(file_->path(), [&](ledger::RecordedFile& file) {
      return file.set_running(statistic.header.name, running);
    });
  uint64_t& control = header_in_memory(*statistic.block).control;
  __atomic_store_n(&control, layout::with_running(control, running), __ATOMIC_RELAXED);
  return {};
}

Result<void, SystemError> RecordStore::reset(const Recorder& recorder) {
  adopt();
  const Exclusive exclusive;
  const Statistic& statistic = statistic_of(recorder);
  if (segment_of(recorder).in_file)
    return change_in_file(file_->path(), [&](ledger::RecordedFile& file) {
      return file.reset(statistic.header.name);
    });
  StatisticHeader& header = header_in_memory(*statistic.block);
  const unsigned bits = statistic.header.fraction_bits;
  char* const memory = memory_of(*statistic.block);
  std::memcpy(memory + layout::baseline_offset(bits, cpus_, layout::next_baseline(header.control)),
              memory + sizeof header, layout::values_size(bits, cpus_));
  __atomic_store_n(&header.control, layout::after_reset(header.control), __ATOMIC_RELEASE);
  return {};
}

// -------------------------------------------------------------------------- forks and the end

// Only this thread exists, and it has the lock.
void RecordStore::start_anew_in_child() {
  static constexpr uint64_t kStopped = 0;
  runtime::forget_other_threads();
  for (const auto& one : statistics_) {
    if (one->block == nullptr) continue;
    const uint64_t control = __atomic_load_n(one->recorder.control, __ATOMIC_RELAXED);
    one->header.control =
        layout::make_control(layout::is_running(control), 0, layout::generation_of(control) + 1);
    one->header.created_ns = realtime_ns();
  }
  bool has_file = false;
  for (size_t i = 0; i < segments_.size(); ++i) {
    const Segment& segment = segments_[i];
    const bool mapped = map_private(segment.capacity, segment.memory) != MAP_FAILED;
    has_file = has_file || segment.in_file;
    for (const auto& block : blocks_) {
      if (block->segment != i) continue;
      Statistic* const statistic = block->used_by;
      if (mapped) header_in_memory(*block) = statistic ? statistic->header : block->unused;
      if (statistic == nullptr) continue;
      if (!mapped) statistic->recorder.control = &kStopped;  // the memory is still the parent's
      if (segment.in_file) statistic->recorder.cpus = 0;
    }
  }
  file_.reset();
  if (!has_file) return;
  is_new_child_ = true;
  runtime::before_first_record = [] { get().adopt(); };
}

void RecordStore::adopt() {
  if (!is_new_child_) return;
  const int error = errno;
  {
    const Exclusive exclusive;
    if (is_new_child_) {
      auto made = make_file_of_child();
      if (made)
        file_.emplace(*std::move(made));
      else
        for (Segment& segment : segments_) segment.in_file = false;
      for (const auto& one : statistics_) one->recorder.cpus = has_rseq_ ? cpus_ : 0;
      is_new_child_ = false;
      runtime::before_first_record = nullptr;
    }
  }
  errno = error;
}

// If it fails midway, some segments are in a file without a name: that is as good as private
// memory.
Result<RecordFile, SystemError> RecordStore::make_file_of_child() {
  auto made = RecordFile::make(*identity_);
  if (!made) return made;
  uint64_t end = made->end();
  for (const auto& block : blocks_) {
    const Segment& segment = segments_[block->segment];
    if (!segment.in_file) continue;
    const uint64_t offset = segment.file_offset + block->offset;
    if (auto put = made->put(offset, header_in_memory(*block)); !put) return fail(put.error());
    end = std::max(end, offset + block->unused.size);
  }
  for (const Segment& segment : segments_) {
    if (!segment.in_file) continue;
    auto mapped = made->map(segment.file_offset, segment.capacity, segment.memory);
    if (!mapped) return fail(mapped.error());
  }
  made->set_end(end);
  if (auto published = made->publish(); !published) return fail(published.error());
  return made;
}

void RecordStore::remove_file_at_exit() {
  const Exclusive exclusive;
  if (get().file_) get().file_->remove();
}

}  // namespace pinprick::library
