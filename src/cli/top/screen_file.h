// Writes what is on the screen to a file, as text.
#pragma once

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "cli/top/screen.h"

namespace pinprick::cli::top {

struct ScreenFileError {
  std::string path;
  SystemError error;
};

// Writes the lines to a new file pinprick-top-TIME.txt in the current folder, with TIME of the
// form YYYYMMDD-HHMMSS, and returns its path. If there is such a file, a number is added. Fails if
// the file cannot be created or written.
Result<std::string, ScreenFileError> write_screen(const std::vector<Line>& lines);

}  // namespace pinprick::cli::top
