#include "ledger/runtime_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "layout/recorded_file.h"
#include "layout/session_file.h"
#include "ledger/turn.h"

namespace pinprick::ledger {
namespace {

using layout::kFileSuffix;

struct Candidate {
  std::string path;
  bool is_last_resort = false;  // taken on any file system, where no other is on a tmpfs
  bool is_shared = false;       // any user can make a folder beside it
};

std::vector<Candidate> candidates() {
  std::vector<Candidate> found;
  const uid_t user = ::geteuid();
  if (const char* xdg = ::secure_getenv("XDG_RUNTIME_DIR"); xdg != nullptr && *xdg == '/')
    found.push_back({.path = std::string(xdg) + "/pinprick", .is_last_resort = true});
  if (user == 0) found.push_back({.path = "/run/pinprick"});
  found.push_back({.path = fmt::format("/run/user/{}/pinprick", user)});
  for (const char* folder : {"/dev/shm", "/tmp"})
    found.push_back({.path = fmt::format("{}/pinprick-{}", folder, user),
                     .is_last_resort = true,
                     .is_shared = true});
  return found;
}

// Makes the folder if it is not there. Returns 0, or an errno: the folder must be this user's, with
// no access for others, no symbolic link, and on no file system that is mounted read-only.
int prepare(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return errno;
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) return errno;
  if (!S_ISDIR(status.st_mode)) return ENOTDIR;
  if (status.st_uid != ::geteuid() || (status.st_mode & 077) != 0) return EPERM;
  return ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0 ? 0 : errno;
}

bool on_tmpfs(const std::string& path) {
  struct statfs status = {};
  return ::statfs(path.c_str(), &status) == 0 && status.f_type == TMPFS_MAGIC;
}

// Calls `take` with each name in the folder that starts with the prefix, but for . and ..; with
// none if it cannot be read. Each attach looks through all folders.
template <typename Take>
void for_each_name(const std::string& folder, std::string_view prefix, const Take& take) {
  // No link: it would lead to files that are none of ours.
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::fdopendir(fd), &::closedir);
  if (!open) {
    ::close(fd);
    return;
  }
  while (const dirent* entry = ::readdir(open.get()))
    if (const std::string_view name = entry->d_name;
        name.starts_with(prefix) && name != "." && name != "..")
      take(name);
}

std::vector<std::string> find_files(std::string_view suffix, std::optional<pid_t> pid) {
  const std::string prefix = pid ? fmt::format("{}-", *pid) : std::string();
  std::vector<std::string> folders = searched_folders();
  // One folder may have several names: with a slash at its end, or by a link above it.
  std::set<std::pair<dev_t, ino_t>> seen;
  std::erase_if(folders, [&](const std::string& folder) {
    struct stat there = {};
    return ::lstat(folder.c_str(), &there) != 0 || !seen.emplace(there.st_dev, there.st_ino).second;
  });

  std::vector<std::string> files;
  for (const std::string& folder : folders)
    for_each_name(folder, prefix, [&](auto name) {
      if (name.ends_with(suffix)) files.push_back(fmt::format("{}/{}", folder, name));
    });
  std::sort(files.begin(), files.end());
  return files;
}

// The session files of the process that was last looked at in a turn.
struct KnownFiles {
  std::mutex mutex;
  uint64_t turn = 0;
  pid_t pid = 0;
  std::vector<std::string> paths;
};
KnownFiles& known_files() {
  static KnownFiles known;
  return known;
}

// In a folder that all users share, any of them can have made the one with our name first. Then
// ours has a name that cannot be foreseen.
Result<std::string, SystemError> prepare_another(const std::string& taken) {
  const std::string parent = std::filesystem::path(taken).parent_path();
  std::string found;
  for_each_name(parent, std::filesystem::path(taken).filename().string() + "-", [&](auto name) {
    const std::string path = fmt::format("{}/{}", parent, name);
    struct stat there = {};
    if (::lstat(path.c_str(), &there) == 0 && there.st_uid == ::geteuid() && prepare(path) == 0)
      found = path;
  });
  if (!found.empty()) return found;
  std::string path = taken + "-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return fail(SystemError{errno});
  return path;
}

}  // namespace

Result<std::string, SystemError> runtime_directory() {
  int error = ENOENT;
  const auto all = candidates();
  for (const bool on_any : {false, true})
    for (const auto& [path, is_last_resort, is_shared] : all) {
      if (on_any ? !is_last_resort : !on_tmpfs(std::filesystem::path(path).parent_path())) continue;
      const int failed = prepare(path);
      if (failed == 0) return path;
      if (is_shared && (failed == EPERM || failed == ENOTDIR))
        if (auto another = prepare_another(path)) return another;
      // A folder that is there, and refused, says more than one that is missing.
      if (error == ENOENT) error = failed;
    }
  return fail(SystemError{error});
}

std::vector<std::string> searched_folders() {
  std::vector<std::string> folders;
  for (Candidate& candidate : candidates()) folders.push_back(std::move(candidate.path));
  // Where there is a /dev/shm, no session is in /tmp, which may have very many files.
  const char* const shared = ::access("/dev/shm", X_OK) == 0 ? "/dev/shm" : "/tmp";
  for_each_name(shared, "pinprick-",
                [&](auto name) { folders.push_back(fmt::format("{}/{}", shared, name)); });
  for_each_name("/run/user", "",
                [&](auto name) { folders.push_back(fmt::format("/run/user/{}/pinprick", name)); });
  return folders;
}

std::vector<std::string> find_session_files(std::optional<pid_t> pid) {
  const uint64_t turn = pid ? Turn::number_of(*pid) : 0;
  if (turn == 0) return find_files(kFileSuffix, pid);
  KnownFiles& known = known_files();
  const std::lock_guard lock(known.mutex);
  if (known.turn != turn) {
    known.paths = find_files(kFileSuffix, pid);
    known.turn = turn;
    known.pid = *pid;
  }
  return known.paths;
}

void note_no_session_files(pid_t pid) {
  const uint64_t turn = Turn::number_of(pid);
  if (turn == 0) return;
  KnownFiles& known = known_files();
  const std::lock_guard lock(known.mutex);
  known.paths.clear();
  known.turn = turn;
  known.pid = pid;
}

void note_session_file(const std::string& path) {
  const auto named = process_named(path);
  KnownFiles& known = known_files();
  const std::lock_guard lock(known.mutex);
  if (!named || named->pid != known.pid) return;
  known.paths.insert(std::lower_bound(known.paths.begin(), known.paths.end(), path), path);
}

void forget_session_file(const std::string& path) {
  KnownFiles& known = known_files();
  const std::lock_guard lock(known.mutex);
  std::erase(known.paths, path);
}

std::vector<std::string> find_recorded_files(std::optional<pid_t> pid) {
  return find_files(layout::kRecordedSuffix, pid);
}

std::string session_file_name(pid_t pid, uint64_t start_time, unsigned number) {
  return number == 0 ? fmt::format("{}-{}{}", pid, start_time, kFileSuffix)
                     : fmt::format("{}-{}-{}{}", pid, start_time, number, kFileSuffix);
}

std::optional<NamedProcess> process_named(const std::string& path) {
  const std::string name = std::filesystem::path(path).stem();
  NamedProcess process;
  const char* const end = name.data() + name.size();
  const auto pid = std::from_chars(name.data(), end, process.pid);
  if (pid.ec != std::errc{} || pid.ptr == end || *pid.ptr != '-') return std::nullopt;
  const auto start = std::from_chars(pid.ptr + 1, end, process.start_time);
  if (start.ec != std::errc{} || (start.ptr != end && *start.ptr != '-')) return std::nullopt;
  return process;
}

bool names_process(const std::string& path, pid_t pid, uint64_t start_time) {
  const std::string name = std::filesystem::path(path).stem();
  const std::string process = fmt::format("{}-{}", pid, start_time);
  return name == process || name.starts_with(process + "-");
}

}  // namespace pinprick::ledger
