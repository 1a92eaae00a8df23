// The events that hits have recorded, one by one: what each tells, in words.
//
// Not thread-safe. Reads files of the process, and stops nothing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/address.h"
#include "engine/engine.h"
#include "ledger/session_file.h"
#include "session/code_names.h"
#include "session/event_clock.h"
#include "session/event_values.h"
#include "session/report.h"
#include "session/thread_commands.h"

namespace pinprick::session {

// All that it refers to is valid while it is handed over.
struct Event {
  const ProcessName& process;
  uint64_t tsc = 0;                  // by which events of all processes can be ordered
  uint64_t time_ns = 0;              // the same by CLOCK_REALTIME
  pid_t tid = 0;                     // 0: it is not known
  std::optional<uint32_t> cpu = {};  // nullopt: it is not known
  std::string_view command = {};     // of the thread
  const engine::ProbeName& name;
  std::span<const EventValue> values;       // in the order in which they were asked for
  std::optional<uint64_t> latency_ns = {};  // at the return of a call
  bool has_return_event = false;  // at the entry of a call: another event will tell its return
  // It is a part of a span, and is to be told together with the other one.
  std::optional<action::Action::SpanPart> span_part = {};
  uint64_t stack_pointer = 0;  // 0: it is not known; it is only in trees, and not at returns
  bool triggers_end = false;   // it ends the recording (action::Action::triggers_end)
};

class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void event(const Event& event) = 0;
  // The process runs another program, of which there was no event yet.
  virtual void executed(const ProcessName&) {}
  // If it has none, events stay in their rings.
  virtual bool has_room() const { return true; }
  // A hit has triggered the end of the recording. Where rings keep the newest events, these are
  // handed over later.
  virtual void triggered() {}
};

class EventReader {
 public:
  // `code` names addresses of code, and `commands` threads.
  EventReader(std::shared_ptr<const LoadedCode> code, std::shared_ptr<ThreadCommands> commands)
      : code_of_process_(std::move(code)), commands_(std::move(commands)) {}

  // Hands over the events that have come to the batches of a process since the last call, in the
  // order of time. Returns whether the next call should come soon. The last events are handed over
  // even if the sink has no room.
  enum class Turn : bool { one_of_many, last };
  bool read(const ProcessName& process, std::span<engine::Batch* const> batches, EventSink& sink,
            Turn turn = Turn::one_of_many);
  // To be called before the batch is erased.
  void forget(engine::BatchId batch) { batches_.erase(batch); }
  // To be called when code is gone, as other code may come to its addresses.
  void forget_code() {
    for (auto& [id, batch] : batches_) batch.values.forget_code();
  }

 private:
  struct OfBatch {
    std::vector<uint32_t> positions;      // in Session::probes(), by a probe's number, plus 1
    std::vector<bool> have_return_event;  // by a probe's number: Event::has_return_event
    std::map<uint32_t, engine::ProbeName> names;
    EventValues values;
  };
  // Events of a batch that were not handed over yet: those that were taken out of its rings, or
  // those that the rings keep, and which are read piece by piece.
  struct Taken {
    ledger::Events events;
    size_t next = 0;
    std::optional<ledger::NewestEvents> newest;
    engine::Session* session = nullptr;
    OfBatch* batch = nullptr;

    uint64_t next_tsc() const;
    // Returns nullopt if it is no event.
    std::optional<ledger::Event> take();
  };
  static bool take_into(Taken& taken, engine::Session& session);
  OfBatch& of(const engine::Batch& batch);
  void hand_over(const ProcessName& process, Taken& taken, EventSink& sink);
  static OfBatch look_at(const engine::Session& session);
  static const engine::ProbeName& name_of(const engine::Session& session, OfBatch& batch,
                                          uint32_t probe);

  std::shared_ptr<const LoadedCode> code_of_process_;
  std::shared_ptr<ThreadCommands> commands_;
  std::map<engine::BatchId, OfBatch> batches_;
  std::vector<Taken> taken_;
  EventClock clock_;
};

}  // namespace pinprick::session
