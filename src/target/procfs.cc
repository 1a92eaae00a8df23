#include "target/procfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>

#include "base/clock.h"
#include "base/fd.h"
#include "base/process_folder.h"
#include "image/maps.h"

namespace pinprick::target {
namespace {

uint64_t parse_number(std::string_view text, int base = 10) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

// `Name:\tvalue` lines of a status file.
std::string_view field(std::string_view status, std::string_view name) {
  for (size_t at = 0; at < status.size();) {
    const size_t end = std::min(status.find('\n', at), status.size());
    std::string_view line = status.substr(at, end - at);
    if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ':') {
      line.remove_prefix(name.size() + 1);
      while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
      return line;
    }
    at = end + 1;
  }
  return {};
}

std::optional<ProcessStatus> read_from(const std::string& folder) {
  // In this order: a fatal signal is first pending (status), and then noted in the flags (stat).
  auto status = read_proc_record(folder + "/status");
  auto stat = read_proc_record(folder + "/stat");
  if (!stat || !status) return std::nullopt;
  // pid (command) state ppid ...: the command may hold blanks and parentheses.
  const size_t open = stat->find('(');
  const size_t close = stat->rfind(')');
  if (open == stat->npos || close == stat->npos || close + 2 >= stat->size()) return std::nullopt;

  ProcessStatus out;
  out.command = stat->substr(open + 1, close - open - 1);
  std::string_view rest = std::string_view(*stat).substr(close + 2);
  out.state = rest[0];
  constexpr int kState = 3, kParent = 4, kFlags = 9, kUserTime = 14, kSystemTime = 15,
                kStartTime = 22;
  // PF_EXITING or PF_SIGNALED, PF_IO_WORKER, PF_KTHREAD
  constexpr uint64_t kExiting = 0x404, kKernelWorker = 0x10, kKernelThread = 0x00200000;
  int number = kState;
  for (size_t at = 0; at < rest.size() && number <= kStartTime; ++number) {
    const size_t end = std::min(rest.find(' ', at), rest.size());
    const uint64_t value = parse_number(rest.substr(at, end - at));
    if (number == kParent) out.parent = static_cast<pid_t>(value);
    if (number == kFlags) {
      out.kernel_thread = (value & kKernelThread) != 0;
      // Before Linux 5.12 these workers were kernel threads.
      out.kernel_worker = !out.kernel_thread && (value & kKernelWorker) != 0;
      out.ending = (value & kExiting) != 0;
    }
    if (number == kUserTime || number == kSystemTime) out.cpu_ticks += value;
    if (number == kStartTime) out.start_time = value;
    at = end + 1;
  }
  out.tracer = static_cast<pid_t>(parse_number(field(*status, "TracerPid")));
  const uint64_t pending = parse_number(field(*status, "SigPnd"), 16);
  out.ending = out.ending || out.state == 'Z' || out.state == 'X' ||
               (pending & uint64_t{1} << (SIGKILL - 1)) != 0;
  out.blocked_signals = parse_number(field(*status, "SigBlk"), 16);
  out.seccomp = static_cast<int>(parse_number(field(*status, "Seccomp")));
  out.shadow_stack = field(*status, "x86_Thread_features").find("shstk") != std::string_view::npos;
  return out;
}

}  // namespace

std::optional<ProcessStatus> read_status(pid_t pid) {
  const std::string first = fmt::format("/proc/{}", pid);
  auto status = read_from(first);
  if (!status || (status->state != 'Z' && status->state != 'X')) return status;
  const std::string folder = process_folder(pid);
  const auto living = folder == first ? std::nullopt : read_from(folder);
  if (!living) return status;
  // The fields that identify the process stay those of its first thread.
  const uint64_t start_time = status->start_time;
  std::string command = std::move(status->command);
  status = living;
  status->start_time = start_time;
  status->command = std::move(command);
  return status;
}

std::optional<ProcessStatus> read_thread_status(pid_t pid, pid_t tid) {
  return read_from(fmt::format("/proc/{}/task/{}", pid, tid));
}

std::optional<int> seccomp_mode(pid_t pid, pid_t tid) {
  const auto status = read_proc_record(fmt::format("/proc/{}/task/{}/status", pid, tid));
  if (!status) return std::nullopt;
  return static_cast<int>(parse_number(field(*status, "Seccomp")));
}

bool lets_go(pid_t tracer) {
  constexpr uint64_t kTimeoutNs = 1'000'000'000;
  for (const uint64_t begin = monotonic_ns(); monotonic_ns() - begin < kTimeoutNs;
       sleep_ns(200'000)) {
    const auto status = read_status(tracer);
    if (!status || status->state == 'Z' || status->state == 'X') return true;
    if (!status->ending) return false;
  }
  return false;
}

bool has_memory(pid_t pid) {
  const auto status = read_proc_record(process_folder(pid) + "/status");
  return !status || !field(*status, "VmSize").empty();
}

std::optional<std::string> executable_path(pid_t pid) {
  std::error_code error;
  const auto path = std::filesystem::read_symlink(process_folder(pid) + "/exe", error);
  if (error) return std::nullopt;
  return path.string();
}

std::vector<pid_t> list_threads(pid_t pid) {
  return thread_numbers(pid);
}

// "running", or the number of the system call with its arguments, or -1; then the two.
std::optional<ThreadPosition> position_of(pid_t pid, pid_t tid) {
  const auto text = read_proc_record(fmt::format("/proc/{}/task/{}/syscall", pid, tid));
  if (!text) return std::nullopt;
  std::string_view rest = *text;
  while (rest.ends_with('\n')) rest.remove_suffix(1);
  const auto take_last = [&]() -> uint64_t {
    const size_t blank = rest.rfind(' ');
    if (blank == rest.npos) return 0;
    const std::string_view number = rest.substr(blank + 1);
    rest = rest.substr(0, blank);
    return number.starts_with("0x") ? parse_number(number.substr(2), 16) : 0;
  };
  ThreadPosition position;
  position.instruction_pointer = take_last();
  position.stack_pointer = take_last();
  if (position.instruction_pointer == 0 || position.stack_pointer == 0) return std::nullopt;
  return position;
}

std::optional<BlockedCall> blocked_call_of(pid_t pid, pid_t tid) {
  const auto text = read_proc_record(fmt::format("/proc/{}/task/{}/syscall", pid, tid));
  if (!text) return std::nullopt;
  constexpr size_t kNumbers = 9;  // the call, six arguments, and where the thread is
  std::array<uint64_t, kNumbers> numbers = {};
  std::string_view rest = *text;
  for (size_t i = 0; i < kNumbers; ++i) {
    const size_t end = std::min(rest.find_first_of(" \n"), rest.size());
    std::string_view number = rest.substr(0, end);
    const bool is_hexadecimal = number.starts_with("0x");
    if (is_hexadecimal) number.remove_prefix(2);
    const auto [parsed, error] = std::from_chars(number.data(), number.data() + number.size(),
                                                 numbers[i], is_hexadecimal ? 16 : 10);
    if (error != std::errc() || parsed != number.data() + number.size()) return std::nullopt;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  BlockedCall call = {.number = numbers[0], .position = {numbers[7], numbers[8]}};
  std::copy_n(numbers.begin() + 1, call.arguments.size(), call.arguments.begin());
  return call;
}

std::optional<uint64_t> switches_of(pid_t pid, pid_t tid) {
  const auto status = read_proc_record(fmt::format("/proc/{}/task/{}/status", pid, tid));
  if (!status) return std::nullopt;
  return parse_number(field(*status, "voluntary_ctxt_switches")) +
         parse_number(field(*status, "nonvoluntary_ctxt_switches"));
}

pid_t process_of(pid_t tid) {
  const auto status = read_proc_record(fmt::format("/proc/{}/status", tid));
  if (!status) return 0;
  return static_cast<pid_t>(parse_number(field(*status, "Tgid")));
}

// NSpid has one number for each namespace, starting with the reader's.
pid_t tid_inside(pid_t pid, pid_t tid) {
  const auto status = read_proc_record(fmt::format("/proc/{}/task/{}/status", pid, tid));
  if (!status) return 0;
  const std::string_view ids = field(*status, "NSpid");
  if (ids.empty()) return tid;  // a kernel without PID namespaces
  const size_t last = ids.find_last_of(" \t");
  return static_cast<pid_t>(parse_number(last == ids.npos ? ids : ids.substr(last)));
}

bool is_private_copy(pid_t pid, Address address) {
  const Address page = align_down(address, kPageSize);
  const auto own = image::own_pages(pid, {page, page + kPageSize});
  return !own || !own->empty();
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), &::closedir);
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
    char* end = nullptr;
    const long pid = std::strtol(entry->d_name, &end, 10);
    if (pid > 0 && *end == '\0') found.push_back(static_cast<pid_t>(pid));
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<pid_t> children_of(pid_t pid, pid_t tid) {
  std::vector<pid_t> children;
  const auto text = read_file(fmt::format("{}/task/{}/children", process_folder(pid), tid));
  if (!text) return children;
  for (const char* at = text->c_str(); *at != '\0';) {
    char* end = nullptr;
    const long child = std::strtol(at, &end, 10);
    if (end == at) break;
    at = *end == ' ' ? end + 1 : end;
    if (child > 0) children.push_back(static_cast<pid_t>(child));
  }
  return children;
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  for (const pid_t tid : list_threads(pid)) {
    const auto some = children_of(pid, tid);
    children.insert(children.end(), some.begin(), some.end());
  }
  return children;
}

bool shares_memory(pid_t child, pid_t parent) {
  if (const long order = ::syscall(SYS_kcmp, child, parent, KCMP_VM, 0, 0); order >= 0)
    return order == 0;
  if (errno != ENOSYS) return false;
  const auto threads = list_threads(parent);
  return std::any_of(threads.begin(), threads.end(), [&](pid_t tid) {
    const auto status = read_thread_status(parent, tid);
    return status && status->state == 'D';
  });
}

bool shares_memory_with_parent(pid_t pid) {
  const auto status = read_status(pid);
  return status && status->parent > 0 && shares_memory(pid, status->parent);
}

}  // namespace pinprick::target
