#include "cli/trace_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/fd.h"
#include "export/ctf.h"

namespace pinprick::cli {

int make_trace_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) return errno;
  std::error_code error;
  for (std::filesystem::directory_iterator next(path, error), end; !error && next != end;
       next.increment(error)) {
    const std::string name = next->path().filename();
    if (name != exports::kCtfMetadata && name != exports::kCtfStream) return ENOTEMPTY;
  }
  if (error) return error.value();
  for (const std::string_view name : {exports::kCtfMetadata, exports::kCtfStream}) {
    const std::string file = path + "/" + std::string(name);
    if (const Fd made(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666)); !made)
      return errno;
  }
  return 0;
}

}  // namespace pinprick::cli
