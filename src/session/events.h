// The events that hits have recorded, one by one: what each tells, in words.
//
// Not thread-safe. Reads files of the process, and stops nothing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
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
#include "session/report.h"
#include "session/thread_commands.h"

namespace pinprick::session {

struct EventValue {
  std::string_view name = {};  // as the user calls it; empty: it has no name
  std::string_view text = {};  // the expression, as the user wrote it
  enum class Kind : uint8_t {
    number,
    signed_number,
    hexadecimal,
    words,      // a text
    code,       // an address in code, or a value of an enumeration, by its name
    error,      // an error number
    character,  // the lowest byte
    stack,      // the names of its frames, the innermost first, with a line end after each
    cut,        // a text that goes on
    none,       // there is no text, as its address is 0; or there is no value, and `words` say why
    unread,     // it could not be read
    other,      // a text that there was no room for
    floating,   // a floating-point number: `number` has the bits of a double
    members,    // of a structure: `inner`, by their names
    elements,  // of an array or a container, which has `number` of them: `inner` are the first ones
    variant,   // one of several structures, as `members`; `words` are its name
  } kind = Kind::number;
  uint64_t number = 0;
  std::string_view words = {};
  std::vector<EventValue> inner = {};
  bool is_cut = false;  // of `members`: there are more; of `none`: the value is left out
  // Of a value, or of none, in the user's words; null: it stands for itself.
  const action::Field::Words* format = nullptr;
};

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
    for (auto& [id, batch] : batches_) {
      batch.code.clear();
      batch.stacks.clear();
    }
  }

 private:
  struct OfBatch {
    std::vector<uint32_t> positions;      // in Session::probes(), by a probe's number, plus 1
    std::vector<bool> have_return_event;  // by a probe's number: Event::has_return_event
    std::map<uint32_t, engine::ProbeName> names;
    std::deque<ledger::ReadText> texts;  // those that were read so far; their addresses stay
    // By the address, and how far before it the code lies whose name it has.
    std::map<std::pair<Address, uint64_t>, std::string> code;
    std::map<uint64_t, std::string> stacks;  // by their numbers
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
  void fill(const ledger::Event& event, const engine::Session& session, OfBatch& batch,
            std::string_view command);
  // The parts of one event's values, and the tables that their texts and addresses are looked up
  // in.
  struct Parts {
    std::span<const uint64_t> values;
    const engine::Session& session;
    OfBatch& batch;
  };
  EventValue value_of(const action::ValueLayout& layout, const Parts& parts);
  EventValue number_of(const action::ValueLayout& layout, const Parts& parts);
  EventValue elements_of(const action::ValueLayout& layout, const Parts& parts);
  EventValue variant_of(const action::ValueLayout& layout, const Parts& parts);
  static void read_texts_up_to(uint64_t number, const engine::Session& session, OfBatch& batch);
  static void put_text(uint64_t number, const engine::Session& session, OfBatch& batch,
                       EventValue& value);
  const std::string& name_of_code(Address address, uint64_t before, const engine::Session& session,
                                  OfBatch& batch);
  void put_stack(uint64_t number, const engine::Session& session, OfBatch& batch,
                 EventValue& value);

  std::shared_ptr<const LoadedCode> code_of_process_;
  std::shared_ptr<ThreadCommands> commands_;
  std::map<engine::BatchId, OfBatch> batches_;
  std::vector<Taken> taken_;
  std::vector<EventValue> values_;
  uint64_t stack_pointer_ = 0;  // of the event whose values these are
  EventClock clock_;
};

}  // namespace pinprick::session
