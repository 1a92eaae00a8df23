#include "target/exec_gate.h"

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"

namespace pinprick::target {
namespace {

constexpr uint64_t kMillisecond = 1'000'000;
// So long may PTRACE_SEIZE take before it must be the kernel's lock that it waits for.
constexpr uint64_t kSeizingNs = 2 * kMillisecond;
constexpr uint64_t kMappingNs = 20 * kMillisecond;
// So long may a request wait for its turn.
constexpr uint64_t kWaitingNs = 2'000 * kMillisecond;
#ifndef FAN_PRE_ACCESS
#define FAN_PRE_ACCESS 0x00100000  // Linux 6.14
#endif

constexpr int kTimerMs = 100;
constexpr time_t kDeadAfterS = 1;

}  // namespace

Result<std::unique_ptr<ExecGate>, SystemError> ExecGate::open() {
  std::unique_ptr<ExecGate> gate(new ExecGate);
  // Without FAN_REPORT_TID, an execution by another thread than the first could not be seized.
  gate->fanotify_ = Fd(::fanotify_init(
      FAN_CLASS_PRE_CONTENT | FAN_CLOEXEC | FAN_NONBLOCK | FAN_UNLIMITED_QUEUE | FAN_REPORT_TID,
      O_RDONLY | O_LARGEFILE | O_CLOEXEC));
  if (!gate->fanotify_) return fail(SystemError{errno});
  gate->requested_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  gate->ending_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!gate->requested_ || !gate->ending_) return fail(SystemError{errno});
  struct sigevent kill_us = {};
  kill_us.sigev_notify = SIGEV_SIGNAL;
  kill_us.sigev_signo = SIGKILL;
  if (::timer_create(CLOCK_MONOTONIC, &kill_us, &gate->timer_) != 0)
    return fail(SystemError{errno});
  gate->has_timer_ = true;
  gate->thread_ = std::thread([self = gate.get()] { self->run(); });
  return gate;
}

// Closing the descriptor lets all go that are still held.
void ExecGate::close() {
  if (thread_.joinable()) {
    ::eventfd_write(ending_.get(), 1);
    thread_.join();
  }
  fanotify_.reset();
  if (has_timer_) ::timer_delete(timer_);
  has_timer_ = false;
  for (const auto& [number, held] : held_) ::close(held.event);
  held_.clear();
  if (mapping_.event >= 0) ::close(mapping_.event);
  mapping_ = {};
}

ExecGate::~ExecGate() {
  close();
}

Result<void, SystemError> ExecGate::watch(const std::string& path) {
  if (::fanotify_mark(fanotify_.get(), FAN_MARK_ADD, FAN_OPEN_EXEC_PERM, AT_FDCWD, path.c_str()) !=
      0)
    return fail(SystemError{errno});
  // Some file systems do not have this; then interpreters of scripts are seized too late.
  static_cast<void>(
      ::fanotify_mark(fanotify_.get(), FAN_MARK_ADD, FAN_PRE_ACCESS, AT_FDCWD, path.c_str()));
  return {};
}

Result<void, SystemError> ExecGate::watch_library(const std::string& path) {
  if (::fanotify_mark(fanotify_.get(), FAN_MARK_ADD, FAN_OPEN_PERM, AT_FDCWD, path.c_str()) != 0)
    return fail(SystemError{errno});
  return {};
}

void ExecGate::set_timer() {
  const itimerspec until = {{0, 0}, {kDeadAfterS, 0}};
  ::timer_settime(timer_, 0, &until, nullptr);
}

void ExecGate::run() {
  sched_param priority = {};
  priority.sched_priority = 1;
  static_cast<void>(::pthread_setschedparam(::pthread_self(), SCHED_RR, &priority));
  for (;;) {
    set_timer();
    pollfd descriptors[2] = {{fanotify_.get(), POLLIN, 0}, {ending_.get(), POLLIN, 0}};
    bool holds = false;
    {
      const std::lock_guard lock(mutex_);
      holds = !held_.empty() || mapping_.event >= 0;
    }
    ::poll(descriptors, 2, holds ? 1 : kTimerMs);
    if (descriptors[1].revents != 0) break;
    take_events();
    answer_overdue();
  }
  const itimerspec never = {};
  ::timer_settime(timer_, 0, &never, nullptr);
}

// Does the event come from a thread of this process?
bool ExecGate::is_ours(pid_t tid) const {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d", tid);
  return ::access(path, F_OK) == 0;
}

// Is the thread in a call to open a file, made by the dynamic loader? musl's loader is its C
// library as well, so there each reader looks like it.
bool ExecGate::is_loader(pid_t tid) {
  constexpr int kAttempts = 50;
  constexpr uint64_t kPauseNs = 20'000, kMostCode = 1 << 20;
  char path[64], text[256];
  const auto slurp = [&](const char* name, void* to, size_t size) {
    std::snprintf(path, sizeof path, "/proc/%d/%s", tid, name);
    const Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
    return fd ? ::read(fd.get(), to, size) : -1;
  };
  // The event is queued before the thread sleeps. Until it does, the file says `running`.
  for (int attempt = 0;; ++attempt) {
    const ssize_t size = slurp("syscall", text, sizeof text - 1);
    if (size <= 0) return false;
    text[size] = '\0';
    if (text[0] != 'r') break;
    if (attempt == kAttempts) return false;
    sleep_ns(kPauseNs);
  }
  char* next = nullptr;
  const long number = std::strtol(text, &next, 10);
  if (number != SYS_open && number != SYS_openat && number != SYS_openat2) return false;
  uint64_t last = 0;  // the instruction pointer
  for (char* end = next;; next = end) {
    const uint64_t value = std::strtoull(next, &end, 16);
    if (end == next) break;
    last = value;
  }
  Elf64_auxv_t vector[64];
  const ssize_t size = slurp("auxv", vector, sizeof vector);
  for (size_t i = 0; size > 0 && i < static_cast<size_t>(size) / sizeof vector[0]; ++i)
    if (vector[i].a_type == AT_BASE)
      return vector[i].a_un.a_val != 0 && last - vector[i].a_un.a_val < kMostCode;
  return false;
}

void ExecGate::take_events() {
  alignas(fanotify_event_metadata) char buffer[8192];
  for (;;) {
    ssize_t size = ::read(fanotify_.get(), buffer, sizeof buffer);
    if (size <= 0) return;
    for (auto* event = reinterpret_cast<fanotify_event_metadata*>(buffer);
         FAN_EVENT_OK(event, size); event = FAN_EVENT_NEXT(event, size)) {
      if (event->fd < 0) continue;
      // 0: a process outside our PID namespace.
      if (event->pid == 0 || is_ours(event->pid)) {
        write_answer(event->fd);
        continue;
      }
      const bool loads = (event->mask & FAN_OPEN_PERM) != 0;
      if (loads && !is_loader(event->pid)) {
        write_answer(event->fd);
        continue;
      }
      const std::lock_guard lock(mutex_);
      if ((event->mask & FAN_PRE_ACCESS) != 0) {
        if (seizing_tid_ != event->pid || mapping_.event >= 0 || reads_header(*event))
          write_answer(event->fd);
        else
          mapping_ = {event->fd, monotonic_ns(), 0};
        continue;
      }
      const uint64_t number = ++last_;
      held_[number] = {event->fd, monotonic_ns(), 0};
      requests_.push_back({number, event->pid, loads});
      ::eventfd_write(requested_.get(), 1);
    }
  }
}

// The kernel reads the first page of the file with the lock that PTRACE_SEIZE wants, and maps the
// program without it.
bool ExecGate::reads_header(const fanotify_event_metadata& event) {
  struct Range {
    uint8_t type, pad;
    uint16_t size;
    uint32_t pad2;
    uint64_t offset, count;
  } range = {};
  if (event.event_len < event.metadata_len + sizeof range) return true;
  std::memcpy(&range, reinterpret_cast<const char*>(&event) + event.metadata_len, sizeof range);
  return range.offset == 0 && range.count <= 4096;
}

// Fails with ENOENT if the thread was killed meanwhile.
void ExecGate::write_answer(int event) const {
  const fanotify_response allow = {event, FAN_ALLOW};
  static_cast<void>(!::write(fanotify_.get(), &allow, sizeof allow));
  ::close(event);
}

void ExecGate::answer_overdue() {
  const uint64_t now = monotonic_ns();
  const std::lock_guard lock(mutex_);
  if (mapping_.event >= 0 && now - mapping_.since_ns > kMappingNs) let_map();
  for (auto next = held_.begin(); next != held_.end();) {
    const Held& held = next->second;
    const bool is_late = held.seizing_ns != 0 ? now - held.seizing_ns > kSeizingNs
                                              : now - held.since_ns > kWaitingNs;
    if (!is_late) {
      ++next;
      continue;
    }
    if (held.seizing_ns == 0) {
      ++let_through_;
      std::erase_if(requests_, [&](const Request& one) { return one.number == next->first; });
    }
    write_answer(held.event);
    next = held_.erase(next);
  }
}

void ExecGate::let_map() {
  if (mapping_.event >= 0) write_answer(mapping_.event);
  mapping_ = {};
}

std::optional<ExecGate::Request> ExecGate::request() {
  const std::lock_guard lock(mutex_);
  if (requests_.empty()) {
    eventfd_t ignored = 0;
    ::eventfd_read(requested_.get(), &ignored);
    return std::nullopt;
  }
  const Request next = requests_.front();
  requests_.pop_front();
  return next;
}

void ExecGate::began_to_seize(const Request& request) {
  const uint64_t number = request.number;
  const std::lock_guard lock(mutex_);
  seizing_tid_ = request.tid;
  if (const auto found = held_.find(number); found != held_.end())
    found->second.seizing_ns = monotonic_ns();
}

bool ExecGate::answer(uint64_t number) {
  const std::lock_guard lock(mutex_);
  seizing_tid_ = 0;
  let_map();
  const auto found = held_.find(number);
  if (found == held_.end()) return false;
  write_answer(found->second.event);
  held_.erase(found);
  return true;
}

}  // namespace pinprick::target
