#include "survive/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace pinprick::survive {
namespace {

constexpr int kTimeoutMs = 30'000;

}  // namespace

bool Ending::killed_by(int signal) const {
  return WIFSIGNALED(status) && WTERMSIG(status) == signal;
}

bool Ending::exited_with(int code) const {
  return WIFEXITED(status) && WEXITSTATUS(status) == code;
}

std::string Ending::text() const {
  if (WIFEXITED(status)) return "exit " + std::to_string(WEXITSTATUS(status));
  return "signal " + std::to_string(WTERMSIG(status));
}

Program::Program(const Command& command, bool traced) {
  int in[2], out[2], begun[2];
  for (int* ends : {in, out, begun})
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
  // Enough for all that it writes while the test does not read.
  constexpr int kPipeSize = 1 << 20;
  ::fcntl(out[0], F_SETPIPE_SZ, kPipeSize);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(in[0], 0);
    ::dup2(out[1], 1);
    ::dup2(out[1], 2);
    if (traced) {
      ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1);  // which does not work in a traced process
    }
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    ::execvp(words[0], words.data());
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  ::close(begun[1]);
  // Until its exec it is a copy of this process.
  char nothing;
  static_cast<void>(!::read(begun[0], &nothing, 1));
  ::close(begun[0]);
  in_ = Fd(in[1]);
  out_ = Fd(out[0]);
}

Program::~Program() {
  if (pid_ == 0) return;
  kill(SIGKILL);
  wait();
}

void Program::say(const std::string& line) {
  const std::string text = line + "\n";
  EXPECT_EQ(::write(in_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

bool Program::read_more(int timeout_ms) {
  pollfd readable = {out_.get(), POLLIN, 0};
  if (::poll(&readable, 1, timeout_ms) != 1) return false;
  char buffer[4096];
  const ssize_t n = ::read(out_.get(), buffer, sizeof buffer);
  if (n <= 0) return false;
  heard_.append(buffer, static_cast<size_t>(n));
  return true;
}

std::string Program::hear() {
  size_t end;
  while ((end = heard_.find('\n')) == heard_.npos)
    if (!read_more(kTimeoutMs)) return "";
  std::string line = heard_.substr(0, end);
  heard_.erase(0, end + 1);
  return line;
}

bool Program::hear_of(const std::string& text) {
  for (;;) {
    const std::string line = hear();
    if (line.empty()) return false;
    if (line.find(text) != line.npos) return true;
  }
}

void Program::kill(int signal) const {
  ::kill(pid_, signal);
}

Ending Program::wait() {
  Ending ending;
  while (::waitpid(pid_, &ending.status, __WALL) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  return ending;
}

std::string Program::rest() {
  while (read_more(kTimeoutMs)) {
  }
  return std::move(heard_);
}

Run run(const Command& command) {
  Program program(command);
  program.close_stdin();
  Run done;
  done.output = program.rest();
  done.ending = program.wait();
  return done;
}

Command pinprick(const Command& arguments) {
  Command command = {PINPRICK};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

std::string environment(const char* name) {
  const char* value = ::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace pinprick::survive
