#include "cli/output.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/fd.h"
#include "cli/render/units.h"

namespace pinprick::cli {
namespace {

bool wants_color(Color color, bool terminal) {
  if (color != Color::automatic) return color == Color::always;
  const char* no_color = std::getenv("NO_COLOR");  // no-color.org: set and not empty
  const char* term = std::getenv("TERM");
  return terminal && (no_color == nullptr || *no_color == '\0') &&
         (term == nullptr || std::string_view(term) != "dumb");
}

}  // namespace

Output::Output(std::FILE* stream, Color color, Kind kind)
    : stream_(stream),
      terminal_(::isatty(::fileno(stream)) == 1),
      colored_(wants_color(color, terminal_)),
      replaces_(kind == Kind::replaced) {}

// A pipe that can be written to has room for a page.
size_t Output::room() const {
  constexpr size_t kPage = 4096, kAtOnce = 65536;
  struct stat status = {};
  const int descriptor = ::fileno(stream_);
  if (::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)) return kAtOnce;
  pollfd writable = {descriptor, POLLOUT, 0};
  return ::poll(&writable, 1, 0) > 0 ? kPage : 0;
}

void Output::give_up() {
  gave_up_ = true;
  if (error_ == 0) error_ = EPIPE;
}

void Output::write(std::string_view text) {
  if (gave_up_) return;
  // Only a regular file can, and needs to, be shortened.
  if (std::exchange(replaces_, false) && ::ftruncate(::fileno(stream_), 0) != 0 &&
      errno != EINVAL && error_ == 0)
    error_ = errno;
  const std::string clean = terminal_ ? printable_lines(text, colored_) : std::string();
  if (terminal_) text = clean;
  if (std::fwrite(text.data(), 1, text.size(), stream_) != text.size() && error_ == 0)
    error_ = errno;
}

void Output::flush() {
  if (std::fflush(stream_) != 0 && error_ == 0) error_ = errno;
}

int Output::columns() const {
  winsize size = {};
  constexpr int kUsual = 80;
  if (!terminal_ || ::ioctl(::fileno(stream_), TIOCGWINSZ, &size) != 0 || size.ws_col < 40)
    return kUsual;
  return size.ws_col;
}

Styled Output::styled(std::string_view text, const fmt::text_style& style) const {
  const std::string clean = printable(text, true);
  return {colored_ ? fmt::format(style, "{}", clean) : clean};
}

struct Progress::State {
  Task* task = nullptr;
  int interrupts = -1;
  bool shows = false;
  Fd done;
  std::thread thread;

  void watch();
};

void Progress::State::watch() {
  constexpr uint64_t kFirst = 500'000'000, kNext = 100'000'000;
  uint64_t next = shows ? monotonic_ns() + kFirst : UINT64_MAX;
  bool shown = false;
  for (;;) {
    std::array<pollfd, 2> descriptors = {pollfd{done.get(), POLLIN, 0},
                                         pollfd{interrupts, POLLIN, 0}};
    const uint64_t now = monotonic_ns();
    const int timeout_ms =
        next == UINT64_MAX ? -1 : static_cast<int>((next - std::min(now, next)) / 1'000'000);
    ::poll(descriptors.data(), descriptors.size(), timeout_ms);
    if (descriptors[0].revents != 0) break;
    if (descriptors[1].revents != 0) {
      task->cancel();
      interrupts = -1;
    }
    if (monotonic_ns() < next) continue;
    next = monotonic_ns() + kNext;
    shown = true;
    const Task::Progress at = task->progress();
    const std::string line = task->is_cancelled() ? std::string("stopping")
                             : at.step == nullptr ? std::string("reading symbols")
                             : at.total == 0
                                 ? std::string(at.step)
                                 : fmt::format("{} {} of {} {}", at.step, with_commas(at.done),
                                               with_commas(at.total), at.unit);
    std::fprintf(stderr, "\r\033[K%s...", line.c_str());
    std::fflush(stderr);
  }
  if (shown) std::fputs("\r\033[K", stderr);
}

Progress::Progress(Task& task, bool enabled, int interrupts) {
  const bool shows = enabled && ::isatty(STDERR_FILENO) == 1;
  if (!shows && interrupts < 0) return;
  state_ = std::make_unique<State>();
  state_->task = &task;
  state_->interrupts = interrupts;
  state_->shows = shows;
  state_->done = Fd(::eventfd(0, EFD_CLOEXEC));
  // If a signal has arrived already, cancel without waiting for the thread.
  pollfd pending = {interrupts, POLLIN, 0};
  if (::poll(&pending, 1, 0) == 1) task.cancel();
  state_->thread = std::thread([state = state_.get()] { state->watch(); });
}

Progress::~Progress() {
  if (!state_) return;
  ::eventfd_write(state_->done.get(), 1);
  state_->thread.join();
}

}  // namespace pinprick::cli
