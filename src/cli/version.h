// What this program is: the version, the commit of its sources, and its build ID.
//
// Any thread may call this. Programs that were built from the same sources in the same way are the
// same bytes: nothing here is a date or a path.
#pragma once

#include <string>

namespace pinprick::cli {

// The first digits of the commit, with `-dirty` if the sources differ from it; `unknown` if they
// came without one. Each build writes it (commit.cmake).
extern const char* const kCommit;

// Returns what `pinprick --version` prints, without the last line's end.
std::string version_text();

}  // namespace pinprick::cli
