// The folder that `-o FOLDER.ctf` names.
#pragma once

#include <string>

namespace pinprick::cli {

// Makes the folder and its empty files, unless they are there. Returns 0, or the errno with which
// that failed: ENOTEMPTY if the folder has other files, so that no reader takes these for a part of
// the trace.
int make_trace_folder(const std::string& path);

}  // namespace pinprick::cli
