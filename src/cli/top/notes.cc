#include "cli/top/notes.h"

#include <new>

namespace pinprick::cli::top {

Notes::Notes() : stream_(nullptr, &std::fclose) {
  const cookie_io_functions_t functions = {nullptr, &Notes::write, nullptr, nullptr};
  stream_.reset(::fopencookie(this, "w", functions));
  if (!stream_) throw std::bad_alloc();
  std::setvbuf(stream_.get(), nullptr, _IONBF, 0);
}

Notes::~Notes() {
  release();
}

ssize_t Notes::write(void* notes, const char* bytes, size_t size) {
  auto& self = *static_cast<Notes*>(notes);
  if (self.keeps_)
    self.kept_.append(bytes, size);
  else
    std::fwrite(bytes, 1, size, stderr);
  return static_cast<ssize_t>(size);
}

void Notes::release() {
  keeps_ = false;
  std::fputs(kept_.c_str(), stderr);
  kept_.clear();
  taken_ = 0;
}

std::string Notes::take_last_line() {
  const size_t end = kept_.rfind('\n');
  if (end == std::string::npos || end + 1 <= taken_) return "";
  taken_ = end + 1;
  const size_t before = end == 0 ? std::string::npos : kept_.rfind('\n', end - 1);
  const size_t start = before == std::string::npos ? 0 : before + 1;
  return kept_.substr(start, end - start);
}

}  // namespace pinprick::cli::top
