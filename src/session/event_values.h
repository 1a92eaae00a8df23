// EventValues: what the words of an event stand for, such as texts, names of code, and structures.
//
// The words are what the target has written: each number is checked before it leads anywhere. Not
// thread-safe. Stops nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "action/action.h"
#include "base/address.h"
#include "engine/session.h"
#include "ledger/session_file.h"

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

// The tables that texts and addresses are looked up in.
class EventSource {
 public:
  virtual ~EventSource() = default;
  // Those from that number on (ledger/session_file.h).
  virtual std::vector<ledger::ReadText> texts_from(uint64_t number) const = 0;
  // The name of an address in the code of the function at `address - before`.
  virtual std::string name_of_code(Address address, uint64_t before) const = 0;
};

// Of the events of one session. Texts and names are looked up once.
class EventValues {
 public:
  // Takes the words of an event, of which there are as many as forms and as fields of the action.
  void fill(std::span<const uint64_t> words, std::span<const engine::Session::FieldForm> forms,
            const action::Action& action, std::string_view command, const EventSource& source);
  // These are of that event, and refer to its action and its command.
  std::span<const EventValue> values() const { return values_; }
  uint64_t stack_pointer() const { return stack_pointer_; }  // 0: it is not known

  // To be called when code is gone, as other code may come to its addresses.
  void forget_code() {
    code_.clear();
    stacks_.clear();
  }

 private:
  // The parts of one value, and where they are looked up.
  struct Parts {
    std::span<const uint64_t> values;
    const EventSource& source;
  };
  EventValue value_of(const action::ValueLayout& layout, const Parts& parts);
  EventValue number_of(const action::ValueLayout& layout, const Parts& parts);
  EventValue elements_of(const action::ValueLayout& layout, const Parts& parts);
  EventValue variant_of(const action::ValueLayout& layout, const Parts& parts);
  void read_texts_up_to(uint64_t number, const EventSource& source);
  void put_text(uint64_t number, const EventSource& source, EventValue& value);
  const std::string& name_of_code(Address address, uint64_t before, const EventSource& source);
  void put_stack(uint64_t number, const EventSource& source, EventValue& value);

  std::vector<EventValue> values_;
  uint64_t stack_pointer_ = 0;
  std::deque<ledger::ReadText> texts_;  // those that were read so far; their addresses stay
  // By the address, and how far before it the code lies whose name it has.
  std::map<std::pair<Address, uint64_t>, std::string> code_;
  std::map<uint64_t, std::string> stacks_;  // by their numbers
};

}  // namespace pinprick::session
