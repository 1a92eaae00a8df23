// Messages about errors in a selection.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <variant>

#include "action/at_return.h"
#include "arch/stub.h"
#include "cli/messages/messages.h"
#include "select/spec.h"

namespace pinprick::cli {
namespace {

Message message(const image::PatternError& error) {
  const bool later = error.cause == image::PatternCause::not_implemented;
  return {later ? "not_implemented" : "bad_pattern",
          fmt::format("bad pattern '{}': {}", error.pattern, image::explanation(error)), kUsage};
}

std::string why_bad(const select::ValueError& error, select::Arguments arguments) {
  using Cause = select::ValueError::Cause;
  switch (error.cause) {
    case Cause::unknown_argument:
      if (arguments == select::Arguments::of_point)
        return fmt::format("'{}' is not an argument of a point; these are $arg1 to $arg12",
                           error.text);
      if (arguments == select::Arguments::of_return)
        return fmt::format(
            "'{}' is not known at a return; write $retval, $latency, or an argument, such as $arg1",
            error.text);
      return fmt::format("'{}' is not an argument; these are $arg1, $arg2 and so on", error.text);
    case Cause::unknown_register:
      return fmt::format(
          "'{}' is not a 64-bit register such as %rdi or %r8; for a part of one, "
          "add a type: %rdi:u32",
          error.text);
    case Cause::unknown_type:
      return fmt::format("'{}' is not one of the types u8 to u64 and s8 to s64", error.text);
    case Cause::frames:
      return fmt::format("'{}' is no number of frames; write stack:1 to stack:{}", error.text,
                         select::kMostFrames);
  }
  return fmt::format("'{}' is no value", error.text);
}

Message message(const session::BadValue& bad) {
  const std::string why =
      bad.others.empty()
          ? fmt::format("it names no value to record; write '{} $arg3', or %rdx", bad.point)
          : fmt::format("a hit records one value; leave out {}", bad.others);
  return {"bad_value", fmt::format("'{}': {}", bad.point, why), kUsage};
}

// Returns a remedy for who knows bpftrace, if the name is a word of it; else an empty text.
std::string if_of_bpftrace(const std::string& name) {
  const bool is_argument = name.starts_with("arg") && name.size() == 4 && name[3] >= '0';
  if (is_argument && name[3] < '6')
    return fmt::format("; bpftrace's {} is $arg{} here", name, name[3] - '0' + 1);
  return name == "retval" ? "; $retval is the result, at a return" : "";
}

// A remedy for who knows other tools, if the name is a word of theirs.
std::string what_the_name_may_mean(const std::string& name, select::Arguments arguments) {
  if (name == "in" || name == "if")
    return fmt::format("'{}' is a word of conditions; for a parameter of that name, write $argN",
                       name);
  if (name == "not") return "write ! for `not`";
  if (name == "and") return "write && for `and`";
  if (name == "or") return "write || for `or`";
  return fmt::format("'{}' means nothing here; name arguments $arg1 to $arg{}, or a register", name,
                     arguments == select::Arguments::of_point ? 12 : 6);
}

std::string why_bad(const select::ExpressionError& error, select::Arguments arguments,
                    const std::string& at_return) {
  using Cause = select::ExpressionError::Cause;
  const std::string& part = error.text;
  switch (error.cause) {
    case Cause::nothing:
      return "nothing follows; did the shell take a $ or a <? Use single quotes";
    case Cause::no_value:
      if (part.empty())
        return "a value is missing at the end; did the shell take a $? Use single quotes";
      return fmt::format("a value is missing before '{}'", part);
    case Cause::no_operator:
      return fmt::format("'{}' cannot follow a value", part);
    case Cause::unclosed:
      return fmt::format("this '{}' is never closed", part);
    case Cause::bad_number:
      return fmt::format("'{}' is no number of 64 bits; units are k M G, Ki Mi Gi, and ns us ms s",
                         part);
    case Cause::bad_value:
      return why_bad(error.value, arguments);
    case Cause::name:
      return what_the_name_may_mean(part, arguments);
    case Cause::of_another_time:
      return fmt::format("{} is known at the return alone; write '{}'", part, at_return);
    case Cause::members:
      return fmt::format(
          "'{}' follows a name, whose type debug information knows; for 4 bytes at offset 8 of "
          "$arg1, write *(u32*)($arg1+8)",
          part);
    case Cause::pointee:
      return "say what is there: *(u32*)$arg1, or $arg1:string";
    case Cause::not_a_text:
      return fmt::format("only a text can be compared with {}; write x:string==\"...\"", part);
    case Cause::text:
      return "a text can be compared by == != =~, or be a key; it is no number";
    case Cause::text_of_pointee:
      return "the text at a pointer to follow needs parentheses: (*(char**)p):string";
    case Cause::text_in_set:
      return "texts are not compared with sets; write x:string==\"a\" || x:string==\"b\"";
    case Cause::unclosed_text:
      return fmt::format("{} is never closed", part);
    case Cause::text_length:
      return fmt::format("'{}' is no length; texts have up to {} bytes", part, select::kMostText);
    case Cause::no_length:
      return "say how many bytes there are: buf:bytes[count]";
    case Cause::length_compared:
      return "texts are compared as a whole; leave out the length";
    case Cause::pattern:
      return "=~ wants a pattern: path:string =~ \"/etc/*\"";
    case Cause::zero_divisor:
      return "nothing can be divided by 0";
    case Cause::single_equals:
      return "write == to compare";
    case Cause::empty_range:
      return "a range goes from the smaller number to the larger one";
    case Cause::stack:
      return "a stack is no number; it can be a key: --by stack";
    case Cause::parts:
      return fmt::format("a key has {} parts at most", select::kMostParts);
    case Cause::too_long:
      return fmt::format("it is too long; {} values and operators are possible",
                         select::kMostNodes);
  }
  return "for an unknown reason";
}

// How the user has written an expression after its point.
const char* before(session::BadExpression::Of of) {
  using Of = session::BadExpression::Of;
  switch (of) {
    case Of::value:
      return " ";
    case Of::condition:
      return " if ";
    case Of::key:
      return " --by ";
    case Of::sum:
      return " --sum ";
    case Of::field:
      return " ";
  }
  return " ";
}

// The expression, and under it a mark for the part that is wrong.
std::vector<std::string> shown_part(const std::string& text, size_t at, size_t length) {
  return {text, std::string(at, ' ') + "^" + std::string(std::max<size_t>(length, 1) - 1, '~')};
}

Message message(const session::BadExpression& bad) {
  using Of = session::BadExpression::Of;
  const bool is_condition = bad.of == Of::condition;
  const auto arguments = bad.point.starts_with("usdt:") ? select::Arguments::of_point
                         : bad.point.ends_with(select::kReturnMark)
                             ? select::Arguments::of_return
                             : select::Arguments::of_function;
  const std::string at_return = fmt::format(
      "{}%return{}{}", arguments == select::Arguments::of_point ? "FUNCTION" : bad.point,
      before(bad.of), bad.text);
  Message all = {is_condition ? "bad_condition" : "bad_value",
                 fmt::format("'{}{}{}': {}", bad.point, before(bad.of), bad.text,
                             why_bad(bad.error, arguments, at_return)),
                 kUsage};
  const bool is_whole = bad.error.text.empty() || bad.error.text == bad.text;
  if (!is_whole) all.place = shown_part(bad.text, bad.error.at, bad.error.text.size());
  return all;
}

Message message(const session::UnusedValue& bad) {
  if (bad.value.starts_with('"'))
    return {"bad_value", fmt::format("'{} {}': only `trace` shows words", bad.point, bad.value),
            kUsage};
  const bool is_condition = bad.value.find_first_of("=<>!") != std::string::npos;
  return {"bad_value",
          fmt::format("'{0} {1}': `hist` records a value, and `count --by` counts hits by one; for "
                      "some hits only, write '{0} if {1}{2}'",
                      bad.point, bad.value, is_condition ? "" : "==1"),
          kUsage};
}

Message message(const session::NamedPoint& bad) {
  return {"bad_value",
          fmt::format("'{0} = {1}': only events have names, with `trace`; write '{1}'", bad.name,
                      bad.point),
          kUsage};
}

Message message(const session::NoCondition& bad) {
  if (bad.of == session::NoCondition::Of::span)
    return {"bad_span", fmt::format("'{}': a span has no condition yet", bad.text), kUsage};
  return {"bad_condition",
          fmt::format("'{}': what is left out has no condition; write the opposite one after the "
                      "pattern that is probed",
                      bad.text),
          kUsage};
}

Message message(const session::NoKeyOfSpan& bad) {
  return {"bad_value",
          fmt::format("'{}': the times of a span have no key yet (--by '{}')", bad.span, bad.key),
          kUsage};
}

Message message(const session::ReturnOfSpan& bad) {
  return {"bad_span", fmt::format("'{}': a span neither starts nor ends at a return yet", bad.text),
          kUsage};
}

Message message(const session::NoReturn& bad) {
  using Why = session::NoReturn::Why;
  if (bad.why == Why::inlined)
    return {"bad_pattern",
            fmt::format("'{}': what was inlined does not return, so it takes no time of its own; "
                        "`count`, `hist` and `trace` can probe it",
                        bad.point),
            kUsage};
  const char* const why =
      bad.why == Why::sdt_point      ? "an SDT point does not return; name its function"
      : bad.why == Why::instructions ? "an instruction does not return; leave out --instructions"
                                     : "only a function returns; leave out the offset";
  return {"bad_pattern", fmt::format("'{}%return': {}", bad.point, why), kUsage};
}

Message message(const session::TooManyKept& bad) {
  return {"bad_condition",
          fmt::format("'{}': a call keeps {} values for its return, and this needs more", bad.point,
                      action::kMostKept),
          kUsage};
}

Message message(const session::TooManyFields& bad) {
  return {"bad_value",
          fmt::format("'{}': an event has {} values at most, and the time of a call is one of them",
                      bad.point, arch::kMostEventValues),
          kUsage};
}

Message message(const session::BadFormat& bad) {
  using Cause = select::FormatError::Cause;
  const auto say = [&](const char* why) {
    return Message{"bad_value", fmt::format("'{}': {}", bad.point, why), kUsage,
                   shown_part(bad.text, bad.error.at, 1)};
  };
  switch (bad.error.cause) {
    case Cause::no_end:
      return say("the words have no closing quote");
    case Cause::no_brace:
      return say("the value has no closing brace; a brace in words is written {{");
    case Cause::no_value:
      return say("there is no value between the braces; a brace in words is written {{");
    case Cause::stray:
      return say("the brace closes no value; a brace in words is written }}");
    case Cause::unknown:
      return say("words have the escapes \\n, \\t, \\\" and \\\\");
  }
  return say("");
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
          fmt::format("'{}{}{}': an argument is in its register at the function's entry only; "
                      "at an offset, name the register, as in %rdi",
                      bad.point, before(bad.of), bad.text),
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
  if (!error.inlined_nowhere.empty()) {
    const std::string& first = error.inlined_nowhere.front();
    return {"nothing_matched",
            fmt::format("'{}' is inlined nowhere, as debug information has it{}", first,
                        error.has_own_code ? "; it has code of its own: leave out %inline" : ""),
            kNothingMatched};
  }
  if (error.inlined_places != 0)
    return {
        "nothing_matched",
        fmt::format("no function matches '{0}', but it was inlined at {1} {2}, which "
                    "'{0}{3}' means",
                    error.inlined, error.inlined_places,
                    error.inlined_places == 1 ? "place" : "places", image::Pattern::kInlineMark),
        kNothingMatched};
  constexpr size_t kMostNames = 5;
  std::string names;
  for (size_t i = 0; i < std::min(error.patterns.size(), kMostNames); ++i)
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", error.patterns[i]);
  if (error.patterns.size() > kMostNames)
    names += fmt::format(", nor {} others", error.patterns.size() - kMostNames);
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

std::string list_of(std::vector<std::string> names) {
  constexpr size_t kMost = 12;
  if (names.size() > kMost) {
    names.resize(kMost);
    names.emplace_back("others");
  }
  std::string list;
  for (size_t i = 0; i < names.size(); ++i)
    list += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return list;
}

std::string why_unknown(const session::UnknownName& error) {
  if (error.name == "$errno")
    return "the program has no __errno_location that says where its errno is; functions that "
           "return "
           "an error number have it in $retval:errno";
  if (!error.why.empty()) return error.why;
  if (error.name.starts_with('&'))
    return fmt::format("the symbols of {} have no variable '{}', or several", error.object,
                       error.name.substr(1));
  const std::string of_object =
      fmt::format("a global variable of {} that has 1, 2, 4 or 8 bytes", error.object);
  if (!error.parameters.empty())
    return fmt::format("'{}' is neither a parameter of {}, which has {}, nor {}", error.name,
                       error.function, list_of(error.parameters), of_object);
  if (!error.variables.empty())
    return fmt::format(
        "'{}' is no variable at {}, where there are {}, and no global variable of {}", error.name,
        error.function, list_of(error.variables), error.object);
  const std::string why =
      error.is_point ? "a point has no names"
      : error.has_prototype
          ? fmt::format("{} has no parameters that have a name", error.function)
          : fmt::format("pinprick knows no parameters of {} by name", error.function);
  return fmt::format("'{}' is not {}, and {}; name arguments $arg1 to $arg{}, or a register",
                     error.name, of_object, why, error.is_point ? 12 : 6);
}

Message message(const session::UnknownName& error) {
  using Of = session::BadExpression::Of;
  if (error.reason == plan::Reason::argument_at_offset)
    return message(session::ArgumentAtOffset{error.of, error.point, error.text});
  if (error.reason == plan::Reason::too_many_kept)
    return message(session::TooManyKept{error.point});
  const std::string why =
      error.reason == plan::Reason::unknown_name || !error.why.empty()
          ? why_unknown(error)
          : fmt::format("'{}' of {}: {}", error.name, error.function, plan::sentence(error.reason));
  Message all = {error.of == Of::condition ? "bad_condition" : "bad_value",
                 fmt::format("'{}{}{}': {}{}", error.point, before(error.of), error.text, why,
                             if_of_bpftrace(error.name)),
                 kUsage};
  const size_t at = select::position_of_name(error.text, error.name);
  if (at != std::string::npos && error.text != error.name)
    all.place = shown_part(error.text, at, error.name.size());
  return all;
}

}  // namespace

Message message(const session::SelectionError& error) {
  return std::visit([](const auto& cause) { return message(cause); }, error);
}

Message message(const session::MatchError& error) {
  return std::visit([](const auto& cause) { return message(cause); }, error);
}

}  // namespace pinprick::cli
