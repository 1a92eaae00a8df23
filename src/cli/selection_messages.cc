// What is wrong with what the user selected.
#include <fmt/format.h>

#include <string>
#include <variant>

#include "cli/messages.h"

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
      return say(fmt::format("no value to record; as in '{} $arg3', or %rdx", point));
    case Cause::unknown_argument:
      return say(fmt::format("'{}' is no argument in a register: $arg1 to $arg6", error.text));
    case Cause::unknown_register:
      return say(
          fmt::format("'{}' is no register of 64 bits, such as %rdi or %r8; for less of it "
                      "there are types: %rdi:u32",
                      error.text));
    case Cause::unknown_type:
      return say(fmt::format("'{}' is none of the types u8, u16, u32 and u64", error.text));
    case Cause::signed_type:
      return say(fmt::format("histograms are of numbers from 0 on; u{} instead of {}",
                             error.text.substr(1), error.text));
  }
  return say("bad value");
}

Message message(const session::BadSpan& bad) {
  const auto say = [&](const std::string& why) {
    return Message{"bad_span", fmt::format("'{}': {}", bad.text, why), kUsage};
  };
  switch (bad.error) {
    case select::SpanError::no_start:
      return say("nothing in front of the dots; as in 'START..END'");
    case select::SpanError::no_end:
      return say("nothing behind the dots; as in 'START..END'");
    case select::SpanError::several:
      return say("a span has two points; for dots within a name write '?'");
  }
  return say("bad span");
}

Message message(const session::ArgumentAtOffset& bad) {
  return {"bad_value",
          fmt::format("'{} {}': an argument is where the ABI has it when the function "
                      "begins, not at an offset; name a register there: %rdi",
                      bad.point, bad.value),
          kUsage};
}

Message message(const session::NoSpan& bad) {
  return {"bad_span",
          fmt::format("'{}' is no span, but others are: measure calls and spans by "
                      "two commands, one after the other",
                      bad.text),
          kUsage};
}

Message message(const session::TooManySpans& bad) {
  return {"bad_span",
          fmt::format("{} spans at once are too many; {} are possible", bad.spans, bad.most),
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
  return {"nothing_matched",
          fmt::format("no function matches {}; `pinprick list` shows what there is{}", names,
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
  return {"bad_span",
          fmt::format("'{}': '{}' means {} places, {}{}; a point of a span is one", error.span,
                      error.point, error.places, names,
                      error.places > error.some.size() ? " and others" : ""),
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
