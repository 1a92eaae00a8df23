// Reads one measurement from a file or a pipe.
#pragma once

#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"
#include "compare/run.h"

namespace pinprick::compare {

enum class ReadCause : uint8_t {
  unreadable,    // `number` is an errno
  empty,         // there is not one record
  not_json,      // the first line is no JSON: the file is another program's
  broken_line,   // a later line is no JSON, and another one follows
  not_a_record,  // JSON that is not pinprick's
  other_version,
  wrong_field,
  line_too_long,
  failed,      // there are no figures, and `text` says why
  no_figures,  // `text` is the type of the records that there are
};

struct ReadError {
  ReadCause cause = ReadCause::unreadable;
  int number = 0;
  size_t line = 0;  // from 1 on
  std::string text;
};

// Takes what a file has, piece by piece.
class RunText {
 public:
  Result<void, ReadError> add(std::string_view text);
  // To be called once, at the end of the file. A last line that is no JSON, as its writer was
  // killed, is left out.
  Result<Run, ReadError> finish();

 private:
  Result<void, ReadError> add_line(std::string_view line);

  RunBuilder builder_;
  std::string rest_;  // of a line whose end has not come
  size_t lines_ = 0;
  bool has_broken_line_ = false;
};

Result<Run, ReadError> read_run(const std::string& path);

}  // namespace pinprick::compare
