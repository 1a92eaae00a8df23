#include "ledger/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

namespace pinprick::ledger {

Result<NewFile, SystemError> make_new_file(const char* folder, const char* path) {
  Fd unnamed(::open(folder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600));
  if (unnamed) return NewFile{std::move(unnamed), false};
  Fd named(::open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!named) return fail(SystemError{errno});
  return NewFile{std::move(named), true};
}

Result<void, SystemError> name_file(int descriptor, const char* path) {
  // Through /proc, since AT_EMPTY_PATH needs a capability.
  char self[64] = {};
  fmt::format_to_n(self, sizeof self - 1, "/proc/self/fd/{}", descriptor);
  if (::linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) != 0)
    return fail(SystemError{errno});
  return {};
}

}  // namespace pinprick::ledger
