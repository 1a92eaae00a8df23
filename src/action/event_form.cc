#include "action/event_form.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

namespace pinprick::action {
namespace {

// Numbers are followed by a blank, and texts come after their length. A file of another version is
// not read at all (layout/session_file.h), so the text needs no version.
class FormWriter {
 public:
  void number(uint64_t value) { text_ += std::to_string(value) + ' '; }
  void text(std::string_view value) {
    const size_t size = std::min(value.size(), value.find('\0'));
    number(size);
    text_ += value.substr(0, size);
  }
  void layout(const ValueLayout& layout);
  void field(const Field& field, uint8_t shown);
  std::string take() { return std::move(text_); }

 private:
  void names(const std::vector<ValueLayout::Named>& names);

  std::string text_;
};

void FormWriter::names(const std::vector<ValueLayout::Named>& names) {
  number(names.size());
  for (const auto& [value, name] : names) {
    number(value);
    text(name);
  }
}

void FormWriter::layout(const ValueLayout& layout) {
  number(static_cast<uint64_t>(layout.kind));
  text(layout.name);
  for (const uint8_t one : {layout.part, layout.shift, layout.bits, layout.end}) number(one);
  for (const bool one : {layout.may_be_unread, layout.is_mixed, layout.is_cut}) number(one ? 1 : 0);
  number(layout.count);
  names(layout.names);
  number(layout.inner.size());
  for (const ValueLayout& inner : layout.inner) this->layout(inner);
}

void FormWriter::field(const Field& field, uint8_t shown) {
  number(shown);
  text(field.name);
  text(field.value.text);
  number(select::follows_pointer(field.value.expression) ? 1 : 0);
  number(field.shown == Field::Shown::part ? 1 : 0);
  number(field.words ? 1 : 0);
  if (field.words) {
    text(field.words->before);
    text(field.words->after);
    number(field.words->has_value ? 1 : 0);
  }
  names(field.names);
  number(field.layout ? 1 : 0);
  if (field.layout) layout(*field.layout);
}

// After the first thing that makes no sense, all numbers are 0 and all texts empty.
class FormReader {
 public:
  explicit FormReader(std::string_view text) : rest_(text) {}

  bool is_right() const { return is_right_; }
  bool is_at_end() const { return is_right_ && rest_.empty(); }
  uint64_t number(uint64_t most = UINT64_MAX);
  bool flag() { return number(1) != 0; }
  std::string text();
  ValueLayout layout(size_t parts, unsigned depth);
  // One that begins `parts` words before the end of the event.
  Field field(size_t parts);
  // How many of something that takes two bytes at least.
  size_t count() { return number(rest_.size() / 2); }

 private:
  std::vector<ValueLayout::Named> names();
  void fail() {
    is_right_ = false;
    rest_ = {};
  }

  std::string_view rest_;
  bool is_right_ = true;
};

uint64_t FormReader::number(uint64_t most) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
  const auto size = static_cast<size_t>(end - rest_.data());
  if (error != std::errc() || size == rest_.size() || rest_[size] != ' ' || value > most) {
    fail();
    return 0;
  }
  rest_.remove_prefix(size + 1);
  return value;
}

std::string FormReader::text() {
  const size_t size = number();
  if (size > rest_.size()) fail();
  const std::string value(rest_.substr(0, size));
  rest_.remove_prefix(std::min(size, rest_.size()));
  return value;
}

std::vector<ValueLayout::Named> FormReader::names() {
  std::vector<ValueLayout::Named> names;
  for (size_t left = count(); left != 0 && is_right_; --left) {
    const uint64_t value = number();
    names.push_back({value, text()});
  }
  return names;
}

// `parts` is how many words it may be made of. The deepest value that is recorded has a hundredth
// of these levels.
ValueLayout FormReader::layout(size_t parts, unsigned depth) {
  constexpr unsigned kDeepest = 200, kWordBits = 64;
  ValueLayout layout;
  if (depth > kDeepest) fail();
  layout.kind =
      static_cast<ValueLayout::Kind>(number(static_cast<uint64_t>(ValueLayout::Kind::variant)));
  layout.name = text();
  layout.part = static_cast<uint8_t>(number(UINT8_MAX));
  layout.shift = static_cast<uint8_t>(number(kWordBits - 1));
  layout.bits = static_cast<uint8_t>(number(kWordBits));
  layout.end = static_cast<uint8_t>(number(UINT8_MAX));
  layout.may_be_unread = flag();
  layout.is_mixed = flag();
  layout.is_cut = flag();
  layout.count = number();
  layout.names = names();
  const bool has_bits = layout.bits != 0 && layout.shift + layout.bits <= kWordBits;
  const bool divides = layout.kind != ValueLayout::Kind::of_range || layout.count != 0;
  if (layout.part >= parts || layout.end >= parts || !has_bits || !divides) fail();
  for (size_t left = count(); left != 0 && is_right_; --left)
    layout.inner.push_back(this->layout(parts, depth + 1));
  return layout;
}

// All that is known of the expression is whether it follows a pointer.
select::Expression expression_that(bool follows_pointer) {
  select::Expression expression;
  expression.nodes.emplace_back();
  if (follows_pointer) expression.nodes.push_back({.what = select::Operator::load});
  return expression;
}

Field FormReader::field(size_t parts) {
  Field field;
  field.name = text();
  field.value.text = text();
  field.value.expression = expression_that(flag());
  if (flag()) field.shown = Field::Shown::part;
  if (flag()) {
    field.words = Field::Words{};
    field.words->before = text();
    field.words->after = text();
    field.words->has_value = flag();
  }
  field.names = names();
  if (flag()) field.layout = layout(parts, 0);
  return field;
}

}  // namespace

std::string text_of(const EventForm& form) {
  FormWriter writer;
  writer.text(form.action.event);
  writer.number(form.action.triggers_end ? 1 : 0);
  writer.number(form.action.span_part ? 1 : 0);
  if (const auto& part = form.action.span_part) {
    writer.number(part->span);
    writer.number(part->is_start ? 1 : 0);
  }
  writer.number(form.action.fields.size());
  for (size_t i = 0; i < form.action.fields.size(); ++i)
    writer.field(form.action.fields[i], i < form.shown.size() ? form.shown[i] : 0);
  return writer.take();
}

std::optional<EventForm> event_form(std::string_view text) {
  FormReader reader(text);
  EventForm form;
  form.action.kind = Kind::event;
  form.action.event = reader.text();
  form.action.triggers_end = reader.flag();
  if (reader.flag()) {
    form.action.span_part = Action::SpanPart{};
    form.action.span_part->span = static_cast<uint32_t>(reader.number(UINT32_MAX));
    form.action.span_part->is_start = reader.flag();
  }
  for (size_t left = reader.count(); left != 0 && reader.is_right(); --left) {
    form.shown.push_back(static_cast<uint8_t>(reader.number(UINT8_MAX)));
    form.action.fields.push_back(reader.field(left));
  }
  if (!reader.is_at_end()) return std::nullopt;
  return form;
}

}  // namespace pinprick::action
