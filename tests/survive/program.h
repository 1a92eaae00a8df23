// Programs that the tests start, with lines to and from them.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/fd.h"

namespace pinprick::survive {

using Command = std::vector<std::string>;

// The end of a program, as of wait(2).
struct Ending {
  int status = 0;
  bool killed_by(int signal) const;
  bool exited_with(int code) const;
  std::string text() const;
};

// A child of the test, killed at the end if it still runs. Its stdin and stdout are ours; its
// stderr goes where its stdout goes.
class Program {
 public:
  explicit Program(const Command& command, bool traced = false);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  pid_t pid() const { return pid_; }
  void say(const std::string& line);
  // The next line it writes, without its end; empty: it ended, or stayed silent for 30 seconds.
  std::string hear();
  // A line that holds `text`, skipping others. False: there came none.
  bool hear_of(const std::string& text);
  void close_stdin() { in_.reset(); }
  void kill(int signal) const;
  Ending wait();
  // Somebody else reaped it.
  void forget() { pid_ = 0; }
  // All that it writes until its end, and nobody heard.
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

// pinprick with these arguments.
Command pinprick(const Command& arguments);
std::string environment(const char* name);

}  // namespace pinprick::survive
