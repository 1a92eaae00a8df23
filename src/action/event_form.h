// EventForm: what the words of an event mean, as text that its session file keeps. So another
// pinprick can tell the events of a recorder that was killed.
//
// The text lies in a file that any process of the session may write: reading it checks all of it.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "action/action.h"

namespace pinprick::action {

struct EventForm {
  // Of its expressions, a reader knows only the text, and whether they follow a pointer.
  Action action = {};
  std::vector<uint8_t> shown = {};  // for each field: a number that the session's module gives it
};

// Returns a text without a 0 in it.
std::string text_of(const EventForm& form);
// Returns nullopt if it is no such text.
std::optional<EventForm> event_form(std::string_view text);

}  // namespace pinprick::action
