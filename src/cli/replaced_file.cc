#include "cli/replaced_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>

#include "base/fd.h"

namespace pinprick::cli {
namespace {

// Readers of a folder take the files whose names have the right end.
std::string temporary_name(const std::string& path) {
  return path + "." + std::to_string(::getpid());
}

int write_whole(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

int write_new(const std::string& path, std::string_view text) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file) return errno;
  return write_whole(file.get(), text);
}

}  // namespace

int replace_file(const std::string& path, std::string_view text) {
  const std::string temporary = temporary_name(path);
  int error = write_new(temporary, text);
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0 && error != EEXIST) ::unlink(temporary.c_str());
  return error;
}

int why_not_replaceable(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return EISDIR;
  const std::string temporary = temporary_name(path);
  const int error = write_new(temporary, "");
  if (error == 0) ::unlink(temporary.c_str());
  return error;
}

}  // namespace pinprick::cli
