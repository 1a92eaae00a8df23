// Files that get their name when they are complete, so that a file with a name can be read, however
// the program that made it ended.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace pinprick::ledger {

struct NewFile {
  Fd descriptor;
  bool has_name = false;
};

// Makes an empty file with mode 0600 in the folder of `path`, open for reading and writing. On a
// file system without unnamed files (an old overlay, say) it has its name at once; EEXIST if the
// name is taken.
Result<NewFile, SystemError> make_new_file(const std::string& path);

// Gives an unnamed file its name. Fails with EEXIST if the name is taken.
Result<void, SystemError> name_file(int descriptor, const std::string& path);

}  // namespace pinprick::ledger
