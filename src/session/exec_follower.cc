#include "session/exec_follower.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <set>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/fd.h"
#include "base/process_folder.h"
#include "image/maps.h"
#include "session/mapped_file.h"
#include "target/memory.h"
#include "target/procfs.h"
#include "target/ptrace_data.h"
#include "target/stop.h"
#include "target/thread_registers.h"

namespace pinprick::session {
namespace {

using engine::ExecWatch;

// The latest child of the thread that runs in its memory, as one of vfork does; 0 if there is none.
pid_t child_in_its_memory(pid_t tid) {
  pid_t latest = 0;
  for (const pid_t child : target::children_of(target::process_of(tid), tid))
    if (target::shares_memory(child, tid)) latest = child;
  return latest;
}

// The thread that waits, by the TID that it has in its control block, which may be its parent's.
pid_t waiting_thread(pid_t tid) {
  constexpr int kDeepest = 8;
  for (int i = 0; i < kDeepest; ++i) {
    const pid_t child = child_in_its_memory(tid);
    if (child == 0) return tid;
    tid = child;
  }
  return tid;
}

// Has the process the watch's page, where its hooks look for it?
bool has_page(pid_t pid, const ExecWatch& watch) {
  const auto maps = image::read_maps(pid);
  return maps && std::any_of(maps->begin(), maps->end(), [&](const image::Mapping& mapping) {
           return mapping.shared && mapping.inode == watch.inode() &&
                  mapping.range.contains(watch.handshake());
         });
}

// Does a program keep the rights that it gains although we trace it?
bool may_trace_what_gains_rights() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> sets = {};
  return ::syscall(SYS_capget, &header, sets.data()) == 0 &&
         (sets[0].effective >> CAP_SYS_PTRACE & 1) != 0;
}

// A path as the process sees it, as we do. Empty if it cannot be read.
std::string path_of_exec(pid_t pid, int directory, Address path) {
  const auto memory = target::Memory::open(pid);
  std::string name;
  constexpr size_t kLongest = 4096;
  for (uint8_t byte = 0; memory && name.size() < kLongest; name += static_cast<char>(byte)) {
    if (!memory->read_value(path + name.size(), byte)) return {};
    if (byte == 0) break;
  }
  const std::string folder = process_folder(pid);
  if (name.starts_with('/')) return folder + "/root" + name;
  const std::string from =
      directory == AT_FDCWD ? folder + "/cwd" : folder + "/fd/" + std::to_string(directory);
  return name.empty() ? from : from + "/" + name;
}

// By the file itself, or as a script by its interpreter's. What cannot be looked at may.
bool may_gain_rights(pid_t pid, std::string path) {
  constexpr int kDeepest = 5;
  for (int i = 0; i < kDeepest; ++i) {
    struct stat status = {};
    if (path.empty()) return true;
    if (::stat(path.c_str(), &status) != 0) return errno != ENOENT;
    if ((status.st_mode & (S_ISUID | S_ISGID)) != 0) return true;
    if (::getxattr(path.c_str(), "security.capability", nullptr, 0) >= 0) return true;
    std::array<char, 256> head = {};
    const auto file = open_file(path, O_RDONLY);
    if (!file || ::pread(file->get(), head.data(), head.size() - 1, 0) < 2) return false;
    if (head[0] != '#' || head[1] != '!') return false;
    const std::string line = head.data() + 2;
    const size_t begin = line.find_first_not_of(" \t");
    if (begin == line.npos) return false;
    const std::string interpreter = line.substr(begin, line.find_first_of(" \t\n", begin) - begin);
    path = process_folder(pid) + (interpreter.starts_with('/') ? "/root" : "/cwd/") + interpreter;
  }
  return true;
}

bool is_exec(uint64_t number) {
  return number == SYS_execve || number == SYS_execveat;
}

}  // namespace

void ExecFollower::watch(const std::vector<std::shared_ptr<ExecWatch>>& watches) {
  const std::lock_guard lock(mutex_);
  for (const auto& one : watches)
    if (std::none_of(watched_.begin(), watched_.end(),
                     [&](const Watched& known) { return known.watch == one; }))
      watched_.push_back({one, {}});
  alive_ns_ = monotonic_ns();
  if (heart_.joinable() || watched_.empty()) return;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the thread that calls this
  try {
    heart_ = std::thread([this] { heartbeat(); });
  } catch (const std::system_error&) {
    // Then threads wait for a second at most.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// A thread that waits is let go if we do not come to look at it: one of a process of which we try
// to stop all threads, say, while its parent waits for it.
void ExecFollower::heartbeat() {
  constexpr uint64_t kPauseNs = 50'000'000, kLongestWorkNs = 3'000'000'000;
  for (; !ends_; sleep_ns(kPauseNs)) {
    if (monotonic_ns() - alive_ns_ > kLongestWorkNs) continue;
    const std::lock_guard lock(mutex_);
    for (const Watched& one : watched_) one.watch->heartbeat();
  }
}

void ExecFollower::take_requests() {
  const uint64_t now_ns = monotonic_ns();
  alive_ns_ = now_ns;
  for (Watched& one : watched_) {
    const auto requests = one.watch->requests(now_ns);
    std::erase_if(one.tries, [&](const auto& tried) {
      return std::find(requests.begin(), requests.end(), tried.first) == requests.end();
    });
    for (const auto& request : requests) take(one, request);
  }
}

// The thread runs, in a loop. A thread that sleeps, as a parent in vfork, could not be stopped.
void ExecFollower::take(Watched& watched, const ExecWatch::Request& request) {
  constexpr unsigned kMostTries = 50;
  for (const Followed& one : followed_)
    if (one.watch == watched.watch && one.request == request) return;
  if (seize(watched, request)) return;
  auto tried = std::find_if(watched.tries.begin(), watched.tries.end(),
                            [&](const auto& one) { return one.first == request; });
  if (tried == watched.tries.end()) tried = watched.tries.insert(watched.tries.end(), {request, 0});
  if (++tried->second < kMostTries) return;
  ++figures_.left_alone["its thread was not found"];
  watched.watch->answer(request);
}

bool ExecFollower::seize(const Watched& watched, const ExecWatch::Request& request) {
  if (request.tid <= 0) return false;
  const pid_t tid = waiting_thread(request.tid);
  const pid_t pid = target::process_of(tid);
  if (pid == 0 || pid == ::getpid()) return false;
  if (only_ && !only_(pid)) {
    watched.watch->answer(request);
    return true;
  }
  const auto status = target::read_thread_status(pid, tid);
  if (!status || status->state != 'R' || !has_page(pid, *watched.watch)) return false;
  Followed one;
  if (ptrace(PTRACE_SEIZE, tid, nullptr,
             target::ptrace_data(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC)) != 0) {
    ++figures_.left_alone[errno == EPERM ? "traced already, or not ours" : "cannot be traced"];
    watched.watch->answer(request);
    return true;
  }
  ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
  one.watch = watched.watch;
  one.request = request;
  one.pid = pid;
  one.tid = tid;
  followed_.push_back(std::move(one));
  return true;
}

bool ExecFollower::let_go(Followed& one, const char* cause) {
  if (!one.is_answered) one.watch->answer(one.request);
  if (cause != nullptr) ++figures_.left_alone[cause];
  target::Stop::let_go_of(one.pid, one.tid);
  return true;
}

bool ExecFollower::look_at(Followed& one, std::optional<target::HeldThread>& caught) {
  // The end of a child of ours is left to the code that waits for it.
  siginfo_t info = {};
  const auto id = [&] { return static_cast<id_t>(one.tid); };
  constexpr int kLook = WSTOPPED | WEXITED | WNOHANG | WNOWAIT | __WALL;
  int error = ::waitid(P_PID, id(), &info, kLook);
  if (error != 0 && one.tid != one.pid) {
    // A thread that executes a program has the first thread's number from then on.
    one.tid = one.pid;
    error = ::waitid(P_PID, id(), &info, kLook);
  }
  if (error == 0 && info.si_pid == 0) return false;
  const bool has_ended = error != 0 || info.si_code == CLD_EXITED || info.si_code == CLD_KILLED ||
                         info.si_code == CLD_DUMPED;
  int status = 0;
  if (has_ended) {
    if (error == 0 && one.tid != own_) ::waitpid(one.tid, &status, __WALL | WNOHANG);
    if (!one.is_answered) one.watch->answer(one.request);
    return true;
  }
  if (::waitpid(one.tid, &status, __WALL | WNOHANG) != one.tid || !WIFSTOPPED(status)) return false;
  return look_at_stop(one, status, caught);
}

bool ExecFollower::look_at_stop(Followed& one, int status,
                                std::optional<target::HeldThread>& caught) {
  constexpr int kMostStops = 100;
  const int event = status >> 16;
  const bool is_call = event == 0 && WSTOPSIG(status) == (SIGTRAP | 0x80);
  if (event == PTRACE_EVENT_EXEC) {
    one.has_executed = true;
    ptrace(PTRACE_INTERRUPT, one.tid, nullptr, nullptr);
    ptrace(PTRACE_CONT, one.tid, nullptr, nullptr);
    return false;
  }
  if (one.has_executed) {
    if (event == PTRACE_EVENT_STOP) {
      ptrace(PTRACE_SETOPTIONS, one.tid, nullptr, target::ptrace_data(PTRACE_O_TRACESYSGOOD));
      ++figures_.executed;
      caught.emplace(one.pid, one.tid);
      return true;
    }
    ptrace(PTRACE_CONT, one.tid, nullptr,
           target::ptrace_data(event == 0 && !is_call ? WSTOPSIG(status) : 0));
    return false;
  }
  if (++one.stops > kMostStops) return let_go(one, "it did not come to its exec");
  if (event == PTRACE_EVENT_STOP && !one.is_answered) {
    arch::Registers registers;
    if (!target::read_registers(one.tid, registers) ||
        !one.watch->is_waiting(one.request, registers))
      return let_go(one, "it did not wait");
    one.watch->answer(one.request);
    one.is_answered = true;
  }
  if (is_call) {
    __ptrace_syscall_info info = {};
    if (ptrace(PTRACE_GET_SYSCALL_INFO, one.tid, target::ptrace_data(sizeof info), &info) <= 0)
      return let_go(one, "it cannot be followed");
    if (info.op == PTRACE_SYSCALL_INFO_EXIT && one.is_in_exec) return let_go(one);
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY && is_exec(info.entry.nr)) {
      one.is_in_exec = true;
      const auto& arguments = info.entry.args;
      const bool has_directory = info.entry.nr == SYS_execveat;
      if (!may_trace_what_gains_rights() &&
          may_gain_rights(
              one.pid,
              path_of_exec(one.tid, has_directory ? static_cast<int>(arguments[0]) : AT_FDCWD,
                           arguments[has_directory ? 1 : 0])))
        return let_go(one, "it may gain rights");
    }
  }
  const bool is_signal = event == 0 && !is_call;
  ptrace(PTRACE_SYSCALL, one.tid, nullptr, target::ptrace_data(is_signal ? WSTOPSIG(status) : 0));
  return false;
}

std::optional<target::HeldThread> ExecFollower::next() {
  constexpr uint64_t kMostNs = 5'000'000, kPauseNs = 20'000;
  std::optional<target::HeldThread> caught;
  for (const uint64_t begin = monotonic_ns();;) {
    take_requests();
    for (auto one = followed_.begin(); one != followed_.end() && !caught;)
      one = look_at(*one, caught) ? followed_.erase(one) : one + 1;
    if (caught) return caught;
    // What was just let through arrives in a moment.
    if (followed_.empty() || monotonic_ns() - begin > kMostNs) break;
    sleep_ns(kPauseNs);
  }
  forget_unused(1'000'000'000);
  return caught;
}

bool ExecFollower::follows(pid_t pid) const {
  return std::any_of(followed_.begin(), followed_.end(),
                     [&](const Followed& one) { return one.pid == pid; });
}

bool ExecFollower::is_unused() {
  forget_unused(100'000'000);
  return watched_.empty();
}

// A process that has ended may have children with its hooks, which have executed nothing yet.
void ExecFollower::forget_unused(uint64_t pause_ns) {
  const uint64_t now_ns = monotonic_ns();
  if (now_ns - looked_ns_ < pause_ns) return;
  looked_ns_ = now_ns;
  const auto is_alone = [](const Watched& one) { return one.watch.use_count() == 1; };
  if (std::none_of(watched_.begin(), watched_.end(), is_alone)) return;
  std::set<std::pair<uint64_t, Address>> mapped;
  for (const pid_t pid : target::all_processes())
    if (const auto maps = image::read_maps(pid))
      for (const image::Mapping& mapping : *maps)
        for (const Watched& one : watched_)
          if (mapping.shared && mapping.inode == one.watch->inode() &&
              mapping.range.contains(one.watch->handshake()))
            mapped.emplace(one.watch->inode(), one.watch->handshake());
  const std::lock_guard lock(mutex_);
  std::erase_if(watched_, [&](const Watched& one) {
    if (!is_alone(one) || mapped.contains({one.watch->inode(), one.watch->handshake()}))
      return false;
    missed_by_former_ += one.watch->missed();
    return true;
  });
}

ExecFollower::Figures ExecFollower::figures() const {
  Figures all = figures_;
  all.missed = missed_by_former_;
  for (const Watched& one : watched_) all.missed += one.watch->missed();
  return all;
}

void ExecFollower::close() {
  constexpr uint64_t kMostNs = 2'000'000'000, kPauseNs = 100'000;
  if (ends_.exchange(true)) return;
  if (heart_.joinable()) heart_.join();
  for (const Watched& one : watched_) one.watch->close();
  for (const uint64_t begin = monotonic_ns();
       !followed_.empty() && monotonic_ns() - begin < kMostNs; sleep_ns(kPauseNs)) {
    std::optional<target::HeldThread> caught;  // let go at once
    std::erase_if(followed_, [&](Followed& one) {
      const bool is_over = look_at(one, caught);
      caught.reset();
      return is_over;
    });
  }
  // An execution may take any time, on a server that does not answer for example.
  for (const Followed& one : std::exchange(followed_, {})) {
    ::ptrace(PTRACE_INTERRUPT, one.tid, nullptr, nullptr);
    target::Stop::let_go_of(one.pid, one.tid);
  }
}

}  // namespace pinprick::session
