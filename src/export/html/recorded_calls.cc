#include "export/html/recorded_calls.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/abandoned.h"

namespace pinprick::exports {

RecordedCalls::Thread& RecordedCalls::thread_of(const TraceThread& thread) {
  const auto [known, is_new] = threads_.try_emplace({thread.pid, thread.tid});
  Thread& own = known->second;
  if (!is_new && own.name == thread.name) return own;
  own.name = thread.name;
  const std::string label =
      thread.tid == 0 ? "threads unknown" : fmt::format("{} {}", thread.name, thread.tid);
  if (is_new)
    own.track = timeline_.add_track(fmt::format("{} {}", thread.process, thread.pid), label);
  else
    timeline_.rename_track(own.track, label);
  return own;
}

// A recording may be hostile. Calls beyond these limits are added when they return.
void RecordedCalls::add_entry(Thread& thread, const TraceEvent& event, uint32_t function) {
  constexpr size_t kMostOpen = 1 << 16, kMostOpenOfAll = 1 << 20, kMostBytes = 64 << 20;
  if (thread.calls.size() == kMostOpen || open_ == kMostOpenOfAll || bytes_of_open_ > kMostBytes)
    return;
  const uint32_t caller = thread.calls.empty() ? FlameGraph::kNoPath : thread.calls.back().path;
  thread.calls.push_back({function, paths_.after(caller, function), event.time_ns,
                          event.stack_pointer, 0, event.details.bytes()});
  ++open_;
  bytes_of_open_ += event.details.bytes().size();
}

RecordedCalls::OpenCall RecordedCalls::take_innermost(Thread& thread) {
  OpenCall call = std::move(thread.calls.back());
  thread.calls.pop_back();
  --open_;
  bytes_of_open_ -= call.told.size();
  return call;
}

// Ends the innermost call, which returns.
void RecordedCalls::end_call(Thread& thread, uint64_t latency_ns, std::string_view told) {
  OpenCall call = take_innermost(thread);
  if (!thread.calls.empty()) thread.calls.back().inner_ns += latency_ns;
  paths_.add(call.path, latency_ns - std::min(latency_ns, call.inner_ns), 1);
  call.told += told;
  timeline_.add({.start_ns = call.start_ns,
                 .duration_ns = latency_ns,
                 .track = thread.track,
                 .function = call.function},
                call.told);
}

// Ends the calls after the first `remaining`, which do not return.
void RecordedCalls::end_calls(Thread& thread, size_t remaining, uint64_t time_ns,
                              std::string_view why) {
  while (thread.calls.size() > remaining) {
    OpenCall call = take_innermost(thread);
    if (!thread.calls.empty()) thread.calls.back().inner_ns += call.inner_ns;
    ++unreturned_;
    call.told += why;
    timeline_.add({.start_ns = call.start_ns,
                   .duration_ns = time_ns - std::min(time_ns, call.start_ns),
                   .track = thread.track,
                   .function = call.function,
                   .of = Slice::Of::unreturned},
                  call.told);
  }
}

void RecordedCalls::end_abandoned_calls(Thread& thread, const TraceEvent& event,
                                        uint32_t function) {
  const auto first = std::ranges::find_if(thread.calls, [&](const OpenCall& one) {
    return was_abandoned(one.stack_pointer, event.stack_pointer, one.function == function);
  });
  end_calls(thread, static_cast<size_t>(first - thread.calls.begin()), event.time_ns,
            " (ended without a return)");
}

// A call without a known entry starts when its latency says.
void RecordedCalls::add_return(Thread& thread, const TraceEvent& event, uint32_t function,
                               uint64_t self_ns) {
  size_t at = event.of == TraceEvent::Of::ret ? thread.calls.size() : 0;
  while (at > 0 && thread.calls[at - 1].function != function) --at;
  if (at > 0) {
    end_calls(thread, at, event.time_ns, " (ended without a return)");
    return end_call(thread, event.latency_ns, event.details.bytes());
  }
  if (event.of == TraceEvent::Of::ret)
    paths_.add(paths_.after(FlameGraph::kNoPath, function), self_ns, 1);
  timeline_.add({.start_ns = event.time_ns - std::min(event.time_ns, event.latency_ns),
                 .duration_ns = event.latency_ns,
                 .track = thread.track,
                 .function = function},
                event.details.bytes());
}

// Calls of a thread that is not known may overlap, so each is one moment.
void RecordedCalls::add(const TraceEvent& event, uint32_t function, uint64_t self_ns) {
  using Of = TraceEvent::Of;
  Thread& thread = thread_of(event.thread);
  last_ns_ = std::max(last_ns_, event.time_ns);
  end_abandoned_calls(thread, event, function);
  if (event.of == Of::point || event.thread.tid == 0) {
    timeline_.add({.start_ns = event.time_ns,
                   .track = thread.track,
                   .function = function,
                   .of = Slice::Of::instant},
                  event.details.bytes());
  } else if (event.of == Of::entry) {
    add_entry(thread, event, function);
  } else {
    add_return(thread, event, function, self_ns);
  }
}

// A span may overlap calls and other spans of its thread, so it has a track of its own.
void RecordedCalls::add_span(const TraceThread& thread, std::string_view name, Slice slice,
                             std::string_view told) {
  Thread& own = thread_of(thread);
  const auto [known, is_new] = own.spans.try_emplace(slice.function, 0);
  if (is_new)
    known->second = timeline_.add_track(fmt::format("{} {}", thread.process, thread.pid),
                                        fmt::format("{} {}: {}", thread.name, thread.tid, name));
  slice.track = known->second;
  timeline_.add(slice, told);
}

void RecordedCalls::finish() {
  for (auto& [number, thread] : threads_)
    end_calls(thread, 0, last_ns_, " (had not returned at the end)");
}

}  // namespace pinprick::exports
