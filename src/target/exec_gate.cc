#include "target/exec_gate.h"

#include <elf.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "image/maps.h"
#include "image/pattern.h"

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

constexpr long kTimerNs = 100 * kMillisecond;
constexpr time_t kDeadAfterS = 1;
// How often a thread that opens a library is looked at, and for how long it may be unknown what it
// does.
constexpr long kLookNs = 50'000;
constexpr uint64_t kOpeningNs = 50 * kMillisecond;
// Events that are read at once. Each takes a descriptor.
constexpr size_t kMostAtOnce = 32;
constexpr size_t kMostEvents = 8192;

// `since` may be later, by another thread's look at the clock.
uint64_t passed(uint64_t since, uint64_t now) {
  return now > since ? now - since : 0;
}

// What a program names as its loader; empty if it names none.
std::string loader_of(const std::string& path) {
  constexpr size_t kLongest = 4096;
  const auto file = open_file(path, O_RDONLY);
  const auto read = [&](auto* to, size_t count, uint64_t offset) {
    return static_cast<bool>(
        read_at(file->get(), {reinterpret_cast<uint8_t*>(to), count * sizeof *to}, offset));
  };
  Elf64_Ehdr header = {};
  if (!file || !read(&header, 1, 0)) return {};
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  if (!read(segments.data(), segments.size(), header.e_phoff)) return {};
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_INTERP || segment.p_filesz > kLongest) continue;
    std::string name(segment.p_filesz, '\0');
    if (!read(name.data(), name.size(), segment.p_offset)) return {};
    return name.substr(0, name.find('\0'));
  }
  return {};
}

// The C library of this process; empty if it is static.
std::string c_library() {
  const auto maps = image::read_maps(::getpid());
  if (!maps) return {};
  const auto found = std::find_if(maps->begin(), maps->end(), [](const image::Mapping& mapping) {
    const std::string_view path = mapping.path;
    return mapping.executable && image::is_library(path.substr(path.rfind('/') + 1), "libc");
  });
  return found == maps->end() ? std::string() : found->path;
}

// Marks a file of which the calling thread has a descriptor, of any kind.
bool mark(const Fd& fanotify, unsigned flags, int file) {
  // fanotify_mark does not take a descriptor of O_PATH.
  const std::string path = "/proc/thread-self/fd/" + std::to_string(file);
  return ::fanotify_mark(fanotify.get(), flags, FAN_PRE_ACCESS, AT_FDCWD, path.c_str()) == 0;
}

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
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < 4 * kMostAtOnce)
    return fail(SystemError{EMFILE});
  gate->most_events_ = std::min<size_t>(limit.rlim_cur / 2, kMostEvents) - kMostAtOnce;
  gate->thread_ = std::thread([self = gate.get()] { self->run(); });
  // What is opened before it has its own descriptors would be among them.
  gate->has_own_descriptors_.wait(false);
  return gate;
}

void ExecGate::close() {
  if (thread_.joinable()) {
    ::eventfd_write(ending_.get(), 1);
    thread_.join();
  }
  fanotify_.reset();
  if (has_timer_) ::timer_delete(timer_);
  has_timer_ = false;
}

ExecGate::~ExecGate() {
  close();
}

Result<void, SystemError> ExecGate::watch(const std::string& path) {
  std::string loader = loader_of(path);
  const bool is_static = loader.empty();
  {
    const std::lock_guard lock(mutex_);
    if (is_static)
      has_static_ = true;
    else
      loader_paths_.insert(std::move(loader));
  }
  if (::fanotify_mark(fanotify_.get(), FAN_MARK_ADD, FAN_OPEN_EXEC_PERM, AT_FDCWD, path.c_str()) !=
      0)
    return fail(SystemError{errno});
  if (is_static)
    static_cast<void>(
        ::fanotify_mark(fanotify_.get(), FAN_MARK_ADD, FAN_PRE_ACCESS, AT_FDCWD, path.c_str()));
  return {};
}

Result<void, SystemError> ExecGate::watch_starts(const std::string& path) {
  const std::string library = c_library();
  struct stat program = {};
  if (loader_of(path).empty() || library.empty()) return fail(SystemError{ENOEXEC});
  if (::stat(path.c_str(), &program) != 0) return fail(SystemError{errno});
  {
    const std::lock_guard lock(mutex_);
    started_.emplace(program.st_dev, program.st_ino);
  }
  return mark_opening(library);
}

Result<void, SystemError> ExecGate::watch_library(const std::string& path) {
  struct stat library = {};
  if (::stat(path.c_str(), &library) != 0) return fail(SystemError{errno});
  {
    const std::lock_guard lock(mutex_);
    libraries_.emplace(library.st_dev, library.st_ino);
  }
  return mark_opening(path);
}

Result<void, SystemError> ExecGate::mark_opening(const std::string& path) {
  if (::fanotify_mark(fanotify_.get(), FAN_MARK_ADD, FAN_OPEN_PERM, AT_FDCWD, path.c_str()) != 0)
    return fail(SystemError{errno});
  return {};
}

void ExecGate::set_timer() {
  const itimerspec until = {{0, 0}, {kDeadAfterS, 0}};
  ::timer_settime(timer_, 0, &until, nullptr);
}

void ExecGate::run() {
  own_descriptors();
  has_own_descriptors_ = true;
  has_own_descriptors_.notify_one();
  sched_param priority = {};
  priority.sched_priority = 1;
  static_cast<void>(::pthread_setschedparam(::pthread_self(), SCHED_RR, &priority));
  for (eventfd_t ended = 0; ::eventfd_read(ending_.get(), &ended) != 0;) {
    set_timer();
    wait_for_events();
    take_events();
    look_at_openings();
    const uint64_t now = monotonic_ns();
    if (const pid_t tid = thread_that_hinders(now); tid != 0) mark_what_it_maps(tid);
    answer_overdue(now);
    unmark_loaders();
  }
  let_all_go();
  const itimerspec never = {};
  ::timer_settime(timer_, 0, &never, nullptr);
}

// From here on, this thread shares no descriptor with the others. Of those that it has got with the
// table, it keeps its own ones: others would stay open when their owner closes them.
void ExecGate::own_descriptors() const {
  if (::unshare(CLONE_FILES) != 0) return;
  std::array<unsigned, 3> own = {static_cast<unsigned>(fanotify_.get()),
                                 static_cast<unsigned>(requested_.get()),
                                 static_cast<unsigned>(ending_.get())};
  std::sort(own.begin(), own.end());
  unsigned first = STDERR_FILENO + 1;
  for (const unsigned descriptor : own) {
    if (descriptor > first) ::close_range(first, descriptor - 1, 0);
    first = descriptor + 1;
  }
  ::close_range(first, ~0U, 0);
}

void ExecGate::wait_for_events() {
  bool holds = false, has_room = false;
  {
    const std::lock_guard lock(mutex_);
    holds = !held_.empty() || mapping_.event >= 0 || !answered_.empty() || !loaders_.empty();
    has_room = this->has_room();
  }
  pollfd descriptors[2] = {{has_room ? fanotify_.get() : -1, POLLIN, 0},
                           {ending_.get(), POLLIN, 0}};
  const timespec timeout = {0, !openings_.empty() ? kLookNs
                               : holds            ? static_cast<long>(kMillisecond)
                                                  : kTimerNs};
  ::ppoll(descriptors, 2, &timeout, nullptr);
}

// Does the event come from a thread of this process?
bool ExecGate::is_ours(pid_t tid) const {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d", tid);
  return ::access(path, F_OK) == 0;
}

// Is the thread in a call to open a file, made by the dynamic loader? musl's loader is its C
// library as well, so there each reader looks like it.
ExecGate::Opener ExecGate::opener(pid_t tid) {
  constexpr uint64_t kMostCode = 1 << 20;
  char path[64], text[256];
  const auto slurp = [&](const char* name, void* to, size_t size) {
    std::snprintf(path, sizeof path, "/proc/%d/%s", tid, name);
    const Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
    return fd ? ::read(fd.get(), to, size) : -1;
  };
  const ssize_t length = slurp("syscall", text, sizeof text - 1);
  if (length <= 0) return Opener::other;
  text[length] = '\0';
  if (text[0] == 'r') return Opener::unknown;
  char* next = nullptr;
  const long number = std::strtol(text, &next, 10);
  if (number != SYS_open && number != SYS_openat && number != SYS_openat2) return Opener::other;
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
      return vector[i].a_un.a_val != 0 && last - vector[i].a_un.a_val < kMostCode ? Opener::loader
                                                                                  : Opener::other;
  return Opener::other;
}

// The event is queued before the thread sleeps, and the thread may lose its CPU in between. Until
// it sleeps, /proc does not say what it does. If that takes long, it is taken for the loader: then
// it is followed, and let go when it does not map the library.
void ExecGate::look_at_openings() {
  const uint64_t now = monotonic_ns();
  std::erase_if(openings_, [&](const Opening& opening) {
    const Opener by = opener(opening.tid);
    if (by == Opener::unknown && now - opening.since_ns < kOpeningNs) return false;
    const std::lock_guard lock(mutex_);
    const auto step = by == Opener::other ? std::nullopt : step_of(opening);
    if (step)
      hold(opening.event, opening.tid, *step);
    else
      write_answer(opening.event);
    return true;
  });
}

// What a loader does that opens a marked file; nullopt if it is none of what is watched.
std::optional<ExecGate::Step> ExecGate::step_of(const Opening& opening) const {
  struct stat file = {};
  if (!started_.empty()) {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/exe", opening.tid);
    if (::stat(path, &file) == 0 && started_.contains({file.st_dev, file.st_ino}))
      return Step::starts;
  }
  if (::fstat(opening.event, &file) == 0 && libraries_.contains({file.st_dev, file.st_ino}))
    return Step::loads;
  return std::nullopt;
}

// An event takes a descriptor.
bool ExecGate::has_room() const {
  return held_.size() + openings_.size() + answered_.size() < most_events_;
}

void ExecGate::take_events() {
  const std::lock_guard lock(mutex_);
  for (close_answered(); has_room(); close_answered())
    if (!read_events([&](const fanotify_event_metadata& event) { take(event); })) return;
}

template <class Take>
bool ExecGate::read_events(Take&& take) const {
  alignas(fanotify_event_metadata) char buffer[kMostAtOnce * sizeof(fanotify_event_metadata)];
  ssize_t size = ::read(fanotify_.get(), buffer, sizeof buffer);
  if (size <= 0) return false;
  for (auto* event = reinterpret_cast<fanotify_event_metadata*>(buffer); FAN_EVENT_OK(event, size);
       event = FAN_EVENT_NEXT(event, size))
    if (event->fd >= 0) take(*event);
  return true;
}

void ExecGate::take(const fanotify_event_metadata& event) {
  // 0: a process outside our PID namespace.
  if (event.pid == 0 || is_ours(event.pid)) return write_answer(event.fd);
  if ((event.mask & FAN_OPEN_PERM) != 0) {
    openings_.push_back({event.fd, event.pid, monotonic_ns()});
    return;
  }
  if ((event.mask & FAN_PRE_ACCESS) == 0) return hold(event.fd, event.pid, Step::executes);
  if (seizing_tid_ != event.pid || mapping_.event >= 0 || reads_header(event)) {
    if (seizing_tid_ != event.pid) spare_reader(event);
    write_answer(event.fd);
  } else {
    mapping_ = {event.fd, monotonic_ns(), 0};
  }
}

// A thread that executes a program makes few of these. The file that a thread reads at length has
// its mark taken away.
void ExecGate::spare_reader(const fanotify_event_metadata& event) {
  constexpr unsigned kMostReads = 64;
  constexpr size_t kMostReaders = 1000;
  if (reads_.size() > kMostReaders) reads_.clear();
  if (++reads_[event.pid] <= kMostReads) return;
  reads_.erase(event.pid);
  mark(fanotify_, FAN_MARK_REMOVE, event.fd);
}

void ExecGate::hold(int event, pid_t tid, Step step) {
  const uint64_t number = ++last_;
  held_[number] = {event, monotonic_ns(), 0};
  requests_.push_back({number, tid, step});
  ::eventfd_write(requested_.get(), 1);
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

// Fails with ENOENT if the thread was killed meanwhile. The descriptor is the answering thread's.
void ExecGate::write_answer(int event) {
  const fanotify_response allow = {event, FAN_ALLOW};
  static_cast<void>(!::write(fanotify_.get(), &allow, sizeof allow));
  answered_.push_back(event);
}

void ExecGate::close_answered() {
  for (const int event : answered_) ::close(event);
  answered_.clear();
}

// Without marks, the kernel asks no more.
void ExecGate::let_all_go() {
  ::fanotify_mark(fanotify_.get(), FAN_MARK_FLUSH, 0, AT_FDCWD, nullptr);
  loaders_.clear();  // these descriptors are of this thread's table
  const std::lock_guard lock(mutex_);
  for (const Opening& opening : openings_) write_answer(opening.event);
  openings_.clear();
  for (const auto& [number, held] : held_) write_answer(held.event);
  held_.clear();
  requests_.clear();
  let_map();
  const auto allow = [&](const fanotify_event_metadata& event) { write_answer(event.fd); };
  do close_answered();
  while (read_events(allow));
}

// Does PTRACE_SEIZE wait for this one? It does if it takes long, and the thread that calls it
// sleeps: on a busy machine, that thread may just have no CPU.
bool ExecGate::hinders(const Held& held, uint64_t now) const {
  const uint64_t seizing_ns = passed(held.seizing_ns, now);
  if (seizing_ns <= kSeizingNs || seizing_ns > kWaitingNs) return seizing_ns > kSeizingNs;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/syscall", seizer_);
  const Fd call(::open(path, O_RDONLY | O_CLOEXEC));
  char first = 0;
  return !call || ::read(call.get(), &first, 1) != 1 || first != 'r';  // "running"
}

// The thread that PTRACE_SEIZE waits for, if it has waited for long; 0: it has not.
pid_t ExecGate::thread_that_hinders(uint64_t now) const {
  const std::lock_guard lock(mutex_);
  const bool is_late = std::any_of(held_.begin(), held_.end(), [&](const auto& one) {
    return one.second.seizing_ns != 0 && hinders(one.second, now);
  });
  return is_late ? seizing_tid_ : 0;
}

// Before the thread goes on. Some file systems do not have this mark; then interpreters of scripts
// are seized too late.
void ExecGate::mark_what_it_maps(pid_t tid) {
  std::set<std::string> loaders;
  int program = -1;
  {
    const std::lock_guard lock(mutex_);
    loaders = loader_paths_;
    for (const auto& [number, held] : held_)
      if (held.seizing_ns != 0 && has_static_) program = held.event;
  }
  for (const std::string& path : loaders) mark_loader(tid, path);
  // Only this thread closes the descriptors of events, so it is still open.
  if (program >= 0) mark(fanotify_, FAN_MARK_ADD, program);
}

// As the thread sees the path. If the path is not in the kernel's cache, that fails instead of
// waiting for a disk or a server.
void ExecGate::mark_loader(pid_t tid, const std::string& path) {
  char root[64];
  std::snprintf(root, sizeof root, "/proc/%d/root", tid);
  const Fd folder(::open(root, O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return;
  struct open_how how = {};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_CACHED;
  Fd loader(static_cast<int>(::syscall(SYS_openat2, folder.get(), path.c_str(), &how, sizeof how)));
  if (loader && mark(fanotify_, FAN_MARK_ADD, loader.get())) loaders_.push_back(std::move(loader));
}

void ExecGate::unmark_loaders() {
  if (loaders_.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    if (seizing_tid_ != 0) return;
  }
  for (const Fd& loader : loaders_) mark(fanotify_, FAN_MARK_REMOVE, loader.get());
  loaders_.clear();
}

void ExecGate::answer_overdue(uint64_t now) {
  const std::lock_guard lock(mutex_);
  if (mapping_.event >= 0 && passed(mapping_.since_ns, now) > kMappingNs) let_map();
  for (auto next = held_.begin(); next != held_.end();) {
    const Held& held = next->second;
    const bool is_late =
        held.seizing_ns != 0 ? hinders(held, now) : passed(held.since_ns, now) > kWaitingNs;
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
  seizer_ = ::gettid();
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
