// Programs that the tests start, and with which they exchange lines.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/fd.h"

namespace pinprick::survive {

using Command = std::vector<std::string>;

// How a program ended, as wait(2) reports it.
struct Ending {
  int status = 0;
  bool killed_by(int signal) const;
  bool exited_with(int code) const;
  std::string text() const;
};

// A child of the test, killed at the end if it still runs. Its stdin and stdout are connected to
// the test; its stderr goes where its stdout goes.
class Program {
 public:
  explicit Program(const Command& command, bool traced = false);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  pid_t pid() const { return pid_; }
  void say(const std::string& line);
  // Returns the next line that it writes; empty if it ended, or wrote none for 30 seconds.
  std::string hear();
  // Waits for a line that contains `text`, skipping others. Returns false if there is none.
  bool hear_of(const std::string& text);
  void close_stdin() { in_.reset(); }
  void kill(int signal) const;
  Ending wait();
  // To be called if it was waited for elsewhere.
  void forget() { pid_ = 0; }
  // Returns all that it writes until its end, and that was not read yet.
  std::string rest();

 private:
  bool read_more(int timeout_ms);

  pid_t pid_ = 0;
  Fd in_;
  Fd out_;
  std::string heard_;
};

struct Run {
  Ending ending;
  std::string output;
};

// Runs a program to its end.
Run run(const Command& command);

// Runs pinprick with these arguments.
Command pinprick(const Command& arguments);
std::string environment(const char* name);

}  // namespace pinprick::survive
