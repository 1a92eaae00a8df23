// A runtime directory of the test's own, on a tmpfs, so that its sessions are the only ones there.
#pragma once

#include <string>
#include <vector>

namespace pinprick::survive {

// Made with the first call; gone at the end of the test program.
const std::string& runtime_folder();

// The names of the session files in it, whatever else lies there included.
std::vector<std::string> session_files();

// All of these sessions, and nobody else's on this machine.
void detach_everything();

}  // namespace pinprick::survive
