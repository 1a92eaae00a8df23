#include "export/perfetto.h"

#include <algorithm>
#include <protozero/pbf_builder.hpp>
#include <protozero/pbf_writer.hpp>

#include "base/abandoned.h"
#include "export/format.h"

namespace pinprick::exports {
namespace {

using protozero::pbf_builder;
using protozero::pbf_writer;

// Numbers of fields, by message.
enum class OfTrace : protozero::pbf_tag_type { packet = 1 };
enum class OfPacket : protozero::pbf_tag_type {
  clock_snapshot = 6,
  timestamp = 8,
  sequence = 10,
  track_event = 11,
  interned_data = 12,
  sequence_flags = 13,
  previous_packet_dropped = 42,
  timestamp_clock = 58,
  track_descriptor = 60
};
enum class OfSnapshot : protozero::pbf_tag_type { clocks = 1, primary_clock = 2 };
enum class OfClock : protozero::pbf_tag_type { id = 1, timestamp = 2 };
enum class OfInterned : protozero::pbf_tag_type { event_names = 2 };
enum class OfName : protozero::pbf_tag_type { iid = 1, name = 2 };
enum class OfTrack : protozero::pbf_tag_type {
  uuid = 1,
  name = 2,
  process = 3,
  thread = 4,
  parent = 5
};
enum class OfProcess : protozero::pbf_tag_type { pid = 1, name = 6 };
enum class OfThread : protozero::pbf_tag_type { pid = 1, tid = 2, name = 5 };
enum class OfEvent : protozero::pbf_tag_type {
  annotations = 4,
  type = 9,
  name_iid = 10,
  track = 11,
  name = 23,
  callstack = 55
};
enum class OfAnnotation : protozero::pbf_tag_type {
  unsigned_value = 3,
  signed_value = 4,
  string_value = 6,
  pointer_value = 7,
  name = 10
};
enum class OfCallstack : protozero::pbf_tag_type { frames = 1 };
enum class OfFrame : protozero::pbf_tag_type { function = 1 };

constexpr uint32_t kRealtime = 1, kMonotonic = 3, kBoottime = 6;
constexpr uint32_t kStateCleared = 1, kNeedsState = 2;
constexpr uint32_t kSequence = 1;
// Names of functions are few. What exceeds this is written out each time.
constexpr size_t kMostNames = 1 << 16;

void write_clock(pbf_builder<OfSnapshot>& snapshot, uint32_t id, uint64_t time_ns) {
  pbf_builder<OfClock> clock(snapshot, OfSnapshot::clocks);
  clock.add_uint32(OfClock::id, id);
  clock.add_uint64(OfClock::timestamp, time_ns);
}

// Packets and details are built apart, and appended whole.
template <class Build>
std::string annotation(std::string_view name, Build&& build) {
  std::string bytes;
  pbf_builder<OfEvent> event(bytes);
  pbf_builder<OfAnnotation> one(event, OfEvent::annotations);
  one.add_string(OfAnnotation::name, as_utf8(name));
  build(one);
  return bytes;
}

}  // namespace

void TraceDetails::add(std::string_view name, uint64_t value) {
  bytes_ +=
      annotation(name, [&](auto& one) { one.add_uint64(OfAnnotation::unsigned_value, value); });
}

void TraceDetails::add(std::string_view name, int64_t value) {
  bytes_ += annotation(name, [&](auto& one) { one.add_int64(OfAnnotation::signed_value, value); });
}

void TraceDetails::add(std::string_view name, std::string_view value) {
  bytes_ += annotation(
      name, [&](auto& one) { one.add_string(OfAnnotation::string_value, as_utf8(value)); });
}

void TraceDetails::add_pointer(std::string_view name, uint64_t value) {
  bytes_ +=
      annotation(name, [&](auto& one) { one.add_uint64(OfAnnotation::pointer_value, value); });
}

void TraceDetails::add_stack(const std::vector<std::string_view>& frames) {
  pbf_builder<OfEvent> event(bytes_);
  pbf_builder<OfCallstack> stack(event, OfEvent::callstack);
  for (size_t i = frames.size(); i-- > 0;) {
    pbf_builder<OfFrame> frame(stack, OfCallstack::frames);
    frame.add_string(OfFrame::function, as_utf8(frames[i]));
  }
}

TraceDetails TraceDetails::of_bytes(std::string bytes) {
  TraceDetails details;
  details.bytes_ = std::move(bytes);
  return details;
}

void PerfettoTrace::write_packet(std::string_view packet) {
  pbf_builder<OfTrace>(pending_).add_message(OfTrace::packet, packet.data(), packet.size());
}

// Traces of several tools can be merged: so their tracks should have different numbers.
PerfettoTrace::PerfettoTrace(const ClockReading& now)
    : first_uuid_(now.realtime << 20), last_ns_(now.boottime) {
  std::string packet;
  {
    pbf_builder<OfPacket> first(packet);
    first.add_uint32(OfPacket::sequence, kSequence);
    first.add_uint32(OfPacket::sequence_flags, kStateCleared);
    first.add_uint64(OfPacket::timestamp, now.boottime);
    first.add_uint32(OfPacket::timestamp_clock, kBoottime);
    pbf_builder<OfSnapshot> snapshot(first, OfPacket::clock_snapshot);
    write_clock(snapshot, kBoottime, now.boottime);
    write_clock(snapshot, kMonotonic, now.monotonic);
    write_clock(snapshot, kRealtime, now.realtime);
    snapshot.add_uint32(OfSnapshot::primary_clock, kBoottime);
  }
  write_packet(packet);
}

std::string PerfettoTrace::finish() {
  return take();
}

void PerfettoTrace::write_track(uint64_t uuid, uint64_t parent, std::string_view name) {
  std::string packet;
  {
    pbf_builder<OfPacket> of_packet(packet);
    of_packet.add_uint32(OfPacket::sequence, kSequence);
    pbf_builder<OfTrack> track(of_packet, OfPacket::track_descriptor);
    track.add_uint64(OfTrack::uuid, uuid);
    if (parent != 0) track.add_uint64(OfTrack::parent, parent);
    track.add_string(OfTrack::name, as_utf8(name));
  }
  write_packet(packet);
}

uint64_t PerfettoTrace::track_of_process(pid_t pid, const std::string& name) {
  const auto [known, is_new] = processes_.try_emplace(pid, 0);
  if (!is_new) return known->second;
  known->second = new_uuid();
  std::string packet;
  {
    pbf_builder<OfPacket> of_packet(packet);
    of_packet.add_uint32(OfPacket::sequence, kSequence);
    pbf_builder<OfTrack> track(of_packet, OfPacket::track_descriptor);
    track.add_uint64(OfTrack::uuid, known->second);
    pbf_builder<OfProcess> process(track, OfTrack::process);
    process.add_int32(OfProcess::pid, pid);
    process.add_string(OfProcess::name, as_utf8(name));
  }
  write_packet(packet);
  return known->second;
}

// A thread that renames itself is described once more.
PerfettoTrace::Track& PerfettoTrace::track_of(const TraceThread& thread) {
  const uint64_t process = track_of_process(thread.pid, thread.process);
  const auto [known, is_new] = threads_.try_emplace({thread.pid, thread.tid});
  Track& own = known->second;
  if (thread.tid == 0) own.uuid = process;
  if (thread.tid == 0 || (!is_new && own.name == thread.name)) return own;
  if (is_new) own.uuid = new_uuid();
  own.name = thread.name;
  std::string packet;
  {
    pbf_builder<OfPacket> of_packet(packet);
    of_packet.add_uint32(OfPacket::sequence, kSequence);
    pbf_builder<OfTrack> track(of_packet, OfPacket::track_descriptor);
    track.add_uint64(OfTrack::uuid, own.uuid);
    track.add_uint64(OfTrack::parent, process);
    pbf_builder<OfThread> of_thread(track, OfTrack::thread);
    of_thread.add_int32(OfThread::pid, thread.pid);
    of_thread.add_int32(OfThread::tid, thread.tid);
    of_thread.add_string(OfThread::name, as_utf8(thread.name));
  }
  write_packet(packet);
  return own;
}

// Returns 0 if the name is to be written out.
uint64_t PerfettoTrace::number_of_name(std::string_view name, bool& is_new) {
  const auto known = names_.find(name);
  is_new = known == names_.end() && names_.size() < kMostNames;
  if (known != names_.end()) return known->second;
  if (!is_new) return 0;
  const uint64_t number = names_.size() + 1;
  names_.emplace(name, number);
  return number;
}

void PerfettoTrace::write_event(uint64_t time_ns, uint64_t track, Type type, std::string_view name,
                                std::string_view details) {
  last_ns_ = std::max(last_ns_, time_ns);
  bool is_new = false;
  const uint64_t number = name.empty() ? 0 : number_of_name(name, is_new);
  std::string packet;
  {
    pbf_builder<OfPacket> of_packet(packet);
    of_packet.add_uint64(OfPacket::timestamp, time_ns);
    of_packet.add_uint32(OfPacket::sequence, kSequence);
    if (number != 0) of_packet.add_uint32(OfPacket::sequence_flags, kNeedsState);
    if (is_new) {
      pbf_builder<OfInterned> interned(of_packet, OfPacket::interned_data);
      pbf_builder<OfName> entry(interned, OfInterned::event_names);
      entry.add_uint64(OfName::iid, number);
      entry.add_string(OfName::name, as_utf8(name));
    }
    std::string event;
    {
      pbf_builder<OfEvent> of_event(event);
      of_event.add_enum(OfEvent::type, static_cast<int32_t>(type));
      of_event.add_uint64(OfEvent::track, track);
      if (number != 0)
        of_event.add_uint64(OfEvent::name_iid, number);
      else if (!name.empty())
        of_event.add_string(OfEvent::name, as_utf8(name));
    }
    event += details;
    of_packet.add_message(OfPacket::track_event, event);
  }
  write_packet(packet);
}

// Ends the calls after the first `remaining`, which have no return of their own.
void PerfettoTrace::end_calls(Track& track, size_t remaining, uint64_t time_ns) {
  TraceDetails details;
  details.add("ended", "without a return that was seen");
  for (size_t i = track.calls.size(); i-- > remaining;)
    write_event(time_ns, track.uuid, Type::end, "", details.bytes());
  track.calls.resize(remaining);
}

// Ends the calls that the event cannot lie in.
void PerfettoTrace::end_abandoned_calls(Track& track, const TraceEvent& event) {
  const auto first = std::ranges::find_if(track.calls, [&](const OpenCall& one) {
    return was_abandoned(one.stack_pointer, event.stack_pointer, one.function == event.name);
  });
  end_calls(track, static_cast<size_t>(first - track.calls.begin()), event.time_ns);
}

void PerfettoTrace::add_entry(Track& track, const TraceEvent& event) {
  track.calls.push_back({event.name, event.stack_pointer});
  write_event(event.time_ns, track.uuid, Type::begin, event.name, event.details.bytes());
}

// A call without a known entry starts when its latency says. Calls in one that returns have ended
// in another way: by an exception, or because their returns were lost.
void PerfettoTrace::add_return(Track& track, const TraceEvent& event) {
  size_t at = track.calls.size();
  if (event.of == TraceEvent::Of::ret)
    while (at > 0 && track.calls[at - 1].function != event.name) --at;
  const bool is_known = event.of == TraceEvent::Of::ret && at > 0;
  if (is_known) {
    end_calls(track, at, event.time_ns);
    track.calls.pop_back();
  } else {
    write_event(event.time_ns - std::min(event.time_ns, event.latency_ns), track.uuid, Type::begin,
                event.name, "");
  }
  write_event(event.time_ns, track.uuid, Type::end, "", event.details.bytes());
}

// Calls of a thread that is not known may overlap, so each is one moment.
std::string PerfettoTrace::add(const TraceEvent& event) {
  using Of = TraceEvent::Of;
  Track& track = track_of(event.thread);
  end_abandoned_calls(track, event);
  const bool returns = event.of == Of::ret || event.of == Of::call;
  if (event.of == Of::point || event.thread.tid == 0) {
    TraceDetails details = event.details;
    if (returns) details.add("duration_ns", event.latency_ns);
    write_event(event.time_ns, track.uuid, Type::instant, event.name, details.bytes());
  } else if (returns) {
    add_return(track, event);
  } else {
    add_entry(track, event);
  }
  return take();
}

// A span may overlap calls and other spans of its thread, so it has a track of its own.
std::string PerfettoTrace::add_span(const TraceThread& thread, const Span& span) {
  Track& track = track_of(thread);
  const auto [known, is_new] = track.spans.try_emplace(span.number, 0);
  if (is_new) {
    known->second = new_uuid();
    write_track(known->second, track.uuid, span.name);
  }
  write_event(span.start_ns, known->second, Type::begin, span.name, span.details);
  write_event(span.end_ns, known->second, Type::end, "", "");
  return take();
}

// A reader forgets interned names when it learns that packets are missing: here names are written
// out.
std::string PerfettoTrace::add_losses(pid_t pid, const Losses& losses) {
  TraceDetails details;
  details.add("pid", static_cast<int64_t>(pid));
  uint64_t all = 0;
  for (const auto& [cause, count] : losses.by_cause) {
    all += count;
    if (count != 0) details.add(cause, count);
  }
  if (all == 0) return take();
  const uint64_t uuid = new_uuid();
  write_track(uuid, 0, "pinprick: what this trace lacks");
  std::string packet;
  {
    pbf_builder<OfPacket> of_packet(packet);
    of_packet.add_uint64(OfPacket::timestamp, last_ns_);
    of_packet.add_uint32(OfPacket::sequence, kSequence);
    if (losses.dropped != 0) of_packet.add_bool(OfPacket::previous_packet_dropped, true);
    std::string event;
    {
      pbf_builder<OfEvent> of_event(event);
      of_event.add_enum(OfEvent::type, static_cast<int32_t>(Type::instant));
      of_event.add_uint64(OfEvent::track, uuid);
      of_event.add_string(OfEvent::name, "not recorded: " + std::to_string(all));
    }
    event += details.bytes();
    of_packet.add_message(OfPacket::track_event, event);
  }
  write_packet(packet);
  return take();
}

}  // namespace pinprick::exports
