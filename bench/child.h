// A program that we start, and with which we exchange lines. It is killed when we end, in any way.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "cli/messages/messages.h"
#include "interrupts.h"

namespace pinprick::bench {

class Child {
 public:
  // `command[0]` is searched for in PATH. With `cpu` it runs on that CPU only. It shares our
  // stderr.
  static Result<Child, cli::Message> start(const std::vector<std::string>& command,
                                           std::optional<int> cpu, const Interrupts& interrupts);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  // Kills it, unless it has ended.
  ~Child();

  pid_t pid() const { return pid_; }
  // When it called exec, on the clock of monotonic_ns(). What comes before is our own cost.
  uint64_t executed_ns() const { return executed_ns_; }

  Result<void, cli::Message> write_line(std::string line);
  // Returns a line without its newline; nullopt if the child has closed its output.
  Result<std::optional<std::string>, cli::Message> read_line();
  // Reads until a line contains `text`.
  Result<std::string, cli::Message> read_line_with(std::string_view text);

 private:
  Child(pid_t pid, const std::string& program, Fd input, Fd output, const Interrupts& interrupts)
      : pid_(pid),
        program_(program),
        input_(std::move(input)),
        output_(std::move(output)),
        interrupts_(&interrupts) {}
  cli::Message ended() const;

  pid_t pid_;  // 0 after a move
  std::string program_;
  Fd input_;
  Fd output_;
  std::string pending_;  // read, but not returned yet
  uint64_t executed_ns_ = 0;
  const Interrupts* interrupts_;
};

// Whether PATH has the program.
bool is_installed(const std::string& program);

// The CPUs on which we may run.
std::vector<int> allowed_cpus();

}  // namespace pinprick::bench
