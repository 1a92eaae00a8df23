// The options that several verbs have, as CLI11 declares them. They set the fields of Options.
//
// To be called while the command line is parsed, on one thread.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"

namespace pinprick::cli {

extern const CLI::Validator kPositive;  // a number of seconds, or of things
extern const CLI::Validator kProcess;   // a PID

// The message for an expression that is empty.
inline constexpr const char* kNothingFollows =
    "nothing follows; the shell may have taken a $, so use single quotes";

void describe_verb(CLI::App& app, std::vector<std::string> usages, const std::string& footer);
// Takes one value for each occurrence (`-p 1 -p 2`), so that patterns may follow.
void one_at_a_time(CLI::Option* option);

// Return nullopt if the text is none: `5%` is 0.05, and `4K` is 4096.
std::optional<double> parse_percentage(std::string_view text);
std::optional<uint64_t> parse_size(std::string_view text);

// --json and --color.
void add_common(CLI::App& app, Options& options);
void add_pids(CLI::App& app, Options& options, const char* help);
void add_patterns(CLI::App& app, Options& options);
void add_cache(CLI::App& app, Options& options);
void add_instructions(CLI::App& app, Options& options);
void add_duration(CLI::App& app, Options& options);
void add_follow_exec(CLI::App& app, Options& options);
// Does a verb report figures, or each hit as it happens?
enum class Reports : bool { figures, events };
// The options of all verbs that place probes for as long as they run.
void add_watching(CLI::App& app, Options& options, Reports reports = Reports::figures);
void add_command(CLI::App& app, Options& options);
// --all FILE, and the filters of its processes; add_files() has --by, too.
void add_file(CLI::App& app, Options& options);
void add_filters(CLI::App& app, Options& options);
void add_files(CLI::App& app, Options& options);
void add_bits(CLI::App& app, Options& options);
// An option whose value is the size of each CPU's ring.
CLI::Option* add_ring_size(CLI::App& app, Options& options, const std::string& name,
                           const char* help);
void add_buffer(CLI::App& app, Options& options, const char* help);
void add_stack(CLI::App& app, Options& options, const char* help);
void add_ends(CLI::App& app, Options& options);
void add_self_time(CLI::App& app, Options& options);
// --slots and --force.
void add_timing(CLI::App& app, Options& options);
// An option whose value is a time; `take` is called with its nanoseconds.
void add_time(CLI::App& app, const char* name, const char* help,
              const std::function<void(uint64_t)>& take);
// --slower and --faster.
void add_limits(CLI::App& app, Options& options);

}  // namespace pinprick::cli
