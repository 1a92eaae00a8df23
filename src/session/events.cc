#include "session/events.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "session/code_names.h"
#include "session/stack.h"

namespace pinprick::session {

using Form = engine::Session::FieldForm;

EventReader::OfBatch EventReader::look_at(const engine::Session& session) {
  OfBatch batch;
  batch.positions.resize(session.events().size());
  batch.have_return_event.resize(batch.positions.size());
  std::set<Address> returning;
  for (const engine::ArmedProbe& one : session.probes())
    if (session.action_of(one).at_return && !session.action_of(one).triggers_end)
      returning.insert(session.match_of(one).site);
  for (uint32_t i = 0; i < session.probes().size(); ++i) {
    const engine::ArmedProbe& one = session.probes()[i];
    if (one.index >= batch.positions.size()) continue;
    batch.positions[one.index] = i + 1;
    batch.have_return_event[one.index] = !session.action_of(one).at_return &&
                                         !session.action_of(one).triggers_end &&
                                         returning.contains(session.match_of(one).site);
  }
  return batch;
}

const engine::ProbeName& EventReader::name_of(const engine::Session& session, OfBatch& batch,
                                              uint32_t probe) {
  const auto known = batch.names.find(probe);
  if (known != batch.names.end()) return known->second;
  const engine::ArmedProbe& armed = session.probes()[batch.positions[probe] - 1];
  return batch.names.emplace(probe, session.name_of(armed)).first->second;
}

static bool is_empty(const ledger::ReadText& text) {
  return text.text.empty() && !text.pair && text.frames.empty();
}

void EventReader::read_texts_up_to(uint64_t number, const engine::Session& session,
                                   OfBatch& batch) {
  if (number == 0 || number >= layout::kNullText) return;
  // An entry that was read before it was filled looks like an empty text.
  const bool is_blank = number <= batch.texts.size() && is_empty(batch.texts[number - 1]);
  if (number <= batch.texts.size() && !is_blank) return;
  const uint64_t first = is_blank ? number : batch.texts.size() + 1;
  auto more = session.texts_from(first);
  for (size_t i = 0; i < more.size(); ++i)
    if (first + i > batch.texts.size())
      batch.texts.push_back(std::move(more[i]));
    else if (ledger::ReadText& before = batch.texts[first + i - 1]; is_empty(before))
      before = std::move(more[i]);
}

void EventReader::put_text(uint64_t number, const engine::Session& session, OfBatch& batch,
                           EventValue& value) {
  using Kind = EventValue::Kind;
  read_texts_up_to(number, session, batch);
  if (number == layout::kOtherTexts) {
    value.kind = Kind::other;
  } else if (number == layout::kNullText) {
    value.kind = Kind::none;
  } else if (number == layout::kUnreadText || number > batch.texts.size()) {
    value.kind = Kind::unread;
  } else {
    const ledger::ReadText& text = batch.texts[number - 1];
    value.kind = text.is_cut ? Kind::cut : Kind::words;
    value.words = text.text;
  }
}

const std::string& EventReader::name_of_code(Address address, uint64_t before,
                                             const engine::Session& session, OfBatch& batch) {
  const auto [code, is_new] = batch.code.try_emplace({address, before});
  if (is_new)
    code->second = code_of_process_->name(session.image(), address, address - before).text();
  return code->second;
}

void EventReader::put_stack(uint64_t number, const engine::Session& session, OfBatch& batch,
                            EventValue& value) {
  using Kind = EventValue::Kind;
  read_texts_up_to(number, session, batch);
  if (number == layout::kOtherTexts) {
    value.kind = Kind::other;
    return;
  }
  auto known = batch.stacks.find(number);
  if (known == batch.stacks.end()) {
    const Stack stack = stack_of(number, batch.texts);
    if (stack.frames.empty()) {
      value.kind = Kind::unread;
      return;
    }
    constexpr size_t kMostKnown = 1 << 16;
    if (batch.stacks.size() > kMostKnown) batch.stacks.clear();
    const auto name = [&](Address address, uint64_t before) {
      return name_of_code(address, before, session, batch);
    };
    known = batch.stacks.emplace(number, frame_names(stack, name)).first;
  }
  value.kind = Kind::stack;
  value.words = known->second;
}

EventValue EventReader::number_of(const action::ValueLayout& layout, const Parts& parts) {
  using Is = action::ValueLayout::Kind;
  using Kind = EventValue::Kind;
  constexpr unsigned kAll = 64, kFloat = 32;
  EventValue value;
  uint64_t word = parts.values[layout.part];
  if (layout.may_be_unread && word == PP_KEPT_UNREAD) {
    value.kind = Kind::unread;
    return value;
  }
  if (layout.is_mixed) word ^= action::kMix;
  const unsigned above = kAll - layout.bits;
  uint64_t number = word >> layout.shift << above;
  number = layout.kind == Is::signed_number
               ? static_cast<uint64_t>(static_cast<int64_t>(number) >> above)
               : number >> above;
  value.number = number;
  value.kind = layout.kind == Is::signed_number ? Kind::signed_number
               : layout.kind == Is::hexadecimal ? Kind::hexadecimal
               : layout.kind == Is::character   ? Kind::character
                                                : Kind::number;
  if (layout.kind == Is::floating) {
    value.kind = Kind::floating;
    if (layout.bits == kFloat) {
      const auto narrow = std::bit_cast<float>(static_cast<uint32_t>(number));
      value.number = std::bit_cast<uint64_t>(static_cast<double>(narrow));
    }
  } else if (layout.kind == Is::symbol) {
    value.kind = Kind::code;
    value.words = name_of_code(number, 0, parts.session, parts.batch);
  } else if (const auto name =
                 std::ranges::find(layout.names, number, &action::ValueLayout::Named::number);
             name != layout.names.end()) {
    value.kind = Kind::code;
    value.words = name->name;
  }
  return value;
}

// The program's memory may say a number of elements that cannot be right.
EventValue EventReader::elements_of(const action::ValueLayout& layout, const Parts& parts) {
  using Is = action::ValueLayout::Kind;
  using Kind = EventValue::Kind;
  constexpr uint64_t kMost = uint64_t{1} << 47;  // as many bytes as there are addresses
  EventValue value = {.kind = Kind::elements, .number = layout.count};
  if (layout.kind != Is::array) {
    value = number_of(layout, parts);
    if (value.kind == Kind::unread) return value;
    value.kind = Kind::elements;
    // It may be a number with a sign, as many lengths are.
    constexpr uint8_t kInt = 32;
    const bool is_large = layout.bits >= kInt && value.number >> (layout.bits - 1) != 0;
    if (layout.kind == Is::of_length && is_large) value.number = kMost;
  }
  if (layout.kind == Is::of_range) {
    action::ValueLayout of_end = layout;
    of_end.part = layout.end;
    const EventValue end = number_of(of_end, parts);
    const uint64_t bytes = end.number - value.number;
    value.number = bytes / layout.count;
    if (end.kind == Kind::unread || bytes % layout.count != 0) value.number = kMost;
  }
  if (value.number >= kMost) {
    value.kind = Kind::unread;
    return value;
  }
  const size_t shown = std::min<uint64_t>(value.number, layout.inner.size());
  for (size_t i = 0; i < shown; ++i) value.inner.push_back(value_of(layout.inner[i], parts));
  return value;
}

// Where the number is that of none, there is none.
EventValue EventReader::variant_of(const action::ValueLayout& layout, const Parts& parts) {
  using Kind = EventValue::Kind;
  size_t which = 0;
  if (!layout.names.empty()) {
    const EventValue number = number_of(layout, parts);
    if (number.kind == Kind::unread) return number;
    const auto found =
        std::ranges::find(layout.names, number.number, &action::ValueLayout::Named::number);
    which = static_cast<size_t>(found - layout.names.begin());
  }
  if (which >= layout.inner.size()) return {.kind = Kind::none, .words = "none"};
  const action::ValueLayout& chosen = layout.inner[which];
  EventValue value = value_of(chosen, parts);
  if (chosen.name.empty()) return value;
  value.kind = Kind::variant;
  value.words = chosen.name;
  return value;
}

EventValue EventReader::value_of(const action::ValueLayout& layout, const Parts& parts) {
  using Is = action::ValueLayout::Kind;
  using Kind = EventValue::Kind;
  EventValue value;
  switch (layout.kind) {
    case Is::text:
      put_text(parts.values[layout.part], parts.session, parts.batch, value);
      // A hit has seen what comes after it, but a text that fills its array ends there.
      if (value.kind == Kind::cut && value.words.size() == layout.count) value.kind = Kind::words;
      break;
    case Is::left_out:
      value = {.kind = Kind::none, .words = "...", .is_cut = true};
      break;
    case Is::members:
      value.kind = Kind::members;
      value.is_cut = layout.is_cut;
      for (const action::ValueLayout& one : layout.inner)
        value.inner.push_back(value_of(one, parts));
      break;
    case Is::alternative:
      value = number_of(layout, parts);
      if (value.kind == Kind::unread) break;
      if (value.number != 0 && !layout.inner.empty())
        value = value_of(layout.inner.front(), parts);
      else
        value = {.kind = Kind::none, .words = "none"};
      break;
    case Is::variant:
      value = variant_of(layout, parts);
      break;
    case Is::array:
    case Is::of_length:
    case Is::of_range:
    case Is::counted:
      value = elements_of(layout, parts);
      break;
    default:
      value = number_of(layout, parts);
  }
  value.name = layout.name;
  return value;
}

void EventReader::fill(const ledger::Event& event, const engine::Session& session, OfBatch& batch,
                       std::string_view command) {
  using Kind = EventValue::Kind;
  const auto& forms = session.field_forms(event.probe);
  const auto& action = session.action_here(session.probes()[batch.positions[event.probe] - 1]);
  values_.clear();
  stack_pointer_ = 0;
  for (size_t i = 0; i < forms.size(); ++i) {
    if (forms[i] == Form::stack_pointer) {
      stack_pointer_ = event.values[i];
      continue;
    }
    if (action.fields[i].shown == action::Field::Shown::part) continue;
    EventValue& value = values_.emplace_back();
    if (const auto& layout = action.fields[i].layout)
      value = value_of(*layout, {event.values.subspan(i), session, batch});
    value.name = action.fields[i].name;
    value.text = action.fields[i].value.text;
    if (action.fields[i].words) value.format = &*action.fields[i].words;
    if (action.fields[i].layout) continue;
    value.number = event.values[i];
    value.kind = forms[i] == Form::signed_number ? Kind::signed_number
                 : forms[i] == Form::hexadecimal ? Kind::hexadecimal
                 : forms[i] == Form::error       ? Kind::error
                 : forms[i] == Form::character   ? Kind::character
                                                 : Kind::number;
    if (forms[i] == Form::command) {
      value.kind = Kind::words;
      value.words = command;
    } else if (forms[i] == Form::text) {
      put_text(value.number, session, batch, value);
    } else if (forms[i] == Form::stack) {
      put_stack(value.number, session, batch, value);
    } else if (value.number == PP_KEPT_UNREAD &&
               select::follows_pointer(action.fields[i].value.expression)) {
      value.kind = Kind::unread;
    } else if (forms[i] == Form::return_address || forms[i] == Form::symbol) {
      value.kind = Kind::code;
      value.words = name_of_code(value.number, forms[i] == Form::symbol ? 0 : 1, session, batch);
    } else if (const auto name = std::ranges::find(action.fields[i].names, value.number,
                                                   &action::ValueLayout::Named::number);
               name != action.fields[i].names.end()) {
      value.kind = Kind::code;
      value.words = name->name;
    }
  }
}

EventReader::OfBatch& EventReader::of(const engine::Batch& batch) {
  const auto [known, is_new] = batches_.try_emplace(batch.id);
  if (is_new) known->second = look_at(batch.session);
  return known->second;
}

uint64_t EventReader::Taken::next_tsc() const {
  if (newest) return newest->next_tsc();
  return next == events.size() ? UINT64_MAX : events[next].tsc;
}

std::optional<ledger::Event> EventReader::Taken::take() {
  if (!newest) return events[next++];
  const ledger::Event event = newest->take();
  return session->count(event) ? std::optional(event) : std::nullopt;
}

// Takes the events of a session. Returns whether that should be done again soon.
bool EventReader::take_into(Taken& taken, engine::Session& session) {
  taken.session = &session;
  taken.next = 0;
  taken.events.clear();
  taken.newest.reset();
  if (session.keeps_newest_events()) {
    if (auto newest = session.newest_events()) taken.newest.emplace(*std::move(newest));
    return false;
  }
  const bool soon = session.take_events(taken.events);
  taken.events.sort_by_time();
  return soon;
}

// Hands over the next event.
void EventReader::hand_over(const ProcessName& process, Taken& taken, EventSink& sink) {
  const auto taken_event = taken.take();
  if (!taken_event) return;
  const ledger::Event& one = *taken_event;
  const engine::Session& session = *taken.session;
  OfBatch& own = *taken.batch;
  if (own.positions[one.probe] == 0) return;
  const auto tid = static_cast<pid_t>(one.tid);
  const std::string_view command = commands_->of(tid, clock_.now_ns());
  fill(one, session, own, command);
  const engine::ProbeName& name = name_of(session, own, one.probe);
  std::optional<uint64_t> latency_ns;
  std::span<const EventValue> values = values_;
  if (name.at_return) {
    latency_ns = values.back().number;
    values = values.first(values.size() - 1);
  }
  // Threads without rseq share the areas.
  std::optional<uint32_t> cpu;
  if (one.area != 0 && !session.report().locked) cpu = static_cast<uint32_t>(one.area - 1);
  const auto& action = session.action_here(session.probes()[own.positions[one.probe] - 1]);
  sink.event({process, one.tsc, clock_.time_of(one.tsc), tid, cpu, command, name, values,
              latency_ns, own.have_return_event[one.probe], action.span_part, stack_pointer_,
              action.triggers_end});
}

bool EventReader::read(const ProcessName& process, std::span<engine::Batch* const> batches,
                       EventSink& sink, Turn turn) {
  bool soon = false;
  size_t count = 0;
  for (engine::Batch* const batch : batches) {
    engine::Session& session = batch->session;
    if (session.events().empty()) continue;
    if (turn != Turn::last && (session.keeps_newest_events() || !sink.has_room())) continue;
    if (count == taken_.size()) taken_.emplace_back();
    Taken& taken = taken_[count];
    soon = take_into(taken, session) || soon;
    if (taken.next_tsc() == UINT64_MAX) continue;
    taken.batch = &of(*batch);
    ++count;
  }
  if (count == 0) return soon;
  clock_.look();
  const std::span all(taken_.data(), count);
  for (;;) {
    const auto first = std::ranges::min_element(all, {}, &Taken::next_tsc);
    if (first->next_tsc() == UINT64_MAX) break;
    uint64_t until = UINT64_MAX - 1;
    for (const Taken& other : all)
      if (&other != &*first) until = std::min(until, other.next_tsc());
    do hand_over(process, *first, sink);
    while (first->next_tsc() <= until);
  }
  for (Taken& taken : all) taken.newest.reset();
  return soon;
}

}  // namespace pinprick::session
