// Finds the calls of a recording: when they were made, and by which paths. Pure; not thread-safe.
//
// A call of a tree starts at its entry, and lies within its caller. One that ended in another way
// than by a return, by an exception or longjmp, or whose return was lost, ends when the next event
// shows that (export/perfetto.h has the same rules). Its time is then unknown, and is in no path.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "export/html/flame_graph.h"
#include "export/html/timeline.h"
#include "export/perfetto.h"

namespace pinprick::exports {

class RecordedCalls {
 public:
  // Events come in the order of time. `function` is the page's number of the event's function, and
  // the event's details are a line of text. `self_ns` is the time of a call that returns, without
  // the calls in it.
  void add(const TraceEvent& event, uint32_t function, uint64_t self_ns);
  void add_span(const TraceThread& thread, std::string_view name, Slice slice,
                std::string_view told);
  // Ends the calls that have not returned, at the time of the last event.
  void finish();
  Timeline& timeline() { return timeline_; }
  const FlameGraph& paths() const { return paths_; }
  // Calls of paths whose return was not recorded.
  uint64_t unreturned() const { return unreturned_; }

 private:
  struct OpenCall {
    uint32_t function = 0, path = FlameGraph::kNoPath;
    uint64_t start_ns = 0, stack_pointer = 0;
    uint64_t inner_ns = 0;  // of the calls in it
    std::string told;
  };
  struct Thread {
    uint32_t track = 0;
    std::string name;
    std::vector<OpenCall> calls = {};         // the outermost first
    std::map<uint32_t, uint32_t> spans = {};  // their tracks, by their functions
  };

  Thread& thread_of(const TraceThread& thread);
  void add_entry(Thread& thread, const TraceEvent& event, uint32_t function);
  OpenCall take_innermost(Thread& thread);
  void end_call(Thread& thread, uint64_t latency_ns, std::string_view told);
  void end_calls(Thread& thread, size_t remaining, uint64_t time_ns, std::string_view why);
  void end_abandoned_calls(Thread& thread, const TraceEvent& event, uint32_t function);
  void add_return(Thread& thread, const TraceEvent& event, uint32_t function, uint64_t self_ns);

  std::map<std::pair<pid_t, pid_t>, Thread> threads_;
  size_t open_ = 0, bytes_of_open_ = 0;  // calls of all threads, and what they tell
  uint64_t last_ns_ = 0, unreturned_ = 0;
  Timeline timeline_;
  FlameGraph paths_;
};

}  // namespace pinprick::exports
