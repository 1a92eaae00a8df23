// A session file on disk (tmpfs): how it is created, locked, read and written. Its contents are
// described by layout/session_file.h. One thread at a time uses a SessionFile.
//
// A file gets its name when it is complete, so a file with a name can be read, however the
// controller that made it ended. Its space is allocated before the target touches it: a full file
// system must not kill the target by SIGBUS.
//
// The controller of a session holds a lock on its file (an open file description lock: fcntl(2),
// F_OFD_SETLK). A file without a lock belongs to a controller that is gone. Asking whether a file
// is locked takes no lock, so it never disturbs a controller. This class reads and writes the file
// and never maps it: a truncated file must not kill the controller.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/rare.h"
#include "base/result.h"
#include "layout/losses.h"
#include "layout/session_file.h"
#include "stats/cpu_histogram.h"
#include "stats/histogram.h"

namespace pinprick::ledger {

// A histogram, and the losses of the hits that are not in it.
struct Recorded {
  stats::Histogram histogram;
  layout::Losses losses;
};

struct KeyHits {
  uint64_t owner = 0;  // stands for the probe (layout::owner_of_keys)
  uint64_t key = 0;
  uint64_t hits = 0;               // of hits that are only counted
  uint64_t sum = 0;                // of the numbers that are added up, if there are any
  layout::Extremes extremes = {};  // of these numbers, if they are kept
  Rare<Recorded> recorded = {};    // of all others
};

// A text that a hit has read through a pointer.
struct ReadText {
  std::string text;
  bool is_cut = false;  // it goes on
  // Instead of a text, two numbers of which a key is made.
  std::optional<std::pair<uint64_t, uint64_t>> pair = {};
  // Instead of a text, a part of a stack: addresses of frames, the innermost first, and what comes
  // after them: the number of the next part, or PP_STACK_COMPLETE and the like.
  std::vector<uint64_t> frames = {};
};

// An event: the values that one hit has recorded.
struct Event {
  uint64_t tsc = 0;
  uint32_t probe = 0;                     // its number
  uint32_t tid = 0;                       // 0: it is not known
  uint64_t area = 0;                      // in whose ring it was
  std::span<const uint64_t> values = {};  // valid as long as the Events that it is one of
};

class Events {
 public:
  Events() = default;
  Events(Events&&) = default;
  Events& operator=(Events&&) = default;
  // Makes room for the values of events that have so many words together.
  void begin_part(size_t words) { values_.emplace_back().reserve(words); }
  // Adds an event to this part, whose values are given the last one first.
  void add(Event event, std::span<const uint64_t> reversed_values) {
    std::vector<uint64_t>& values = values_.back();
    const size_t first = values.size();
    values.insert(values.end(), reversed_values.rbegin(), reversed_values.rend());
    event.values = std::span(values).subspan(first);
    all_.push_back(event);
  }
  // Those of each CPU are in order already.
  void sort_by_time();
  // Removes those for which `f` holds.
  template <class F>
  void remove_if(F&& f) {
    std::erase_if(all_, f);
  }
  void clear() {
    all_.clear();
    values_.clear();
  }

  bool empty() const { return all_.empty(); }
  size_t size() const { return all_.size(); }
  const Event& operator[](size_t i) const { return all_[i]; }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

 private:
  std::vector<Event> all_;
  std::vector<std::vector<uint64_t>> values_;  // by part; none of them ever grows
};

struct FileError {
  enum class Cause : uint8_t {
    system,         // `system_error`
    exists,         // there is a session of this name already
    locked,         // its controller lives
    not_a_session,  // or of another version, truncated or inconsistent: `parse_error`
    untrusted,  // its owner is neither root, nor this user, nor the owner of the process; or the
                // process has ended, and the file is larger than another user's may be then
    no_space,   // there are no `size` bytes free, or a limit forbids them: `system_error`
  } cause = Cause::system;
  std::string path;
  int system_error = 0;
  layout::ParseError parse_error = layout::ParseError::not_a_session;
  uint64_t size = 0;
};

class NewestEvents;

class SessionFile {
 public:
  // Makes the file with the session's header and tables and with zeroed areas, and locks it.
  static Result<SessionFile, FileError> create(const std::string& path,
                                               const layout::Session& session);
  enum class Lock : uint8_t { none, exclusive };
  static Result<SessionFile, FileError> open(const std::string& path, Lock lock);

  const std::string& path() const { return path_; }
  int descriptor() const { return fd_.get(); }
  // Returns nullopt if it cannot be found out.
  std::optional<uid_t> owner() const;
  // Does another open file hold the lock? Says nothing about this one's own lock.
  bool is_locked() const;

  // Fails with `untrusted` if the header and the tables take more than `most` bytes.
  Result<layout::Session, FileError> read(uint64_t most = UINT64_MAX) const;
  Result<void, FileError> write_header(const layout::FileHeader& header);
  Result<void, FileError> write_tables(const layout::Session& session);
  Result<void, FileError> write_semaphores(const layout::Session& session);
  Result<void, FileError> write_mappings(const layout::Session& session);
  Result<void, FileError> write_mapping(const layout::Session& session, size_t index);

  // These return sums over all per-CPU areas; an area that cannot be read counts as zero.
  std::vector<uint64_t> read_counters(const layout::Session& session) const;
  // Of probes: the sums of what is added up of hits without a key, and of keys without room. Empty
  // if nothing is added up.
  std::vector<uint64_t> read_sums(const layout::Session& session) const;
  // Of calls that are counted by keys, by histogram: those whose key has no room, and their sums.
  // Both are empty if there are no keys, and the sums if nothing is added up.
  struct Rests {
    std::vector<uint64_t> hits = {};
    std::vector<uint64_t> sums = {};
  };
  Rests read_rests(const layout::Session& session) const;
  // Returns the figures of keys, by owner and key. Hits whose key has no room in the table are
  // among the owner's own figures. `extremes` are those that the keys get.
  std::vector<KeyHits> read_keys(const layout::Session& session,
                                 const std::vector<layout::Extremes>& extremes = {}) const;
  // Returns the extremes of what is added up, by the number of a counter's word in an area: of the
  // whole time, or of an interval, which is the current one or the one before it. Empty if none are
  // kept.
  std::vector<layout::Extremes> read_extremes(const layout::Session& session) const;
  std::vector<layout::Extremes> read_extremes(const layout::Session& session,
                                              uint64_t interval) const;
  // Starts the next interval, whose extremes are empty. A hit that has read the number of the one
  // before may still be counted there.
  Result<void, FileError> start_interval(layout::Session& session);
  // Returns the texts that hits have read, by their number less 1.
  std::vector<ReadText> read_texts(const layout::Session& session) const;
  // By probe: hits of which something could not be read. Empty if none follows a pointer.
  std::vector<uint64_t> read_unread(const layout::Session& session) const;
  // The same of events for which the ring had no room. Empty if none records events.
  std::vector<uint64_t> read_dropped(const layout::Session& session) const;
  // The hits of which only some were recorded.
  std::vector<uint64_t> read_passed(const layout::Session& session) const;
  // Takes all events out of the rings, and adds them to `events`: those of one CPU in the order of
  // time. Returns whether a ring was more than a quarter full. Rings that keep the newest events
  // are left alone.
  bool take_events(const layout::Session& session, Events& events);
  // Returns the events of rings that keep the newest ones, which are to be stopped before, and keep
  // them. The file must outlive the result.
  NewestEvents newest_events(const layout::Session& session);
  // Rings that keep the newest events get no more of them.
  void stop_events(const layout::Session& session);
  // After newest_events(), which returns later ones from now on. No event is lost that a thread was
  // about to write when the rings were stopped.
  void pass_over_events() { rings_begin_ = rings_end_; }
  // The same, and the rings go on.
  void restart_events(const layout::Session& session);
  // A thread that triggered the end may have been away for so long that it stops rings that were
  // restarted since. Then they go on. To be called now and then.
  void undo_late_stops(const layout::Session& session);
  // Has a hit triggered the end, since the last restart?
  bool is_triggered(const layout::Session& session) const;
  // Were events overwritten by newer ones, since the last restart?
  bool has_overwritten_events(const layout::Session& session) const;
  // Returns the texts from that number on, as read_texts() does.
  std::vector<ReadText> read_texts_from(const layout::Session& session, uint64_t first) const;
  // By histogram.
  std::vector<layout::Losses> read_losses(const layout::Session& session) const;
  // By histogram; those without a block take no memory.
  std::vector<stats::Histogram> read_histograms(const layout::Session& session) const;

  // By histogram: all that its probes have done since the session was armed, whether it was
  // recorded or lost, and whatever was reset. Without the histograms themselves.
  std::vector<uint64_t> read_hits(const layout::Session& session) const;

  // One histogram by CPU, those that are not empty; -1 is the area of threads that lock. Where CPUs
  // share areas, the numbers are those of the areas.
  std::vector<stats::CpuHistogram> read_by_cpu(const layout::Session& session,
                                               uint64_t histogram) const;
  // Makes all that the histograms hold now their baseline, for all readers at once. The caller
  // holds the process's turn. `session` is updated. Fails if there is no space; then nothing has
  // changed, neither for readers nor in `session`.
  Result<void, FileError> reset(layout::Session& session);
  // How often the session was reset by now; readers that find another number than before have read
  // something of both sides. Returns nullopt if it cannot be read.
  std::optional<uint64_t> resets() const;
  // Ends the gaps of all CPUs, without a record of them.
  Result<void, FileError> forget_gaps(const layout::Session& session);

  // Returns how many bytes of blocks are reserved at first: this many, unless the pool is smaller,
  // or there are keys.
  static constexpr uint64_t kFirstBlocks =
      4096 * layout::histogram_size(stats::kDefaultFractionBits);
  static uint64_t first_blocks(const layout::FileHeader& header);
  layout::PoolHeader read_pool(const layout::Session& session) const;
  // Doubles `bytes`, the reserved part of the pool, once half of it is taken. Returns false if
  // there was no need to, or no space.
  bool extend_pool(const layout::Session& session, uint64_t& bytes);

  // Tells threads of the target that loaded something that no controller will answer.
  void write_controller_gone(const layout::Session& session);

  // Has another process the file open or mapped, or this one another open file of it? Returns true
  // if that cannot be found out.
  bool has_other_users() const;

  // Removes its name, if that is still this file's: another user's folder may be another one by
  // now.
  void remove();

 private:
  SessionFile(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  static Result<SessionFile, FileError> open_unnamed(const std::string& path);
  Result<void, FileError> fill(const layout::Session& session);
  Result<void, FileError> give_name();
  Result<void, FileError> limit_pool(const layout::FileHeader& header, uint64_t bytes);
  // Those of one per-CPU area, without the baseline; empty if it cannot be read.
  std::vector<layout::TimeCounters> read_time_counters(const layout::Session& session,
                                                       uint64_t area) const;
  std::vector<layout::TimeCounters> read_time_counters_at(uint64_t offset, uint64_t count) const;
  // By the entries of the table of keys.
  std::vector<Recorded> read_recorded_by_keys(const layout::Session& session,
                                              const std::vector<bool>& wanted) const;
  bool take_events_of(const layout::FileHeader& header, uint64_t area, Events& events);
  void write_to_rings(const layout::FileHeader& header, size_t member, uint64_t value);
  uint64_t read_word(uint64_t offset) const;  // 0 if it cannot be read
  // The cells of a block; empty if there is none, or it cannot be read.
  std::vector<stats::Cell> read_cells(const layout::Session& session, uint64_t offset) const;
  // What is in a block, and how much of that was recorded since the last reset in the area whose
  // block it is.
  stats::Histogram read_block(const layout::Session& session, uint64_t offset) const;
  stats::Histogram read_recorded(const layout::Session& session, uint64_t area, uint64_t histogram,
                                 uint64_t block) const;
  struct Baseline {
    layout::TimeCounters calls;
    stats::Histogram histogram;
  };
  Baseline read_baseline(const layout::Session& session, uint64_t area, uint64_t histogram) const;
  Result<void, FileError> write_baseline(const layout::Session& session, uint64_t resets);
  std::vector<layout::Extremes> read_extremes_at(const layout::Session& session,
                                                 uint64_t offset) const;
  std::vector<uint64_t> sums_of(const layout::Session& session, uint64_t first,
                                const std::vector<bool>& are_real) const;
  std::vector<uint64_t> sum_counters(const layout::Session& session, uint64_t first,
                                     size_t count) const;
  Result<void, FileError> write(uint64_t offset, const void* bytes, size_t size);
  FileError system_error(int error) const {
    return {FileError::Cause::system, path_, error, layout::ParseError::not_a_session, 0};
  }
  FileError no_space(int error, uint64_t size) const {
    return {FileError::Cause::no_space, path_, error, layout::ParseError::not_a_session, size};
  }

  Fd fd_;
  std::string path_;
  bool has_name_ = true;
  // Of rings that keep the newest events, one by one: where those begin that were not told before,
  // and where the reading of them ended.
  std::vector<uint64_t> rings_begin_, rings_end_;
  bool was_restarted_ = false;
};

}  // namespace pinprick::ledger
