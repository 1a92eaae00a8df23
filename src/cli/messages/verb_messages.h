// What single verbs say when something is in the way, beside the causes of messages.h. Pure.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "cli/messages/messages.h"
#include "compare/read_run.h"
#include "http/listener.h"
#include "recording/reader.h"
#include "session/statistics.h"

namespace pinprick::cli {

// A file of -o or --symbols.
Message cannot_write(const std::string& path, int system_error);
// A file with patterns.
Message cannot_read(const std::string& path, int system_error);
Message message(const std::string& path, const recording::ReadError& error);
// trace: --exclude leaves out the point of --until.
Message until_is_excluded(const std::string& point);
Message recording_without_tree(const std::string& path);
// report: --format=ftrace.
Message recording_of_spans(const std::string& path);
// report: options that do not go with the recording.
Message unfit_for_recording(const std::string& why);
// report: no event has a call's time or a stack.
Message recording_without_paths(const std::string& path);
// report --graph: no function was called that the pattern names.
Message no_such_call(const std::string& pattern, const std::string& path);
// diff: a file that cannot be compared.
Message message(const std::string& path, const compare::ReadError& error);
Message nothing_to_compare(const compare::Run& before, const compare::Run& after);
Message no_stacks(const std::string& path);
Message nothing_to_keep(pid_t pid);
// calls: `pid` is 0 if it is so in all processes.
Message nothing_is_timed(pid_t pid);
// status --symbols: no session of the process has code that a debugger would have to know.
Message nothing_for_debuggers(pid_t pid);
// --budget, with a condition on hits.
Message condition_with_budget();
Message pointer_with_budget();
// Of --slower and --faster.
Message bad_limit(std::string_view text);
Message bad_time_of_limit(std::string_view option, std::string_view text);
Message condition_of_tree(std::string_view text);
// leaks: `option` is --alloc or --free.
Message bad_allocator_function(const char* option, std::string_view text);
// locks: `option` is --lock or --unlock.
Message bad_lock_function(const char* option, std::string_view text);
Message limit_of_span(std::string_view text);
Message limit_of_what_is_not_timed(std::string_view text);
Message limit_with_register(std::string_view point, std::string_view condition);
// detach: `owner` has not ended.
Message still_measuring(pid_t owner, pid_t pid);
// `text` says what is wrong with the command line.
Message bad_command_line(const std::string& text);
// detach: `owner` is 0 if any owner's probes were meant.
Message nothing_to_detach(pid_t pid, pid_t owner);
// --collect: no recorder of the process was killed; `owner` is one that still records, or 0.
Message nothing_to_collect(pid_t pid, pid_t owner);
// top without a pattern.
Message no_statistics();

// serve: the text is no address.
Message bad_address(std::string_view text);
Message message(const http::ListenError& error);

// A statistic's command; the name of the error comes first.
Message refused_command(const control::ControlError& error);
Message refused_command(const session::StatisticError& error);
control::ControlError no_process(pid_t pid);
// Returns why a process without statistics cannot have any, if so: there is no such process, or it
// is another user's.
std::optional<control::ControlError> why_no_statistics(pid_t pid);
control::ControlError may_not_look(pid_t pid);

// --all FILE.
Message cannot_use_file(const std::string& path, int system_error);
// `left_alone` has the numbers of processes by the cause.
Message nothing_mapped(const std::string& path, const std::map<std::string, uint64_t>& left_alone,
                       const std::string& why_not_followed);
Message interrupted_while_arming();
// Why later executions of a file are not measured.
std::string cannot_hold_executions(int system_error);
std::string has_no_loader(const std::string& path);
std::string executions_not_held(const std::string& path, int system_error);

// count, hist, latency with -- COMMAND: what to add if the patterns match nothing in it.
std::string if_it_only_executes(bool allows_missing);

// top: what its last line says.
std::string cannot_suspend();
std::string cannot_suspend_with_budget();
std::string screen_written(const std::string& path);
std::string screen_not_written(const std::string& path, int system_error);

// The last words of a pinprick for which there is too little memory.
inline constexpr const char* kOutOfMemory =
    "out of memory; probe less at a time, or raise the limit (ulimit -v)";
inline constexpr const char* kOutOfThreads =
    "out of memory or threads; probe less at a time, or raise the limits (ulimit -v, -u)";

}  // namespace pinprick::cli
