// An event as a line for people:
//
//     14:03:22.123456    4242 redis-server    call(c=94822, "k") = 3 <12.3us>
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cli/render/call_tree.h"
#include "cli/render/event_spans.h"
#include "session/events.h"
#include "session/thread_identity.h"

namespace pinprick::cli {

// What the value is called: its name, or the expression, without a type that ends it.
std::string_view name_of(const session::EventValue& value);

// Is it the error of a call that was told with its result (--args)? It is 0 if the call has not
// failed.
bool is_error_of_result(const session::EventValue& value);

// Returns the name of an error number, or the number if it has none.
std::string error_text(uint64_t number);

// Returns the value of a structure, an array or a container: {fd=3,name="x"}, [5]{1,2,3,4,...}. And
// that of a floating-point number, and why there is none.
std::string shown_value(const session::EventValue& value);

// Without styles. `function` is shown instead of the name of the probe.
std::string text_of(const session::Event& event, std::string_view function);

// Returns the number of its thread, or of its process if that is not known.
pid_t number_of_thread(const session::Event& event);

// Returns what the event says in the user's words (select/format.h); nullopt if there are none.
std::optional<std::string> in_words(const session::Event& event);

// Returns the event as part of a tree of calls.
CallTree::Event in_tree(const session::Event& event, std::string_view function);

// Returns the start or the end of a span, for line_of_span().
EventSpans::Event in_span(const session::Event& event, std::string_view point);
std::string line_of_span(const EventSpans::Ended& span);

// HH:MM:SS and microseconds, of the local time zone.
std::string time_of_day(uint64_t realtime_ns);

}  // namespace pinprick::cli
