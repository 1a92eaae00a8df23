#include "engine/watch/load_tracking.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstddef>
#include <ctime>
#include <system_error>

#include "base/clock.h"

namespace pinprick::engine {
namespace {

using layout::LoaderHandshake;
constexpr size_t kRequests = offsetof(LoaderHandshake, requests);
constexpr size_t kAnswered = offsetof(LoaderHandshake, answered);
constexpr size_t kHeartbeat = offsetof(LoaderHandshake, heartbeat);
constexpr size_t kControllerGone = offsetof(LoaderHandshake, controller_gone);

// A thread of the target waits for a second without a heartbeat.
constexpr uint64_t kHeartbeatNs = 50'000'000;
constexpr uint64_t kLongestWorkNs = 30'000'000'000;
constexpr uint64_t kLookAgainNs = 1'000'000'000;

}  // namespace

std::unique_ptr<LoaderWatch> LoaderWatch::start(int file, const layout::Session& journal) {
  const uint64_t offset = journal.header.loader_handshake_offset;
  Fd own(::fcntl(file, F_DUPFD_CLOEXEC, 0));
  Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (offset == 0 || !own || !event) return nullptr;
  void* page = ::mmap(nullptr, kPageSize, PROT_READ | PROT_WRITE, MAP_SHARED, own.get(),
                      static_cast<off_t>(offset));
  if (page == MAP_FAILED) return nullptr;
  std::unique_ptr<LoaderWatch> watch(
      new LoaderWatch(std::move(own), std::move(event), offset, page));
  // Signals are for the thread that calls this.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    watch->thread_ = std::thread([&watch = *watch] { watch.watch(); });
  } catch (const std::system_error&) {
    watch.reset();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return watch;
}

LoaderWatch::LoaderWatch(Fd file, Fd event, uint64_t offset, void* page)
    : file_(std::move(file)), event_(std::move(event)), offset_(offset), page_(page) {}

LoaderWatch::~LoaderWatch() {
  write(kControllerGone, 1);
  wake(kAnswered);
  ends_ = true;
  if (thread_.joinable()) {
    // Repeatedly, since the thread may just be about to wait. It waits for a second at most, should
    // another one have been woken in its place.
    while (!ended_ && !wake(kRequests)) sleep_ns(100'000);
    thread_.join();
  }
  ::munmap(page_, kPageSize);
}

uint32_t LoaderWatch::read(size_t field) const {
  uint32_t value = 0;
  static_cast<void>(
      read_at(file_.get(), {reinterpret_cast<uint8_t*>(&value), sizeof value}, offset_ + field));
  return value;
}

void LoaderWatch::write(size_t field, uint32_t value) {
  static_cast<void>(write_at(file_.get(), {reinterpret_cast<const uint8_t*>(&value), sizeof value},
                             offset_ + field));
}

void LoaderWatch::wait(uint32_t seen, uint64_t nanoseconds) const {
  const timespec timeout = {static_cast<time_t>(nanoseconds / 1'000'000'000),
                            static_cast<long>(nanoseconds % 1'000'000'000)};
  const long result = ::syscall(SYS_futex, static_cast<char*>(page_) + kRequests, FUTEX_WAIT, seen,
                                &timeout, nullptr, 0);
  if (result != 0 && errno == EFAULT) sleep_ns(kHeartbeatNs);  // the file was truncated
}

bool LoaderWatch::wake(size_t field) const {
  return ::syscall(SYS_futex, static_cast<char*>(page_) + field, FUTEX_WAKE, INT_MAX, nullptr,
                   nullptr, 0) > 0;
}

void LoaderWatch::watch() {
  uint32_t told = 0, heartbeat = 0;
  uint64_t began_ns = 0;
  while (!ends_) {
    const uint32_t requests = read(kRequests);
    if (requests != told) {
      told = requests;
      began_ns = monotonic_ns();
      const uint64_t one = 1;
      static_cast<void>(::write(event_.get(), &one, sizeof one));
    }
    const bool at_work = requests != answered_ && monotonic_ns() - began_ns < kLongestWorkNs;
    if (at_work) write(kHeartbeat, ++heartbeat);
    wait(requests, at_work ? kHeartbeatNs : kLookAgainNs);
  }
  ended_ = true;
}

std::optional<uint32_t> LoaderWatch::take() {
  uint64_t ignored;
  static_cast<void>(::read(event_.get(), &ignored, sizeof ignored));
  const uint32_t last = read(kRequests);
  return last == answered_ ? std::nullopt : std::optional(last);
}

bool LoaderWatch::answer(uint32_t request) {
  const bool in_time = read(kControllerGone) == 0;
  answered_ = request;
  write(kAnswered, request);
  write(kControllerGone, 0);
  wake(kAnswered);
  return in_time;
}

}  // namespace pinprick::engine
