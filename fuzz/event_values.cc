// The events that a killed recorder has left: any form of events, any words of an event, and any
// table of texts. What is shown has at most as many values as its form has fields, and a form that
// is understood is the same when it is written and read again.
#include "session/event_values.h"

#include <algorithm>

#include "action/event_form.h"
#include "fuzzer.h"

using namespace pinprick;

namespace {

using Form = engine::Session::FieldForm;

// Texts, pairs and parts of stacks, whose numbers may lead anywhere.
class Texts : public session::EventSource {
 public:
  explicit Texts(fuzz::Numbers& from) {
    texts_.resize(from.take<uint8_t>() % 8);
    for (ledger::ReadText& one : texts_) {
      const auto kind = from.take<uint8_t>();
      if (kind % 3 == 0) one.text = std::string(kind, 'x');
      if (kind % 3 == 1) one.pair = {from.take<uint16_t>(), from.take<uint64_t>()};
      if (kind % 3 == 2) one.frames.resize(kind / 3, from.take<uint16_t>() % 10);
    }
  }
  std::vector<ledger::ReadText> texts_from(uint64_t number) const override {
    CHECK(number != 0);
    const auto skipped = std::min<uint64_t>(number - 1, texts_.size());
    return {texts_.begin() + static_cast<std::ptrdiff_t>(skipped), texts_.end()};
  }
  std::string name_of_code(Address, uint64_t) const override { return "f"; }

 private:
  std::vector<ledger::ReadText> texts_;
};

size_t depth_of(const session::EventValue& value) {
  size_t deepest = 0;
  for (const session::EventValue& inner : value.inner) deepest = std::max(deepest, depth_of(inner));
  return deepest + 1;
}

action::ValueLayout number_at(uint8_t part, uint8_t shift, uint8_t bits) {
  action::ValueLayout number;
  number.part = part;
  number.shift = shift;
  number.bits = bits;
  return number;
}

Input seed(const action::EventForm& form) {
  Input input = fuzz::text(action::text_of(form));
  const uint16_t size = static_cast<uint16_t>(input.size());
  input.insert(input.begin(), {static_cast<uint8_t>(size), static_cast<uint8_t>(size >> 8)});
  for (uint8_t i = 0; i < 80; ++i) input.push_back(i);
  return input;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Numbers numbers({data, size});
  const auto length = numbers.take<uint16_t>();
  const auto text = numbers.rest().first(std::min<size_t>(length, numbers.rest().size()));
  const auto form = action::event_form({reinterpret_cast<const char*>(text.data()), text.size()});
  if (!form) return 0;
  const auto again = action::event_form(action::text_of(*form));
  CHECK(again && again->shown == form->shown && action::text_of(*again) == action::text_of(*form));
  fuzz::Numbers rest(numbers.rest().subspan(text.size()));
  const Texts texts(rest);
  std::vector<Form> forms;
  std::vector<uint64_t> words;
  for (const uint8_t shown : form->shown) {
    forms.push_back(
        static_cast<Form>(std::min<uint8_t>(shown, static_cast<uint8_t>(Form::stack_pointer))));
    words.push_back(rest.take<uint64_t>());
  }
  session::EventValues values;
  for (int round = 0; round < 2; ++round) {
    values.fill(words, forms, form->action, "command", texts);
    CHECK(values.values().size() <= form->action.fields.size());
    for (const session::EventValue& value : values.values()) CHECK(depth_of(value) <= 400);
    values.forget_code();
  }
  return 0;
}

std::vector<Input> seeds() {
  using Kind = action::ValueLayout::Kind;
  action::EventForm form;
  form.action.kind = action::Kind::event;
  form.action.event = "io:opened";
  form.action.fields.resize(4);
  form.action.fields[0].name = "r";
  form.action.fields[3].words = action::Field::Words{"n is ", "!", true};
  form.shown = {0, 0, 3, 5};
  std::vector<Input> all = {seed(form)};
  action::ValueLayout range = number_at(0, 0, 64);
  range.kind = Kind::of_range;
  range.end = 1;
  range.count = 16;
  range.inner = {number_at(1, 32, 32), number_at(1, 0, 32)};
  action::ValueLayout variant = number_at(0, 8, 8);
  variant.kind = Kind::variant;
  variant.names = {{1, "A"}, {2, "B"}};
  variant.inner = {range, number_at(2, 0, 8)};
  for (const action::ValueLayout& layout : {range, variant}) {
    form.action.fields[0].layout = layout;
    all.push_back(seed(form));
  }
  return all;
}
