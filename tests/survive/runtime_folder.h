// A runtime directory for the test, on a tmpfs, so that its sessions are the only ones there.
#pragma once

#include <string>
#include <vector>

namespace pinprick::survive {

// Made at the first call, and removed at the end of the test program.
const std::string& runtime_folder();

// The names of all files in it, of whatever kind.
std::vector<std::string> session_files();

// Detaches all of these sessions, and no others on this machine.
void detach_everything();

}  // namespace pinprick::survive
