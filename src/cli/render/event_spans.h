// Makes spans of the events that start and end them: `trace START..END`. Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace pinprick::cli {

class EventSpans {
 public:
  struct Event {
    uint64_t thread = 0;  // differs from those of all other processes
    uint32_t span = 0;
    bool is_start = false;
    uint64_t time_ns = 0;
    std::string name;          // of the point
    std::string text;          // of a start, what it tells; of an end, how its line begins
    std::string frames = {};   // the stack of a start
    bool is_in_words = false;  // the text takes the place of the names
    bool is_named = false;     // the name of a start is that of the span
  };
  struct Limits {
    uint64_t slower_ns = 0, faster_ns = UINT64_MAX;  // spans that are shown take as long
  };
  struct Ended {
    Event start, end;
    uint64_t latency_ns() const { return end.time_ns - start.time_ns; }
    std::string name() const { return start.is_named ? start.name : start.name + ".." + end.name; }
  };
  struct Figures {
    uint64_t repeated = 0;   // starts of spans that had started already; the first one counts
    uint64_t unmatched = 0;  // ends of spans that had not started
    uint64_t open = 0;       // that have not ended

    bool empty() const { return repeated == 0 && unmatched == 0 && open == 0; }
  };

  explicit EventSpans(Limits limits) : limits_(limits) {}

  // Takes events in the order of time. Returns a span that ends with this one, and is to be shown.
  std::optional<Ended> add(Event event);
  Figures figures() const;

 private:
  Limits limits_;
  std::map<std::pair<uint64_t, uint32_t>, Event> open_;  // by thread and span
  Figures figures_;
};

}  // namespace pinprick::cli
