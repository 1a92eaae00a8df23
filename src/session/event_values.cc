#include "session/event_values.h"

#include <algorithm>
#include <bit>

#include "session/stack.h"

namespace pinprick::session {

static bool is_empty(const ledger::ReadText& text) {
  return text.text.empty() && !text.pair && text.frames.empty();
}

void EventValues::read_texts_up_to(uint64_t number, const EventSource& source) {
  if (number == 0 || number >= layout::kNullText) return;
  // An entry that was read before it was filled looks like an empty text.
  const bool is_blank = number <= texts_.size() && is_empty(texts_[number - 1]);
  if (number <= texts_.size() && !is_blank) return;
  const uint64_t first = is_blank ? number : texts_.size() + 1;
  auto more = source.texts_from(first);
  for (size_t i = 0; i < more.size(); ++i)
    if (first + i > texts_.size())
      texts_.push_back(std::move(more[i]));
    else if (ledger::ReadText& before = texts_[first + i - 1]; is_empty(before))
      before = std::move(more[i]);
}

void EventValues::put_text(uint64_t number, const EventSource& source, EventValue& value) {
  using Kind = EventValue::Kind;
  read_texts_up_to(number, source);
  if (number == layout::kOtherTexts) {
    value.kind = Kind::other;
  } else if (number == layout::kNullText) {
    value.kind = Kind::none;
  } else if (number == layout::kUnreadText || number > texts_.size()) {
    value.kind = Kind::unread;
  } else {
    const ledger::ReadText& text = texts_[number - 1];
    value.kind = text.is_cut ? Kind::cut : Kind::words;
    value.words = text.text;
  }
}

const std::string& EventValues::name_of_code(Address address, uint64_t before,
                                             const EventSource& source) {
  const auto [code, is_new] = code_.try_emplace({address, before});
  if (is_new) code->second = source.name_of_code(address, before);
  return code->second;
}

void EventValues::put_stack(uint64_t number, const EventSource& source, EventValue& value) {
  using Kind = EventValue::Kind;
  read_texts_up_to(number, source);
  if (number == layout::kOtherTexts) {
    value.kind = Kind::other;
    return;
  }
  auto known = stacks_.find(number);
  if (known == stacks_.end()) {
    const Stack stack = stack_of(number, texts_);
    if (stack.frames.empty()) {
      value.kind = Kind::unread;
      return;
    }
    constexpr size_t kMostKnown = 1 << 16;
    if (stacks_.size() > kMostKnown) stacks_.clear();
    const auto name = [&](Address address, uint64_t before) {
      return name_of_code(address, before, source);
    };
    known = stacks_.emplace(number, frame_names(stack, name)).first;
  }
  value.kind = Kind::stack;
  value.words = known->second;
}

EventValue EventValues::number_of(const action::ValueLayout& layout, const Parts& parts) {
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
    value.words = name_of_code(number, 0, parts.source);
  } else if (const auto name =
                 std::ranges::find(layout.names, number, &action::ValueLayout::Named::number);
             name != layout.names.end()) {
    value.kind = Kind::code;
    value.words = name->name;
  }
  return value;
}

// The program's memory may say a number of elements that cannot be right.
EventValue EventValues::elements_of(const action::ValueLayout& layout, const Parts& parts) {
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

// A number that no alternative has means that there is no value.
EventValue EventValues::variant_of(const action::ValueLayout& layout, const Parts& parts) {
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

EventValue EventValues::value_of(const action::ValueLayout& layout, const Parts& parts) {
  using Is = action::ValueLayout::Kind;
  using Kind = EventValue::Kind;
  EventValue value;
  switch (layout.kind) {
    case Is::text:
      put_text(parts.values[layout.part], parts.source, value);
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

void EventValues::fill(std::span<const uint64_t> words,
                       std::span<const engine::Session::FieldForm> forms,
                       const action::Action& action, std::string_view command,
                       const EventSource& source) {
  using Form = engine::Session::FieldForm;
  using Kind = EventValue::Kind;
  values_.clear();
  stack_pointer_ = 0;
  for (size_t i = 0; i < forms.size(); ++i) {
    if (forms[i] == Form::stack_pointer) {
      stack_pointer_ = words[i];
      continue;
    }
    if (action.fields[i].shown == action::Field::Shown::part) continue;
    EventValue& value = values_.emplace_back();
    if (const auto& layout = action.fields[i].layout)
      value = value_of(*layout, {words.subspan(i), source});
    value.name = action.fields[i].name;
    value.text = action.fields[i].value.text;
    if (action.fields[i].words) value.format = &*action.fields[i].words;
    if (action.fields[i].layout) continue;
    value.number = words[i];
    value.kind = forms[i] == Form::signed_number ? Kind::signed_number
                 : forms[i] == Form::hexadecimal ? Kind::hexadecimal
                 : forms[i] == Form::error       ? Kind::error
                 : forms[i] == Form::character   ? Kind::character
                                                 : Kind::number;
    if (forms[i] == Form::command) {
      value.kind = Kind::words;
      value.words = command;
    } else if (forms[i] == Form::text) {
      put_text(value.number, source, value);
    } else if (forms[i] == Form::stack) {
      put_stack(value.number, source, value);
    } else if (value.number == PP_KEPT_UNREAD &&
               select::follows_pointer(action.fields[i].value.expression)) {
      value.kind = Kind::unread;
    } else if (forms[i] == Form::return_address || forms[i] == Form::symbol) {
      value.kind = Kind::code;
      value.words = name_of_code(value.number, forms[i] == Form::symbol ? 0 : 1, source);
    } else if (const auto name = std::ranges::find(action.fields[i].names, value.number,
                                                   &action::ValueLayout::Named::number);
               name != action.fields[i].names.end()) {
      value.kind = Kind::code;
      value.words = name->name;
    }
  }
}

}  // namespace pinprick::session
