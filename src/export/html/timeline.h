// The calls and events of a recording by thread, as a page shows them. Pure; not thread-safe.
//
// A recording may have any number of them, and a page is to be opened by a browser. So only the
// longest ones are kept, of equal ones the earliest, and only so much of what they tell. The others
// are counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace pinprick::exports {

struct Slice {
  uint64_t start_ns = 0, duration_ns = 0;
  uint32_t track = 0, function = 0;
  uint32_t text = 0;  // what it tells; 0: nothing
  enum class Of : uint8_t {
    call,
    instant,
    unreturned,  // a call that ended in another way than by a return, or has not ended
  } of = Of::call;
};

class Timeline {
 public:
  struct Limits {
    size_t slices = 500'000;
    size_t bytes = 16 << 20;  // of what slices tell
    size_t tracks = 10'000;
  };
  explicit Timeline(Limits limits) : limits_(limits) {}
  Timeline() : Timeline(Limits{}) {}

  // Returns the number of a new track. Beyond the limit, all others are one track, `(other)`.
  uint32_t add_track(std::string_view process, std::string_view name);
  void rename_track(uint32_t track, std::string_view name);
  void add(Slice slice, std::string_view told);
  bool empty() const { return slices_.empty(); }
  // Returns the start of the first one, even if it is not kept.
  uint64_t begin_ns() const { return begin_ns_; }

  // Returns the members of a JSON object. To be called once, at the end.
  std::string json();

 private:
  struct Track {
    std::string process, name;
  };
  uint32_t number_of(std::string_view told);
  void keep_longest();
  std::string json_of_texts();
  std::string json_of_track(const Track& track, std::span<const Slice> slices) const;

  Limits limits_;
  std::vector<Track> tracks_;
  std::vector<Slice> slices_;
  uint64_t all_ = 0, untold_ = 0;  // slices, and those of them whose text is left out
  uint64_t begin_ns_ = UINT64_MAX, end_ns_ = 0;
  std::deque<std::string> texts_;
  std::unordered_map<std::string_view, uint32_t> numbers_;  // of texts, from 1 on
  size_t bytes_ = 0;                                        // of texts
};

}  // namespace pinprick::exports
