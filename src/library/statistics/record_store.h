// The statistics that this process records (include/pinprick/kstats.h): their names, and the memory
// that they are in.
//
// Each statistic that is in use has a block. Blocks are in segments: parts of the process's file,
// or anonymous memory where there is no space for a file. A segment keeps its address, since
// records may be using it at any time. A block stays where it is, with the fraction bits that it
// was made for, and a new statistic takes one that is free. So there may be more blocks than
// statistics ever were at once, if their bits differ; what limits statistics is how many there are
// now. Any thread may call anything here, and no signal handler; adopt() is called by records, and
// by those in signal handlers, too.
//
// A fork waits for the end of an operation. In the child, all segments become anonymous memory
// again, before fork() returns. The child's first record calls adopt(), which makes the child's own
// file and puts it in their place, without allocating memory: the record may be in a signal
// handler. So a child that records nothing has no file.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "layout/recorded_file.h"
#include "library/statistics/record_file.h"
#include "runtime/record.h"

namespace pinprick::library {

class RecordStore {
 public:
  using Recorder = runtime::Recorder;
  static RecordStore& get();

  // The errors are those of pinprick_kstats_new() and pinprick_kstats_find().
  Result<Recorder*, SystemError> add(std::string_view name, unsigned bits);
  Result<Recorder*, SystemError> find(std::string_view name);
  void remove(Recorder& recorder);

  bool is_private(const Recorder& recorder);
  Result<void, SystemError> set_running(const Recorder& recorder, bool running);
  Result<void, SystemError> reset(const Recorder& recorder);

  static void after_fork_in_child();
  // In a forked child, makes its file. If that fails, its statistics are private.
  void adopt();

 private:
  struct Segment {
    char* memory = nullptr;
    uint64_t capacity = 0;
    uint64_t used = 0;
    uint64_t file_offset = 0;
    bool in_file = false;
  };
  struct Statistic;
  struct Block {
    size_t segment = 0;
    uint64_t offset = 0;  // in the segment
    layout::StatisticHeader unused;
    Statistic* used_by = nullptr;
  };
  // A removed statistic keeps its entry, which the next one takes.
  struct Statistic {
    Recorder recorder;
    layout::StatisticHeader header;  // the one in memory is not read: others may write it
    Block* block = nullptr;          // nullptr: it is not in use
  };

  RecordStore();
  Statistic& statistic_of(const Recorder& recorder) { return *statistics_[recorder.index]; }
  const Segment& segment_of(const Recorder& recorder) {
    return segments_[statistic_of(recorder).block->segment];
  }
  char* memory_of(const Block& block) const;
  layout::StatisticHeader& header_in_memory(const Block& block) const;
  Statistic* find_used(std::string_view name) const;
  bool has_room_for(unsigned bits) const;

  // Returns an entry without a block. There must be room for one.
  Statistic& free_statistic();
  // Returns a block with empty values that is not in use.
  Result<Block*, SystemError> free_block(unsigned bits);
  Result<Block*, SystemError> new_block(unsigned bits);
  Result<size_t, SystemError> segment_in_file(const layout::StatisticHeader& unused);
  Result<size_t, SystemError> private_segment(uint64_t size);
  std::optional<size_t> segment_with_space(uint64_t size, bool in_file) const;
  uint64_t new_capacity(uint64_t size) const;
  void publish(Statistic& statistic, const layout::StatisticHeader& header);
  void point_to_memory(Statistic& statistic);

  void start_anew_in_child();
  Result<RecordFile, SystemError> make_file_of_child();
  static void remove_file_at_exit();

  const uint32_t cpus_;
  const bool has_rseq_;
  std::vector<std::unique_ptr<Statistic>> statistics_;  // by index; never freed
  std::vector<std::unique_ptr<Block>> blocks_;          // by segment and offset; never freed
  std::vector<Segment> segments_;
  std::optional<FileIdentity> identity_;
  std::optional<RecordFile> file_;
  uint32_t incarnations_ = 0;
  std::atomic<bool> is_new_child_ = false;
};

}  // namespace pinprick::library
