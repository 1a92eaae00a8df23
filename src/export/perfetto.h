// A trace for Perfetto (https://perfetto.dev/docs/reference/trace-packet-proto): a stream of
// packets, each known to its reader once it is written.
//
// Pure; not thread-safe. What is kept grows with the number of threads and of functions, and with
// the calls that are open, and not with the number of events.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pinprick::exports {

// One moment as three clocks tell it, in nanoseconds.
struct ClockReading {
  uint64_t boottime = 0, monotonic = 0, realtime = 0;
};

struct TraceThread {
  pid_t pid = 0;
  pid_t tid = 0;        // 0: it is not known
  std::string process;  // its name
  std::string name;
};

// The encoded arguments and stack of an event, which can be appended to any event.
class TraceDetails {
 public:
  void add(std::string_view name, uint64_t value);
  void add(std::string_view name, int64_t value);
  void add(std::string_view name, std::string_view value);
  void add_pointer(std::string_view name, uint64_t value);
  // The innermost frame first.
  void add_stack(const std::vector<std::string_view>& frames);

  const std::string& bytes() const { return bytes_; }
  static TraceDetails of_bytes(std::string bytes);

 private:
  std::string bytes_;
};

struct TraceEvent {
  TraceThread thread = {};
  enum class Of : uint8_t {
    point,  // a moment
    entry,  // the start of a call, whose return follows if nothing prevents it
    ret,    // the return of a call whose entry came before
    call,   // the return of a call that has no event at its entry
  } of = Of::point;
  std::string name = {};
  uint64_t time_ns = 0;        // by CLOCK_BOOTTIME
  uint64_t latency_ns = 0;     // of a call that returns
  uint64_t stack_pointer = 0;  // at an entry or a point; 0: it is not known
  TraceDetails details = {};
  // The number of the function, or point, for a timeline that gives them numbers.
  uint32_t function = 0;
};

class PerfettoTrace {
 public:
  // All times are by CLOCK_BOOTTIME. The reading says how the other clocks relate to it.
  explicit PerfettoTrace(const ClockReading& now);

  // These return the packets that are to be written next. Events come in the order of time.
  std::string add(const TraceEvent& event);
  struct Span {
    uint32_t number = 0;  // spans of one number do not overlap in a thread
    std::string_view name;
    uint64_t start_ns = 0, end_ns = 0;
    std::string_view details;  // TraceDetails::bytes()
  };
  std::string add_span(const TraceThread& thread, const Span& span);
  struct Losses {
    uint64_t dropped = 0;  // events
    std::vector<std::pair<std::string_view, uint64_t>> by_cause =
        {};  // all, and dropped events, too
  };
  // Tells, at the end, what the trace lacks. Only other losses may follow.
  std::string add_losses(pid_t pid, const Losses& losses);
  // Returns what identifies the trace if nothing was added to it; otherwise nothing.
  std::string finish();

 private:
  struct OpenCall {
    std::string function;
    uint64_t stack_pointer = 0;
  };
  struct Track {
    uint64_t uuid = 0;
    std::string name;
    std::vector<OpenCall> calls = {};         // the outermost first
    std::map<uint32_t, uint64_t> spans = {};  // uuids of their tracks
  };
  enum class Type : uint8_t { begin = 1, end = 2, instant = 3 };

  uint64_t new_uuid() { return first_uuid_ + ++tracks_; }
  uint64_t track_of_process(pid_t pid, const std::string& name);
  Track& track_of(const TraceThread& thread);
  void write_track(uint64_t uuid, uint64_t parent, std::string_view name);
  uint64_t number_of_name(std::string_view name, bool& is_new);
  void write_event(uint64_t time_ns, uint64_t track, Type type, std::string_view name,
                   std::string_view details);
  void end_calls(Track& track, size_t remaining, uint64_t time_ns);
  void add_entry(Track& track, const TraceEvent& event);
  void add_return(Track& track, const TraceEvent& event);
  void end_abandoned_calls(Track& track, const TraceEvent& event);
  void write_packet(std::string_view packet);
  std::string take() { return std::exchange(pending_, {}); }

  std::string pending_;
  uint64_t first_uuid_;
  uint64_t tracks_ = 0;
  uint64_t last_ns_;
  std::map<pid_t, uint64_t> processes_;               // their tracks
  std::map<std::pair<pid_t, pid_t>, Track> threads_;  // by process and thread
  std::map<std::string, uint64_t, std::less<>> names_;
};

}  // namespace pinprick::exports
