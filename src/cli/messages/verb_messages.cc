#include "cli/messages/verb_messages.h"

#include <fmt/format.h>
#include <signal.h>

#include <cerrno>
#include <cstring>

#include "cli/verbs/session_statistics.h"

namespace pinprick::cli {

Message cannot_write(const std::string& path, int system_error) {
  return {"output",
          fmt::format("cannot write {}: {}; give another file", path, std::strerror(system_error)),
          kFailed};
}

Message cannot_read(const std::string& path, int system_error) {
  return {"input",
          fmt::format("cannot read {}: {}; give another file", path, std::strerror(system_error)),
          kUsage};
}

Message message(const std::string& path, const recording::ReadError& error) {
  using Cause = recording::ReadError::Cause;
  const auto say = [&](const std::string& what) {
    return Message{"input", fmt::format("{} {}", path, what)};
  };
  switch (error.cause) {
    case Cause::system:
      return {"input", fmt::format("cannot read {}: {}", path, std::strerror(error.system_error))};
    case Cause::not_recording:
      return say("is no recording: give a file that `pinprick record` has written");
    case Cause::other_version:
      return say("was recorded by another version of pinprick: read it with that one");
    case Cause::damaged:
      break;
  }
  return say("is damaged: what comes before that place was read");
}

Message until_is_excluded(const std::string& point) {
  return {"usage",
          fmt::format("--exclude leaves out '{}', which is to end the trace: exclude less", point),
          kUsage};
}

Message recording_without_tree(const std::string& path) {
  return {"usage",
          fmt::format("{} is no recording of a tree: leave --depth, --in and --not-in out, or "
                      "record with --tree",
                      path),
          kUsage};
}

Message recording_of_spans(const std::string& path) {
  return {
      "usage",
      fmt::format("{} has spans (START..END), which the kernel's format has no lines for: leave "
                  "--format=ftrace out",
                  path),
      kUsage};
}

Message unfit_for_recording(const std::string& why) {
  return {"usage", why, kUsage};
}

Message recording_without_paths(const std::string& path) {
  return {"usage",
          fmt::format("{} has no call with a time or a stack: record with --tree, with --stack, or "
                      "'PATTERN%return'",
                      path),
          kUsage};
}

Message no_such_call(const std::string& pattern, const std::string& path) {
  return {"nothing_matched",
          fmt::format("'{}' is no function that was called: `pinprick report --functions {}` shows "
                      "which were",
                      pattern, path),
          kNothingMatched};
}

Message message(const std::string& path, const compare::ReadError& error) {
  using Cause = compare::ReadCause;
  const std::string json = "give a file that pinprick wrote with --json";
  const auto in_line = [&](const char* what) {
    return Message{"input", fmt::format("{}, line {}: {}", path, error.line, what), kUsage};
  };
  switch (error.cause) {
    case Cause::unreadable:
      return cannot_read(path, error.number);
    case Cause::empty:
      return {"input", fmt::format("{} is empty; {}", path, json), kUsage};
    case Cause::not_json:
      return {"input", fmt::format("{} is no file of records; {}", path, json), kUsage};
    case Cause::broken_line:
      return in_line(
          "this is no record, and others follow; with -o FILE, nothing else is written "
          "between them");
    case Cause::not_a_record:
      return in_line(
          "this is JSON of another program; give a file that pinprick wrote with --json");
    case Cause::other_version:
      return in_line("this record is of another version of pinprick; use that one");
    case Cause::wrong_field:
      return in_line(
          "a field of this record is missing, or has a value that it cannot have; was "
          "the file changed?");
    case Cause::line_too_long:
      return in_line(
          "this line is too long for a record; give a file that pinprick wrote with "
          "--json");
    case Cause::failed:
      return {"no_figures",
              fmt::format("{} has no figures, as measuring failed: {}", path, error.text), kUsage};
    case Cause::no_figures:
      return {"no_figures",
              fmt::format("{} has no figures, but '{}' records; give one of count, latency, hist, "
                          "measure, top or kstats show",
                          path, error.text),
              kUsage};
  }
  return {"input", fmt::format("{} cannot be compared, for an unknown reason", path), kUsage};
}

Message nothing_to_compare(const compare::Run& before, const compare::Run& after) {
  const auto kind = [](const compare::Run& run) {
    return run.rows.empty() ? "?" : compare::name(run.rows.begin()->first.kind);
  };
  return {"nothing_to_compare",
          fmt::format("{} has figures of {}, and {} of {}: measure the same before and after",
                      before.path, kind(before), after.path, kind(after)),
          kNothingMatched};
}

Message no_stacks(const std::string& path) {
  return {"no_stacks",
          fmt::format("{} has no stacks for a flame graph: measure with --by stack", path), kUsage};
}

Message nothing_to_keep(pid_t pid) {
  return {"nothing_matched",
          fmt::format("process {} has no probes whose pinprick is gone; `pinprick status` shows "
                      "which it has",
                      pid),
          kNothingMatched};
}

Message pointer_with_budget() {
  return {"bad_value", "--budget does not know what it costs to follow a pointer", kUsage};
}

Message condition_with_budget() {
  return {
      "bad_condition",
      "--budget knows what hits cost by counting them, and a hit that a condition rejects is not "
      "counted; give the budget or the condition",
      kUsage};
}

Message bad_limit(std::string_view text) {
  return {"bad_limit", fmt::format("'{}': --slower TIME and --faster TIME come last", text),
          kUsage};
}

Message bad_time_of_limit(std::string_view option, std::string_view text) {
  return {"bad_limit", fmt::format("{}: '{}' is no time, such as 1s or 20ms", option, text),
          kUsage};
}

Message condition_of_tree(std::string_view text) {
  return {"bad_condition",
          fmt::format("'{}': --tree shows a call before it has returned, so a condition knows its "
                      "arguments, and no register or result; --slower shows slow calls alone",
                      text),
          kUsage};
}

Message bad_allocator_function(const char* option, std::string_view text) {
  const bool frees = std::string_view(option) == "--free";
  return {"bad_allocator_function",
          fmt::format("'{}': {} takes a FUNCTION, {}, such as '{}'", text, option,
                      frees ? "and the pointer that it is given if that is not $arg1"
                            : "and the size that it is asked for",
                      frees ? "libpool:pool_put $arg2" : "libpool:pool_get $arg2"),
          kUsage};
}

Message bad_lock_function(const char* option, std::string_view text) {
  return {"bad_lock_function",
          fmt::format("'{}': {} takes a FUNCTION, and the lock that it is given if that is not "
                      "$arg1, such as 'libpool:pool_enter $arg2'",
                      text, option),
          kUsage};
}

Message limit_of_span(std::string_view text) {
  return {
      "bad_limit",
      fmt::format("'{}': --slower and --faster are for calls; a span has no condition yet", text),
      kUsage};
}

Message limit_of_what_is_not_timed(std::string_view text) {
  return {"bad_limit",
          fmt::format("'{}': --slower and --faster go with `latency`; elsewhere, write "
                      "'FUNCTION%return if $latency>=1ms'",
                      text),
          kUsage};
}

Message limit_with_register(std::string_view point, std::string_view condition) {
  return {"bad_limit",
          fmt::format("'{0} if {1}': --slower and --faster look at the return, where registers are "
                      "others; name arguments ($arg1), or write '{0}%return if ...'",
                      point, condition),
          kUsage};
}

Message nothing_is_timed(pid_t pid) {
  return {
      "nothing_matched",
      pid == 0
          ? std::string("no process has calls or spans that are timed; `pinprick latency` times "
                        "them from now on")
          : fmt::format("nothing times calls in process {}; `pinprick latency -p {}` times them "
                        "from now on",
                        pid, pid),
      kNothingMatched};
}

Message nothing_for_debuggers(pid_t pid) {
  return {"nothing_matched",
          fmt::format("process {} has no probes of pinprick, so debuggers need no file", pid),
          kNothingMatched};
}

Message still_measuring(pid_t owner, pid_t pid) {
  return {"live",
          fmt::format("pinprick {} is still measuring process {}; end it with Ctrl-C, or with kill "
                      "-INT {}",
                      owner, pid, owner),
          kAttachRefused};
}

Message bad_command_line(const std::string& text) {
  return {"usage", text, kUsage};
}

Message nothing_to_detach(pid_t pid, pid_t owner) {
  return {"nothing_matched",
          fmt::format("process {} has no probes of pinprick{}; `pinprick status` shows what there "
                      "is",
                      pid, owner == 0 ? "" : fmt::format(" {}", owner)),
          kNothingMatched};
}

Message nothing_to_collect(pid_t pid, pid_t owner) {
  if (owner != 0)
    return {
        "live",
        fmt::format("pinprick {} still records process {}; it prints what it has at `kill -USR1 "
                    "{}`",
                    owner, pid, owner),
        kAttachRefused};
  return {
      "nothing_matched",
      fmt::format("no recorder of process {} has left its newest events; `pinprick status` shows "
                  "what there is",
                  pid),
      kNothingMatched};
}

Message no_statistics() {
  return {"nothing_matched",
          "there are no statistics to show; give a PATTERN for the functions to time, or make "
          "statistics with `pinprick kstats`",
          kNothingMatched};
}

Message bad_address(std::string_view text) {
  return {"bad_address",
          fmt::format("'{}' is no address: give IP:PORT, such as 127.0.0.1:9467 or [::1]:9467, or "
                      "unix:PATH",
                      text),
          kUsage};
}

namespace {

// Another one of the same kind, as an example.
std::string other_address(http::Address address) {
  constexpr uint16_t kLastPort = 65535;
  if (address.kind == http::Address::Kind::path)
    address.name += ".2";
  else if (address.port < kLastPort)
    ++address.port;
  else
    --address.port;
  return http::to_text(address);
}

}  // namespace

Message message(const http::ListenError& error) {
  using Cause = http::ListenError::Cause;
  const auto refuse = [&](const char* cause, const std::string& text) {
    return Message{
        cause, fmt::format("cannot listen at {}: {}", http::to_text(error.address), text), kFailed};
  };
  switch (error.cause) {
    case Cause::in_use:
      return refuse("in_use", fmt::format("another program listens there; end it, or give another "
                                          "address, such as {}",
                                          other_address(error.address)));
    case Cause::not_permitted:
      return refuse("not_permitted", "you may not; give a port from 1024 on, or a folder of yours");
    case Cause::no_address:
      return refuse("no_address", "this machine does not have the address; give one of its own");
    case Cause::not_socket:
      return refuse("not_socket", "the file is there and is no socket; give another path");
    case Cause::system:
      return refuse("listen",
                    fmt::format("{}; give another address", std::strerror(error.system_error)));
  }
  return refuse("unknown", "unknown cause");
}

Message refused_command(const control::ControlError& error) {
  const std::string name = control::error_name(error.number);
  return {name, name + ": " + error.reason, exit_code(error)};
}

Message refused_command(const session::StatisticError& error) {
  Message refused = refused_command(control_error(error));
  refused.exit = exit_code(error);
  return refused;
}

control::ControlError no_process(pid_t pid) {
  return {ESRCH, fmt::format("there is no process {}", pid)};
}

control::ControlError may_not_look(pid_t pid) {
  return {EPERM,
          fmt::format("you may not look at process {}; run pinprick as root or as its user", pid)};
}

Message cannot_use_file(const std::string& path, int system_error) {
  return {"file", fmt::format("cannot use {}: {}", path, std::strerror(system_error)), kFailed};
}

Message nothing_mapped(const std::string& path, const std::map<std::string, uint64_t>& left_alone,
                       const std::string& why_not_followed) {
  std::string text = fmt::format("no process that can be measured has {} mapped", path);
  for (const auto& [why, count] : left_alone)
    text += fmt::format("; left alone: {} ({})", count, why);
  return {"not_mapped", fmt::format("{}; new ones are not followed: {}", text, why_not_followed),
          kNothingMatched};
}

Message interrupted_while_arming() {
  return {"interrupted", "interrupted; the probes that were in have been taken out again",
          kInterrupted};
}

std::string cannot_hold_executions(int system_error) {
  return system_error == EPERM
             ? std::string("that needs root (CAP_SYS_ADMIN, for fanotify)")
             : fmt::format("the kernel has no fanotify for it: {}", std::strerror(system_error));
}

std::string has_no_loader(const std::string& path) {
  return fmt::format(
      "{} has no loader, and without one a program can be followed from Linux 6.8 on", path);
}

std::string executions_not_held(const std::string& path, int system_error) {
  return fmt::format("the kernel does not hold executions of {}: {}", path,
                     std::strerror(system_error));
}

std::string if_it_only_executes(bool allows_missing) {
  return fmt::format("; if the command only executes the program, add {}--follow-exec",
                     allows_missing ? "" : "--allow-missing ");
}

std::string cannot_suspend() {
  return "a thread of the program has to be looked after: try Ctrl-Z again";
}

std::string cannot_suspend_with_budget() {
  return "a budget is held, so pinprick cannot be suspended; q ends it";
}

std::string screen_written(const std::string& path) {
  return "written to " + path;
}

std::string screen_not_written(const std::string& path, int system_error) {
  return fmt::format("cannot write {}: {}; start pinprick in a folder of your own", path,
                     std::strerror(system_error));
}

std::optional<control::ControlError> why_no_statistics(pid_t pid) {
  if (!target::read_status(pid))
    return ::kill(pid, 0) != 0 && errno == EPERM ? may_not_look(pid) : no_process(pid);
  const auto memory = target::Memory::open(pid);
  if (memory || (memory.error().number != EACCES && memory.error().number != EPERM))
    return std::nullopt;
  return may_not_look(pid);
}

}  // namespace pinprick::cli
