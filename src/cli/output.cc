#include "cli/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

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

Output::Output(std::FILE* stream, Color color)
    : stream_(stream),
      terminal_(::isatty(::fileno(stream)) == 1),
      colored_(wants_color(color, terminal_)) {}

void Output::write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stream_) != text.size()) broken_ = true;
}

void Output::flush() {
  if (std::fflush(stream_) != 0) broken_ = true;
}

int Output::columns() const {
  winsize size = {};
  constexpr int kUsual = 80;
  if (!terminal_ || ::ioctl(::fileno(stream_), TIOCGWINSZ, &size) != 0 || size.ws_col < 40)
    return kUsual;
  return size.ws_col;
}

std::string Output::styled(std::string_view text, const fmt::text_style& style) const {
  return colored_ ? fmt::format(style, "{}", text) : std::string(text);
}

struct Progress::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  bool shown = false;
  std::thread thread;
};

Progress::Progress(std::string text, bool enabled) {
  if (!enabled || ::isatty(STDERR_FILENO) != 1) return;
  state_ = new State;
  state_->thread = std::thread([state = state_, text = std::move(text)] {
    std::unique_lock lock(state->mutex);
    if (state->changed.wait_for(lock, std::chrono::milliseconds(500),
                                [state] { return state->done; }))
      return;
    state->shown = true;
    std::fprintf(stderr, "%s...", text.c_str());
    std::fflush(stderr);
  });
}

Progress::~Progress() {
  if (state_ == nullptr) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->done = true;
  }
  state_->changed.notify_one();
  state_->thread.join();
  if (state_->shown) std::fputs("\r\033[K", stderr);
  delete state_;
}

}  // namespace pinprick::cli
