#include "session/thread_commands.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/fd.h"
#include "target/procfs.h"

namespace pinprick::session {
namespace {

// Have both the same numbers for threads?
bool has_our_numbers(pid_t pid) {
  struct stat ours = {}, theirs = {};
  return ::stat("/proc/self/ns/pid", &ours) == 0 &&
         ::stat(fmt::format("/proc/{}/ns/pid", pid).c_str(), &theirs) == 0 &&
         ours.st_ino == theirs.st_ino;
}

std::optional<std::string> read_command(const std::string& path) {
  auto text = read_file(path);
  if (!text || text->empty()) return std::nullopt;
  if (text->ends_with('\n')) text->pop_back();
  return *std::move(text);
}

// Returns nullopt if the thread has ended. One of a child that was forked from the process is not
// among its threads.
std::optional<std::string> command_of_thread(pid_t pid, pid_t tid) {
  if (has_our_numbers(pid)) {
    auto command = read_command(fmt::format("/proc/{}/task/{}/comm", pid, tid));
    return command ? command : read_command(fmt::format("/proc/{}/comm", tid));
  }
  for (const pid_t outer : target::list_threads(pid))
    if (target::tid_inside(pid, outer) == tid)
      return read_command(fmt::format("/proc/{}/task/{}/comm", pid, outer));
  return std::nullopt;
}

constexpr uint64_t kStaysNs = 1'000'000'000;
constexpr size_t kMostKnown = 1 << 16;

}  // namespace

// A thread may rename itself, and the next one may get its number.
std::string_view ThreadCommands::of(pid_t tid, uint64_t now_ns) {
  if (tid == 0) return process_.command;
  if (threads_.size() > kMostKnown) threads_.clear();
  Thread& thread = threads_[tid];
  if (thread.read_ns != 0 && now_ns - thread.read_ns < kStaysNs) return thread.command;
  if (auto command = command_of_thread(process_.pid, tid))
    thread.command = *std::move(command);
  else if (thread.read_ns == 0)
    thread.command = process_.command;
  thread.read_ns = now_ns;
  return thread.command;
}

void ThreadCommands::look(uint64_t now_ns) {
  if (now_ns < next_look_ns_) return;
  const bool is_inside = has_our_numbers(process_.pid);
  for (const pid_t outer : target::list_threads(process_.pid)) {
    const pid_t tid = is_inside ? outer : target::tid_inside(process_.pid, outer);
    if (threads_.size() > kMostKnown) break;
    Thread& thread = threads_[tid];
    auto command = read_command(fmt::format("/proc/{}/task/{}/comm", process_.pid, outer));
    if (command) thread = {*std::move(command), now_ns};
  }
  constexpr uint64_t kBetweenNs = 100'000'000, kShare = 20;
  const uint64_t took_ns = monotonic_ns() - now_ns;
  next_look_ns_ = now_ns + std::max(kBetweenNs, kShare * took_ns);
}

}  // namespace pinprick::session
