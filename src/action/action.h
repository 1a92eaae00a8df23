// Actions: what a hit of a probe does, as the user asked for it. Pure; plain values. compile.h
// makes of an action's expressions what a stub computes.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "action/value_layout.h"
#include "select/expression.h"

namespace pinprick::action {

// The figure to which a hit contributes.
enum class Kind : uint8_t { count, latency, value, span, event };

// An expression, and how the user wrote it.
struct Computed {
  select::Expression expression = {};
  std::string text = {};

  bool empty() const { return expression.empty(); }
  friend bool operator==(const Computed&, const Computed&) = default;
};

// Texts of the expression say whether there is one at all.
void tell_null(select::Expression& expression);

// Is shown as what it is if it is a floating-point number. One that follows pointers has no -0.0,
// which stands for what could not be read: it becomes 0.
struct Field;
void tell_real(Field& field);

// What an event tells of a hit: a value, and what the user calls it.
struct Field {
  std::string name = {};
  Computed value = {};
  enum class Shown : uint8_t {
    as_it_is,
    hexadecimal,
    symbol,      // an address in code, by its name
    error,       // an error number, by its name
    character,   // the lowest byte, as one of C
    command,     // the name of the thread, whatever the value is
    raw,         // containers by their members
    part,        // as the layout of a field before it says
    not_at_all,  // the stack pointer, by which calls of a tree are told apart
  } shown = Shown::as_it_is;
  // The words that the user wants before and after the value. If words stand alone, the value of
  // their field is 0, and it is not shown.
  struct Words {
    std::string before = {}, after = {};
    bool has_value = true;
    friend bool operator==(const Words&, const Words&) = default;
  };
  std::optional<Words> words = {};
  // The values that have names, if it is one of an enumeration.
  std::vector<ValueLayout::Named> names = {};
  // If it has one, its parts are this field and the next ones that are `part`.
  std::optional<ValueLayout> layout = {};
  friend bool operator==(const Field&, const Field&) = default;
};

struct Action {
  Kind kind = Kind::count;
  uint32_t measure = 0;         // to whose figures a hit contributes: its number in the selection
  std::string event = {};       // for Kind::event: what the user calls it; empty: as what is hit
  Computed value = {};          // for Kind::value: what is recorded
  Computed key = {};            // by which hits are told apart; empty: they are not. Not for spans
  Computed sum = {};            // for Kind::count: what is added up; empty: nothing
  bool keeps_extremes = false;  // of what is added up
  Computed condition = {};      // empty: each hit contributes
  std::vector<Field> fields = {};  // for Kind::event
  uint32_t every = 1;              // for Kind::event: of its hits, a CPU records only each Nth
  bool triggers_end = false;       // for Kind::event: a hit ends the recording of events
  // For Kind::event: which span of the selection it starts or ends.
  struct SpanPart {
    uint32_t span = 0;
    bool is_start = false;
    friend bool operator==(const SpanPart&, const SpanPart&) = default;
  };
  std::optional<SpanPart> span_part = {};
  // Where the parameters of a function, or the arguments of a point, are known, they come first.
  bool tells_arguments = false;
  bool tells_variables = false;       // so do all variables there, where they are known
  bool leaves_out_arguments = false;  // then only the result is added, at a return
  // It is done when the call that a hit starts returns: value, key, sum and condition are of that
  // moment. The key of a timed call always is.
  bool at_return = false;

  // Is the call measured from its entry to its return?
  bool times_call() const { return kind == Kind::latency || at_return; }
  // Is it done where a hit is, by a counter alone? The calls of a count at the return are timed:
  // only their number is of interest, but some may be lost.
  bool counts() const { return kind == Kind::count && !at_return; }
  // Is something computed when the call returns?
  bool computes_at_return() const { return at_return || (times_call() && has_key()); }
  bool has_key() const { return !key.empty(); }
  bool has_sum() const { return !sum.empty(); }
  // Is what is added up floating-point numbers?
  bool adds_reals() const { return select::is_real(sum.expression); }
  // Do hits go through the table of keys? Without a key, a sum has one entry there.
  bool uses_keys() const { return has_key() || has_sum(); }
  // Is the key a text?
  bool has_text_key() const { return select::is_text(key.expression); }
  // Has the key several parts? A stack alone is a list of one.
  bool has_list_key() const {
    return select::is_list(key.expression) || select::is_stack(key.expression);
  }
  // Is the key where the function returns to?
  bool has_caller_key() const { return select::is_caller(key.expression); }
  // Does an expression of it follow a pointer? And does it number texts, or pairs of numbers?
  bool follows_pointers() const;
  bool reads_texts() const;
  bool tells_stack() const;   // does any expression?
  bool tells_thread() const;  // does any expression?
  bool tells_self_time() const;
  // Has each key a histogram?
  bool records_by_key() const { return has_key() && kind != Kind::count; }
  friend bool operator==(const Action&, const Action&) = default;

  // Calls `f` with each expression, which may be empty.
  template <class F>
  void for_each_expression(F&& f) const {
    for (const Computed* one : {&value, &key, &sum, &condition}) f(*one);
    for (const Field& field : fields) f(field.value);
  }
};

// A scope in which names in expressions mean the same: one instruction of a function, or the site
// of a point. `of` is the address of that function or point in our memory.
struct Scope {
  const void* of = nullptr;
  uint64_t instruction = 0;
  friend auto operator<=>(const Scope&, const Scope&) = default;
};

// The action of each pattern. Patterns with the same action have one between them.
class Actions {
 public:
  Actions(Kind of_all);
  // `by_pattern` has indices into `all`.
  Actions(std::vector<Action> all, std::vector<uint32_t> by_pattern);

  // Returns the number of a pattern's action.
  uint32_t number_of(uint32_t pattern) const {
    return by_pattern_.empty() ? 0 : by_pattern_[pattern];
  }
  const Action& of(uint32_t pattern) const { return all_[number_of(pattern)]; }
  const std::vector<Action>& all() const { return all_; }

  // The same in a scope.
  uint32_t number_of(uint32_t pattern, const Scope& scope) const {
    if (in_scopes_.empty()) return number_of(pattern);
    const auto found = in_scopes_.find({number_of(pattern), scope});
    return found == in_scopes_.end() ? number_of(pattern) : found->second;
  }
  const Action& of(uint32_t pattern, const Scope& scope) const {
    return all_[number_of(pattern, scope)];
  }
  // Makes `here` the pattern's action in that scope. It is the same, but for its expressions.
  void add_in(const Scope& scope, uint32_t pattern, Action here);

  bool has(Kind kind) const;
  bool has_others_than(Kind kind) const;
  bool uses_keys() const;
  bool has_sums() const;
  bool have_extremes() const;
  bool records_by_keys() const;
  bool follows_pointers() const;
  bool reads_texts() const;
  bool has_lists() const;
  bool tell_threads() const;
  bool tell_self_times() const;
  bool tell_errors() const;
  bool tell_stacks() const;
  bool name_code() const;    // is an address of code told by its name?
  bool times_calls() const;  // does any?
  bool only_times_calls() const;
  bool only_counts() const;

 private:
  std::vector<Action> all_;  // at least one
  std::vector<uint32_t> by_pattern_;
  std::map<std::pair<uint32_t, Scope>, uint32_t> in_scopes_;
};

}  // namespace pinprick::action
