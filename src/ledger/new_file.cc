#include "ledger/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace pinprick::ledger {

Result<NewFile, SystemError> make_new_file(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  auto unnamed = open_file(folder, O_RDWR | O_TMPFILE, 0600);
  if (unnamed) return NewFile{*std::move(unnamed), false};
  auto named = open_file(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (!named) return fail(named.error());
  return NewFile{*std::move(named), true};
}

Result<void, SystemError> name_file(int descriptor, const std::string& path) {
  // Through /proc, since AT_EMPTY_PATH needs a capability.
  const std::string self = "/proc/self/fd/" + std::to_string(descriptor);
  if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) != 0)
    return fail(SystemError{errno});
  return {};
}

}  // namespace pinprick::ledger
