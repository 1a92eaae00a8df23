#include "base/cache_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <memory>

namespace pinprick {
namespace {

constexpr const char* kKeyFile = "key";
constexpr const char* kUnfinished = ".new-";
constexpr int64_t kLongAgo = 3600;  // seconds; times of last use are no more exact than this

bool is_ours_alone(const struct stat& status) {
  return status.st_uid == ::geteuid() && (status.st_mode & 077) == 0;
}

std::string folder_above(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos || slash == 0 ? std::string() : path.substr(0, slash);
}

}  // namespace

std::optional<std::string> user_cache_path(const std::string& name) {
  const char* const xdg = ::secure_getenv("XDG_CACHE_HOME");
  if (xdg != nullptr && *xdg == '/') return std::string(xdg) + "/" + name;
  if (::geteuid() == 0) return "/var/cache/" + name;
  const char* const home = ::secure_getenv("HOME");
  if (home != nullptr && *home == '/') return std::string(home) + "/.cache/" + name;
  return std::nullopt;
}

std::optional<CacheFolder> CacheFolder::open(const std::string& path, uint64_t most) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  Fd folder(::open(path.c_str(), kFlags));
  if (!folder) {
    if (const std::string above = folder_above(path); !above.empty()) ::mkdir(above.c_str(), 0700);
    if (::mkdir(path.c_str(), 0700) != 0) return std::nullopt;
    folder = Fd(::open(path.c_str(), kFlags));
  }
  struct stat status = {};
  if (!folder || ::fstat(folder.get(), &status) != 0 || status.st_uid != ::geteuid())
    return std::nullopt;
  // With rights, other users may have renamed files there or added their own: names alone are not
  // trusted.
  if ((status.st_mode & 07777) != 0700 && ::fchmod(folder.get(), 0700) != 0) return std::nullopt;
  CacheFolder opened(std::move(folder), most);
  if (!opened.read_key()) return std::nullopt;
  return opened;
}

bool CacheFolder::read_key() {
  const auto read_it = [&] {
    const auto bytes = read(kKeyFile);
    if (!bytes || bytes->size() != HashKey::kBytes) return false;
    key_ = HashKey::from(std::span<const uint8_t, HashKey::kBytes>(*bytes));
    return true;
  };
  if (read_it()) return true;
  std::array<uint8_t, HashKey::kBytes> fresh{};
  if (::getentropy(fresh.data(), 256) != 0) return false;
  for (size_t at = 256; at < fresh.size(); at += 256)
    if (::getentropy(fresh.data() + at, std::min<size_t>(256, fresh.size() - at)) != 0)
      return false;
  write(kKeyFile, fresh);
  return read_it();  // which the last writer's file has
}

std::optional<std::vector<uint8_t>> CacheFolder::read(const std::string& name) const {
  const Fd file(::openat(folder_.get(), name.c_str(),
                         O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat status = {};
  if (!file) {
    if (errno != ENOENT) remove(name);
    return std::nullopt;
  }
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || !is_ours_alone(status) ||
      status.st_nlink != 1 || static_cast<uint64_t>(status.st_size) > kMostOfOne) {
    remove(name);
    return std::nullopt;
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(status.st_size));
  if (!read_at(file.get(), bytes, 0)) return std::nullopt;
  if (status.st_mtime < ::time(nullptr) - kLongAgo) ::futimens(file.get(), nullptr);
  return bytes;
}

void CacheFolder::write(const std::string& name, std::span<const uint8_t> bytes) const {
  static std::atomic<unsigned> number = 0;
  struct rlimit limit = {};
  // A write beyond the limit may kill the process.
  if (bytes.size() > kMostOfOne || bytes.size() > most_ || ::getrlimit(RLIMIT_FSIZE, &limit) != 0 ||
      bytes.size() > limit.rlim_cur)
    return;
  const std::string unfinished =
      kUnfinished + std::to_string(::getpid()) + "-" + std::to_string(number++);
  ::unlinkat(folder_.get(), unfinished.c_str(), 0);  // of an earlier process with this PID
  const Fd file(::openat(folder_.get(), unfinished.c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return;
  const bool written = ::fchmod(file.get(), 0600) == 0 && write_at(file.get(), bytes, 0).ok();
  if (!written || ::renameat(folder_.get(), unfinished.c_str(), folder_.get(), name.c_str()) != 0)
    ::unlinkat(folder_.get(), unfinished.c_str(), 0);
}

void CacheFolder::remove(const std::string& name) const {
  if (::unlinkat(folder_.get(), name.c_str(), 0) != 0 && errno == EISDIR)
    ::unlinkat(folder_.get(), name.c_str(), AT_REMOVEDIR);
}

void CacheFolder::trim() const {
  struct Entry {
    int64_t used = 0;
    uint64_t size = 0;
    std::string name;
  };
  const int copy = ::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::fdopendir(copy), &::closedir);
  if (!list) {
    ::close(copy);
    return;
  }
  const int64_t long_ago = ::time(nullptr) - kLongAgo;
  std::vector<Entry> entries;
  uint64_t sum = 0;
  while (const dirent* const one = ::readdir(list.get())) {
    Entry entry = {0, 0, one->d_name};
    struct stat status = {};
    if (entry.name == "." || entry.name == ".." || entry.name == kKeyFile ||
        ::fstatat(folder_.get(), one->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    entry.used = status.st_mtime;
    entry.size = static_cast<uint64_t>(status.st_blocks) * 512;
    if (entry.name.starts_with(kUnfinished) && entry.used < long_ago) {
      remove(entry.name);
      continue;
    }
    sum += entry.size;
    entries.push_back(std::move(entry));
  }
  if (sum <= most_) return;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (sum <= most_ / 4 * 3) break;
    remove(entry.name);
    sum -= entry.size;
  }
}

}  // namespace pinprick
