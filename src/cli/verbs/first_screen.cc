// pinprick without arguments: what it is, and commands for a process that this user may probe.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "cli/messages/verb_messages.h"
#include "cli/output.h"
#include "cli/render/text_width.h"
#include "cli/verbs/attaching_checks.h"
#include "cli/verbs/probeable.h"
#include "cli/verbs/verbs.h"
#include "image/maps.h"
#include "image/pattern.h"
#include "pinprick/version.h"
#include "target/procfs.h"

namespace pinprick::cli {
namespace {

constexpr size_t kColumns = 80;
constexpr size_t kShown = 8;

// The busiest first. A shell from which pinprick was started is the last that one wants to probe.
void sort(std::vector<ProbeableProcess>& processes) {
  std::ranges::sort(processes, [](const ProbeableProcess& a, const ProbeableProcess& b) {
    return std::tuple(a.is_ancestor, ~a.cpu_ms, a.pid) <
           std::tuple(b.is_ancestor, ~b.cpu_ms, b.pid);
  });
}

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

bool maps_libc(pid_t pid) {
  const auto maps = image::read_maps(pid);
  return maps && std::ranges::any_of(*maps, [](const image::Mapping& mapping) {
           return mapping.executable && image::is_library(file_name(mapping.path), "libc");
         });
}

// A pattern that matches something in the process: allocators, or else all of the program.
std::string pattern_for(pid_t pid) {
  constexpr const char* kAllocators = "'libc:*alloc'";
  if (maps_libc(pid)) return kAllocators;
  const std::string name = file_name(target::executable_path(pid).value_or(""));
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  const bool is_plain = !name.empty() && name.find_first_not_of(kPlain) == name.npos;
  return is_plain ? fmt::format("'{}:*'", name) : "'*'";
}

std::string cpu_time(uint64_t ms) {
  const uint64_t seconds = ms / 1000;
  return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

struct Example {
  std::string command;
  const char* what;
};

void print_examples(Output& out, const std::vector<Example>& examples) {
  size_t width = 0;
  for (const Example& one : examples) width = std::max(width, one.command.size());
  for (const auto& [command, what] : examples) {
    const std::string line = fmt::format("  {:<{}}  {}", command, width, what);
    out.print("{}\n", line.size() <= kColumns ? line : "  " + command);
  }
}

void print_processes(Output& out, const VisibleProcesses& visible) {
  const auto& processes = visible.probeable;
  out.print("Processes that you may probe, the busiest first:\n\n");
  out.print("{}\n", out.bold("      PID   CPU TIME  NAME"));
  for (size_t i = 0; i < std::min(kShown, processes.size()); ++i)
    out.print("  {:>7}  {:>9}  {}\n", processes[i].pid, cpu_time(processes[i].cpu_ms),
              shortened(printable(processes[i].command, true), kColumns - 22, true));
  if (processes.size() > kShown) out.print("           and {} more\n", processes.size() - kShown);

  const ProbeableProcess& first = processes.front();
  const std::string pattern = pattern_for(first.pid);
  const auto of_first = [&](const char* verb, const char* option = "") {
    return fmt::format("pinprick {} -p {} {}{}", verb, first.pid, option, pattern);
  };
  out.print("\nWith {}, for example:\n\n", shortened(printable(first.command, true), 40, true));
  print_examples(out, {{of_first("list"), "functions, and how each is probed"},
                       {of_first("count", "-d 10 "), "calls in 10 seconds"},
                       {of_first("latency"), "their times, until Ctrl-C"},
                       {of_first("top"), "the same, live on the screen"},
                       {"pinprick count 'libc:*alloc' -- ls -l", "a program from its start"}});
}

// Breaks the text between words, where a line would be too wide.
void print_wrapped(Output& out, std::string_view indent, std::string_view text) {
  const size_t room = kColumns - indent.size();
  while (!text.empty()) {
    size_t length = text.size();
    if (length > room) {
      const size_t blank = text.rfind(' ', room);
      length = blank == text.npos || blank == 0 ? room : blank;
    }
    out.print("{}{}\n", indent, text.substr(0, length));
    text.remove_prefix(
        std::min(text.size(), length + (length < text.size() && text[length] == ' ')));
  }
}

void print_why_none(Output& out, const VisibleProcesses& visible) {
  out.print("There is no process here that you may probe:\n\n");
  for (const CheckRow& row : {check_processes(visible), check_attaching(), check_ptrace_scope()}) {
    if (row.health == Health::ok) continue;
    print_wrapped(out, "  ", row.name + ": " + row.finding);
    print_wrapped(out, "    ", row.remedy);
  }
  out.print("\nA program that pinprick starts can be probed from its start:\n\n");
  print_examples(out, {{"pinprick count 'libc:*alloc' -- ls -l", "calls of each function"},
                       {"pinprick latency 'libc:*alloc' -- ls -l", "how long they take"}});
}

}  // namespace

int run_first_screen(const Options& options, Renderer& renderer) {
  Output out = Output::standard_output(options.color);
  VisibleProcesses visible = visible_processes();
  sort(visible.probeable);
  out.print("pinprick {}: how often and how long functions of running programs are called\n\n",
            kVersion);
  if (visible.probeable.empty())
    print_why_none(out, visible);
  else
    print_processes(out, visible);
  out.print("\n`pinprick doctor` says what works here; `pinprick --help` lists all verbs.\n");
  out.flush();
  if (out.error() == 0) return kOk;
  return out.error() == EPIPE ? kFailed
                              : give_up(renderer, cannot_write("the processes", out.error()));
}

}  // namespace pinprick::cli
