#include "base/file_version.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/clock.h"

namespace pinprick {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kSettledNs = 2 * kSecond;

// On a tmpfs, a page that was read through a mapping is written without another fault. A network's
// files change elsewhere.
bool notes_all_changes(int fd) {
  constexpr auto kXfs = 0x58465342;
  struct statfs status = {};
  if (::fstatfs(fd, &status) != 0) return false;
  return status.f_type == EXT4_SUPER_MAGIC || status.f_type == BTRFS_SUPER_MAGIC ||
         status.f_type == kXfs;
}

// One who opens the file for writing meanwhile waits until the lease is given back, and we get a
// signal: not SIGIO, which would end us, but one that does nothing.
bool has_no_writer(int fd) {
  if (::fcntl(fd, F_SETSIG, SIGURG) != 0 || ::fcntl(fd, F_SETLEASE, F_RDLCK) != 0) return false;
  ::fcntl(fd, F_SETLEASE, F_UNLCK);
  return true;
}

}  // namespace

std::optional<FileVersion> version_of(int fd) {
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return std::nullopt;
  return FileVersion{status.st_dev, status.st_ino, static_cast<uint64_t>(status.st_size),
                     status.st_ctim.tv_sec, status.st_ctim.tv_nsec};
}

bool is_settled(int fd, const FileVersion& version) {
  const uint64_t changed_ns = static_cast<uint64_t>(version.changed_s) * kSecond +
                              static_cast<uint64_t>(version.changed_ns);
  if (changed_ns + kSettledNs > realtime_ns()) return false;
  // After that: what was written before the lease has changed the version.
  return notes_all_changes(fd) && has_no_writer(fd) && version_of(fd) == version;
}

}  // namespace pinprick
