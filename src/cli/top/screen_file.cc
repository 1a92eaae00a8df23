#include "cli/top/screen_file.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace pinprick::cli::top {
namespace {

std::string folder() {
  char path[PATH_MAX];
  return ::getcwd(path, sizeof path) == nullptr ? "." : path;
}

// Never writes into a file that is there: the folder may belong to others.
Fd create(const std::string& path) {
  return Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t size = ::write(fd, text.data(), text.size());
    if (size < 0) return false;
    text.remove_prefix(static_cast<size_t>(size));
  }
  return true;
}

}  // namespace

Result<std::string, ScreenFileError> write_screen(const std::vector<Line>& lines) {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  ::localtime_r(&now, &local);
  const std::string base = fmt::format("{}/pinprick-top-{:%Y%m%d-%H%M%S}", folder(), local);
  std::string path = base + ".txt";
  Fd file = create(path);
  constexpr int kMostInASecond = 100;
  for (int i = 2; !file && errno == EEXIST && i < kMostInASecond; ++i) {
    path = fmt::format("{}-{}.txt", base, i);
    file = create(path);
  }
  if (!file) return fail(ScreenFileError{path, {errno}});
  std::string text;
  for (const Line& line : lines) text += text_of(line) + "\n";
  if (!write_all(file.get(), text)) return fail(ScreenFileError{path, {errno}});
  return path;
}

}  // namespace pinprick::cli::top
