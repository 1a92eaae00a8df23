// Files that get their name when they are complete, so that a file with a name can be read, however
// the program that made it ended. Allocates nothing, and may be called by signal handlers.
#pragma once

#include "base/fd.h"
#include "base/result.h"

namespace pinprick::ledger {

struct NewFile {
  Fd descriptor;
  bool has_name = false;
};

// Makes an empty file with mode 0600 in `folder`, open for reading and writing. On a file system
// without unnamed files (an old overlay, say) it has the name `path` at once; fails with EEXIST if
// that is taken.
Result<NewFile, SystemError> make_new_file(const char* folder, const char* path);

// Gives an unnamed file its name. Fails with EEXIST if the name is taken.
Result<void, SystemError> name_file(int descriptor, const char* path);

}  // namespace pinprick::ledger
