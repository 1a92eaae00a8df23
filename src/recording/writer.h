// Makes the bytes of a recording of events, in the order in which they are read from a process's
// rings. Each chunk is a whole number of records, so that what was written before a crash can be
// read.
//
// Not thread-safe. Makes no system call.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "action/action.h"
#include "recording/encoder.h"
#include "recording/header.h"
#include "session/events.h"
#include "session/report.h"

namespace pinprick::recording {

class Writer {
 public:
  explicit Writer(const Header& header);

  void add(const session::Event& event);
  // All events before this value of the TSC were added, but for those of threads that were
  // interrupted while they recorded them. Readers show what came before it.
  void told_until(uint64_t tsc);
  // Of the whole time, at the end.
  void add(const session::Report& report);

  // Returns what the file gets next: chunks that are full, or all that there is.
  enum class Rest : bool { waits, comes };
  std::string take(Rest rest);
  // The same at the end of the recording. `of` says whether pinprick has started the program, and
  // it has ended by itself.
  enum class Of : bool { part, whole_program };
  std::string finish(Of of = Of::part);

 private:
  struct Thread {
    uint64_t number = 0;
    std::string command, of_process;
  };
  // The part of its events that all events of a probe have in common. It is written once.
  struct Probe {
    std::string object, function, condition, file, build_id, event;
    uint64_t address = 0, site = 0, offset = 0;
    uint8_t flags = 0;
    uint64_t span = 0;
    struct Value {
      std::string name, text;
      std::optional<action::Field::Words> words;
      friend bool operator==(const Value&, const Value&) = default;
    };
    std::vector<Value> values = {};
    friend bool operator==(const Probe&, const Probe&) = default;
  };
  struct Known {
    uint64_t number = 0;
    Probe probe;
  };

  void begin(Tag tag) { out_.byte(static_cast<uint8_t>(tag)); }
  void put(const Header& header);
  uint64_t number_of_thread(const session::Event& event);
  uint64_t number_of_probe(const session::Event& event);
  static Probe probe_of(const engine::ProbeName& name);
  static Probe probe_of(const session::Event& event);
  static bool is_of(const Probe& probe, const session::Event& event);
  uint64_t put(const Probe& probe);
  void put(const session::EventValue& value);
  void close_chunk();

  Encoder out_;
  std::string done_;  // whole chunks
  std::map<std::pair<pid_t, pid_t>, Thread> threads_;
  // By what names them, which other probes may come to have: that is checked.
  std::unordered_map<const engine::ProbeName*, Known> probes_;
  uint64_t threads_told_ = 0, probes_told_ = 0;
  uint64_t ns_multiplier_;
  // Of the last event.
  uint64_t tsc_, time_ns_, stack_pointer_ = 0;
  uint64_t thread_ = UINT64_MAX, probe_ = UINT64_MAX;
  uint64_t cpu_ = 0;  // plus 1; 0: it is not known
};

}  // namespace pinprick::recording
