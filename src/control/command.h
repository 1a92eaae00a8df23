// The control language of kstats: commands that create, change and show statistics.
//
//     trace S [bits B] [start X] [end Y] [gap cpu|thread|none] [if CONDITION]
//     remove S
//     start S | stop S | reset S
//     list
//     show [S]
//
// Words are separated by blanks, tabs and carriage returns. Keywords may be in any case. A word
// with blanks in it, as a C++ signature has, is quoted as in shells: 'f(char*, int)'; there is no
// backslash. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "stats/histogram.h"

namespace pinprick::control {

inline constexpr size_t kMaxWords = 10;  // before a condition
inline constexpr size_t kMaxNameLength = 63;
// The file that commands are written to. No statistic has this name.
inline constexpr std::string_view kControlFile = "_control";
// GAP-S is the statistic of the times between the calls of S. It comes and goes with S.
inline constexpr std::string_view kGapPrefix = "GAP-";

struct ControlError {
  int number = 0;      // errno: EINVAL, EEXIST, ENOENT, EBUSY, EPERM, ESRCH ...
  std::string reason;  // one line
};

// Returns the name of the number, as EINVAL, or "errno N" if it has none.
std::string error_name(int number);

enum class Verb : uint8_t { trace, remove, start, stop, reset, list, show };

// Where GAP-S takes the time from the end of one call to the start of the next: on the same CPU, by
// the same thread, or nowhere.
enum class Gap : uint8_t { cpu, thread, none };

struct Command {
  Verb verb = Verb::list;
  std::string name;  // of the statistic; empty for list, and for show of all

  // For trace only. Start and end are as the user wrote them: functions, or other points.
  unsigned bits = stats::kDefaultFractionBits;
  std::string start;               // the name, if no start was given; and a condition
  std::optional<std::string> end;  // none: the return of `start`
  Gap gap = Gap::cpu;

  friend bool operator==(const Command&, const Command&) = default;
};

// Returns the words of a line. Fails with EINVAL if a quote is not closed.
Result<std::vector<std::string>, ControlError> split_words(std::string_view line);

// Returns the command. Fails with EINVAL if the words are none, or the name is not allowed.
Result<Command, ControlError> parse_command(std::span<const std::string> words);
Result<Command, ControlError> parse_command(std::string_view line);

// Returns the command that a line written to the file of a statistic means: START, STOP or RESET of
// that statistic. Fails with EINVAL for other lines.
Result<Command, ControlError> parse_state(std::string_view line, std::string_view name);

// Returns a line that parses to the same command. What has its default is left out.
std::string to_text(const Command& command);

}  // namespace pinprick::control
