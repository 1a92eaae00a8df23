// One line of what `--json` wrote (docs/json.md), as far as two measurements are compared by it.
//
// Pure. A file may have been cut short, changed, or written by another program: each field that is
// used is checked, and what is left out is what no comparison needs.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "layout/losses.h"
#include "stats/histogram.h"

namespace pinprick::compare {

enum class Kind : uint8_t { count, latency, hist };
const char* name(Kind kind);  // as in the field `type`

// Identifies a row. Rows of two files with the same name are compared, whatever their processes
// are.
struct RowName {
  Kind kind = Kind::count;
  std::string measure;   // of the verb `measure`
  std::string object;    // without its version; empty for a statistic
  std::string function;  // or a span, or the name of a statistic
  bool at_return = false;
  std::string condition;
  std::string value;                // of hist
  std::string by;                   // the key's expression; empty: there is none
  std::string key;                  // all of it but stacks
  std::vector<std::string> frames;  // of its stack, the innermost first, without distances
  std::string sum;                  // the expression whose values were added up

  friend auto operator<=>(const RowName&, const RowName&) = default;
};

// One `count`, `latency`, `hist` or `statistic` record.
struct Figures {
  RowName name;
  pid_t pid = 0;       // 0: a sum of processes
  double seconds = 0;  // 0: not known, of a statistic
  bool is_final = false;
  uint64_t calls = 0;  // or hits, or values
  stats::Histogram histogram;
  uint64_t negative = 0;  // of `calls`, values below 0
  double total = 0;       // of all times, or of all values that are not negative
  double sum = 0;         // of what was added up
  layout::Losses losses;
  bool is_partial = false;  // probes were out for a time
};

struct Record {
  std::string type;
  std::optional<Figures> figures;
  std::string command;           // of `armed`
  bool starts_command = false;   // of `armed`: pinprick has started the program
  bool has_ended = false;        // of `detached`: the program has ended by itself
  std::string object, function;  // of `skipped`
  std::string message;           // of `error`
};

enum class Fault : uint8_t {
  not_json,
  not_a_record,   // JSON, but without `type` and `version`
  other_version,  // of a pinprick that gives fields other meanings
  wrong_field,    // a field is missing, or has no possible value
};

Result<Record, Fault> parse_record(std::string_view line);

}  // namespace pinprick::compare
