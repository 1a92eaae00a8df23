#include "action/event_form.h"

#include <gtest/gtest.h>

#include <string>

namespace pinprick::action {
namespace {

using Kind = ValueLayout::Kind;

Computed pointer(std::string text) {
  Computed computed;
  computed.text = std::move(text);
  computed.expression.nodes.resize(1);
  computed.expression.nodes.push_back({.what = select::Operator::load});
  return computed;
}

EventForm whole() {
  ValueLayout member;
  member.kind = Kind::signed_number;
  member.name = "fd: 3 \n";
  member.part = 1;
  member.shift = 32;
  member.bits = 32;
  member.names = {{7, "SEVEN"}, {UINT64_MAX, ""}};
  ValueLayout range;
  range.kind = Kind::of_range;
  range.end = 1;
  range.count = 16;
  range.may_be_unread = range.is_mixed = range.is_cut = true;
  range.inner = {member};
  ValueLayout members;
  members.kind = Kind::members;
  members.inner = {member, range};

  EventForm form;
  form.action.kind = action::Kind::event;
  form.action.event = "io:opened";
  form.action.triggers_end = true;
  form.action.span_part = Action::SpanPart{7, true};
  form.action.fields.resize(4);
  form.action.fields[0].name = "r";
  form.action.fields[0].value = pointer("*r");
  form.action.fields[0].layout = members;
  form.action.fields[1].shown = Field::Shown::part;
  form.action.fields[2].words = Field::Words{"n is ", "!", false};
  form.action.fields[3].value.text = "$arg1";
  form.action.fields[3].names = {{0, "NONE"}};
  form.shown = {0, 0, 3, 10};
  return form;
}

TEST(EventForm, IsTheSameWhenItsTextIsRead) {
  const EventForm form = whole();
  const auto read = event_form(text_of(form));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->shown, form.shown);
  const Action &now = read->action, &was = form.action;
  EXPECT_EQ(now.kind, action::Kind::event);
  EXPECT_EQ(now.event, was.event);
  EXPECT_EQ(now.triggers_end, was.triggers_end);
  EXPECT_EQ(now.span_part, was.span_part);
  ASSERT_EQ(now.fields.size(), was.fields.size());
  for (size_t i = 0; i < was.fields.size(); ++i) {
    EXPECT_EQ(now.fields[i].name, was.fields[i].name);
    EXPECT_EQ(now.fields[i].value.text, was.fields[i].value.text);
    EXPECT_EQ(select::follows_pointer(now.fields[i].value.expression),
              select::follows_pointer(was.fields[i].value.expression));
    EXPECT_EQ(now.fields[i].shown, was.fields[i].shown);
    EXPECT_EQ(now.fields[i].words, was.fields[i].words);
    EXPECT_EQ(now.fields[i].names, was.fields[i].names);
    EXPECT_EQ(now.fields[i].layout, was.fields[i].layout);
  }
}

TEST(EventForm, OfAnEventWithoutAnythingIsNoEmptyText) {
  const std::string text = text_of({});
  EXPECT_FALSE(text.empty());
  EXPECT_TRUE(event_form(text));
}

// The names of a session file end with a 0.
TEST(EventForm, HasNoZeroInItsText) {
  EventForm form = whole();
  form.action.fields[0].name = std::string("a\0b", 3);
  const std::string text = text_of(form);
  EXPECT_EQ(text.find('\0'), text.npos);
  ASSERT_TRUE(event_form(text));
  EXPECT_EQ(event_form(text)->action.fields[0].name, "a");
}

TEST(EventForm, IsNotReadFromAPartOfItsText) {
  const std::string text = text_of(whole());
  for (size_t size = 0; size < text.size(); ++size)
    EXPECT_FALSE(event_form(text.substr(0, size))) << size;
  EXPECT_FALSE(event_form(text + "1 "));
}

// What comes of a text that was changed never leads beyond the words of an event.
bool stays_within(const ValueLayout& layout, size_t parts) {
  if (layout.part >= parts || layout.end >= parts) return false;
  if (layout.bits == 0 || layout.shift + layout.bits > 64) return false;
  if (layout.kind > Kind::variant || (layout.kind == Kind::of_range && layout.count == 0))
    return false;
  for (const ValueLayout& inner : layout.inner)
    if (!stays_within(inner, parts)) return false;
  return true;
}

TEST(EventForm, OfAChangedTextStaysWithinTheEvent) {
  const std::string text = text_of(whole());
  size_t read = 0;
  for (size_t at = 0; at < text.size(); ++at)
    for (const char c : {'0', '1', '9', ' ', '-', 'x'}) {
      std::string changed = text;
      changed[at] = c;
      const auto form = event_form(changed);
      if (!form) continue;
      ++read;
      ASSERT_EQ(form->shown.size(), form->action.fields.size());
      for (size_t i = 0; i < form->action.fields.size(); ++i)
        if (const auto& layout = form->action.fields[i].layout) {
          ASSERT_TRUE(stays_within(*layout, form->action.fields.size() - i)) << changed;
        }
    }
  EXPECT_GT(read, 0u);
}

TEST(EventForm, OfStructuresThatNeverEndIsRefused) {
  EventForm form;
  form.action.fields.resize(1);
  form.shown = {0};
  ValueLayout layout;
  for (int depth = 0; depth < 1000; ++depth) {
    ValueLayout outer;
    outer.inner.push_back(std::move(layout));
    layout = std::move(outer);
  }
  form.action.fields[0].layout = std::move(layout);
  EXPECT_FALSE(event_form(text_of(form)));
}

}  // namespace
}  // namespace pinprick::action
