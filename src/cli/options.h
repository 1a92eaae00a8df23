// The command line, parsed. One struct for all verbs; each verb takes what it offers.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "stats/histogram.h"

namespace pinprick::cli {

enum class Color : unsigned char { automatic, always, never };

struct Options {
  std::string verb;
  std::vector<pid_t> pids;
  pid_t owner = 0;                   // detach: only what this pinprick put there; 0: all
  std::vector<std::string> command;  // behind --
  std::vector<std::string> patterns;
  std::vector<std::string> excluded;
  std::string file;     // list: an ELF file instead of a process
  std::string summary;  // list: the same, for figures about all of it
  std::string output;
  std::string symbols;    // status: a file to write
  double duration_s = 0;  // 0: until Ctrl-C or the end of the target
  double interval_s = 0;  // 0: only at the end
  unsigned bits = stats::kDefaultFractionBits;
  uint64_t slots = 0;
  size_t top = 0;  // rows of a table; 0: all
  bool regex = false;
  bool json = false;
  bool allow_missing = false;
  bool trap = false;
  bool force = false;
  bool fail_on_loss = false;
  bool all = false;
  bool follow_exec = false;
  bool count_children = true;
  bool instructions = false;
  bool together = false;
  bool cache = true;
  Color color = Color::automatic;

  bool has_command() const { return !command.empty(); }
};

struct ParseOutcome {
  std::optional<Options> options;  // none: exit with `exit_code`; what to say was said
  int exit_code = 0;
};

ParseOutcome parse_command_line(int argc, char** argv);

}  // namespace pinprick::cli
