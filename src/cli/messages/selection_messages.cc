// Messages about errors in a selection.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <variant>

#include "cli/messages/messages.h"

namespace pinprick::cli {
namespace {

Message message(const image::PatternError& error) {
  const bool later = error.cause == image::PatternCause::not_implemented;
  return {later ? "not_implemented" : "bad_pattern",
          fmt::format("bad pattern '{}': {}", error.pattern, image::explanation(error)), kUsage};
}

Message message(const session::BadValue& bad) {
  const std::string& point = bad.point;
  const select::ValueError& error = bad.error;
  using Cause = select::ValueError::Cause;
  const auto say = [&](const std::string& why) {
    return Message{"bad_value", fmt::format("'{}': {}", point, why), kUsage};
  };
  switch (error.cause) {
    case Cause::no_value:
      return say(fmt::format("it names no value to record; write '{} $arg3', or %rdx", point));
    case Cause::unknown_argument:
      if (point.starts_with("usdt:"))
        return say(fmt::format("'{}' is not an argument of a point; these are $arg1 to $arg12",
                               error.text));
      return say(fmt::format("'{}' is not an argument in a register; these are $arg1 to $arg6",
                             error.text));
    case Cause::unknown_register:
      return say(
          fmt::format("'{}' is not a 64-bit register such as %rdi or %r8; for a part of one, "
                      "add a type: %rdi:u32",
                      error.text));
    case Cause::unknown_type:
      return say(fmt::format("'{}' is not one of the types u8 to u64 and s8 to s64", error.text));
    case Cause::several:
      return say(fmt::format("a hit records one value; leave out {}", error.text));
  }
  return say("bad value");
}

Message message(const session::BadSpan& bad) {
  const auto say = [&](const std::string& why) {
    return Message{"bad_span", fmt::format("'{}': {}", bad.text, why), kUsage};
  };
  switch (bad.error) {
    case select::SpanError::no_start:
      return say("the start is missing; write 'START..END'");
    case select::SpanError::no_end:
      return say("the end is missing; write 'START..END'");
    case select::SpanError::several:
      return say("a span has two points; write '?' for the dots of a name");
  }
  return say("bad span");
}

Message message(const session::ArgumentAtOffset& bad) {
  return {"bad_value",
          fmt::format("'{} {}': an argument is in its register at the function's entry only; "
                      "at an offset, name the register, as in %rdi",
                      bad.point, bad.value),
          kUsage};
}

Message message(const session::NoSpan& bad) {
  return {"bad_span",
          fmt::format("'{}' is a function, but others are spans; measure calls and spans with "
                      "one command each",
                      bad.text),
          kUsage};
}

Message message(const session::TooManySpans& bad) {
  return {
      "bad_span",
      fmt::format("{} spans are too many for one command; {} are possible", bad.spans, bad.most),
      kUsage};
}

Message message(const session::NothingMatched& error) {
  using Remedy = session::NothingMatched::Remedy;
  if (error.patterns.empty())
    return {"nothing_matched", "every match is excluded; nothing is left to probe",
            kNothingMatched};
  std::string names;
  for (const std::string& pattern : error.patterns)
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", pattern);
  const bool only_points =
      std::all_of(error.patterns.begin(), error.patterns.end(), [](const std::string& text) {
        const auto pattern = image::Pattern::parse(text, image::PatternSyntax::glob);
        return pattern && pattern->names_points();
      });
  return {"nothing_matched",
          fmt::format("no {} {}; `pinprick list{}` shows what there is{}",
                      only_points         ? "SDT point matches"
                      : error.entry_sites ? "function with an entry site of the compiler matches"
                                          : "function matches",
                      names, only_points ? " 'usdt:*'" : "",
                      error.remedy == Remedy::await_loads
                          ? ", and --allow-missing waits for what is loaded later"
                      : error.remedy == Remedy::accept ? ", and --allow-missing accepts it"
                                                       : ""),
          kNothingMatched};
}

Message message(const session::AmbiguousPoint& error) {
  std::string names;
  for (const std::string& name : error.some)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  return {
      "bad_span",
      fmt::format("'{}': '{}' matches {} places, {}{}; name one of them", error.span, error.point,
                  error.matches, names, error.matches > error.some.size() ? " and others" : ""),
      kUsage};
}

}  // namespace

Message message(const session::SelectionError& error) {
  return std::visit([](const auto& cause) { return message(cause); }, error);
}

Message message(const session::MatchError& error) {
  return std::visit([](const auto& cause) { return message(cause); }, error);
}

}  // namespace pinprick::cli
