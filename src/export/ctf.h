// A trace in the Common Trace Format, version 1.8.3, for babeltrace2 and Trace Compass: a text that
// describes the events, and a stream of packets.
//
// Pure; not thread-safe. Memory grows with the number of kinds of events, and not with that of
// events. Of more than 65,536 kinds, or 64 MB of their names and fields, events of the others are
// called
// `(other)` and have no fields.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "export/perfetto.h"

namespace pinprick::exports {

// The files of a trace, which is a folder.
inline constexpr std::string_view kCtfMetadata = "metadata", kCtfStream = "stream";

// The encoded fields of an event: their declarations and their values.
class CtfFields {
 public:
  void add(std::string_view name, uint64_t value);
  void add(std::string_view name, int64_t value);
  void add(std::string_view name, double value);
  void add(std::string_view name, std::string_view value);
  void add_pointer(std::string_view name, uint64_t value);

  // What follows is for CtfTrace.
  struct Encoded {
    std::string declarations, values;
  };
  const Encoded& encoded() const { return encoded_; }
  // Packs both into one text, and the reverse.
  std::string packed() const;
  static Encoded unpacked(std::string_view packed);

 private:
  void declare(std::string_view type, std::string_view name);

  Encoded encoded_;
  std::map<std::string, size_t> names_;  // how many fields wanted to have each name
};

// Returns where an event happened, encoded.
std::string ctf_context(const TraceThread& thread, std::optional<uint32_t> cpu);

// Packs a context and packed fields into one text, and the reverse.
std::string packed_event(const std::string& context, const std::string& fields);
std::pair<std::string_view, std::string_view> unpacked_event(std::string_view packed);

class CtfTrace {
 public:
  // Times are by CLOCK_MONOTONIC; the reading says how CLOCK_REALTIME relates to it.
  CtfTrace(const ClockReading& now, std::string_view command_line);

  struct Event {
    std::string_view name;
    uint64_t time_ns = 0;
    std::string_view context;  // of ctf_context()
    CtfFields::Encoded fields;
  };
  // Returns the packets that are to be written next, after what take_metadata() returns. Events
  // come in the order of time.
  std::string add(const Event& event);
  // Returns what the description gets next.
  std::string take_metadata() { return std::exchange(metadata_, {}); }
  // Returns the last packets, of which the very last one says how many events are missing.
  std::string finish(uint64_t dropped);

 private:
  std::optional<uint32_t> class_of(std::string_view name, const std::string& declarations);
  std::string packet(uint64_t begin_ns, uint64_t end_ns, uint64_t dropped,
                     std::string_view events) const;

  std::string metadata_;
  std::map<std::pair<std::string, std::string>, uint32_t> classes_;  // by name and fields
  size_t bytes_of_classes_ = 0;
  std::string events_;  // of the next packet
  uint64_t first_ns_ = 0, last_ns_;
};

}  // namespace pinprick::exports
