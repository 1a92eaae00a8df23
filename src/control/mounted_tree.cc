#include "control/mounted_tree.h"

#define FUSE_USE_VERSION 35
#include <fcntl.h>
#include <fuse.h>
#include <fuse_lowlevel.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <new>

#include "base/clock.h"
#include "base/fd.h"

namespace pinprick::control {
namespace {

FileTree& tree() {
  return *static_cast<FileTree*>(fuse_get_context()->private_data);
}

pid_t caller() {
  return fuse_get_context()->pid;
}

// libfuse is C: no exception may pass through it.
template <class F>
int guarded(F&& operation) {
  try {
    return operation();
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }
}

void* begin(fuse_conn_info* /*connection*/, fuse_config* config) {
  // What a statistic says, and which there are, changes without a word to the kernel: it must not
  // remember any of it, nor take the size that it saw for the end of the text.
  config->attr_timeout = config->entry_timeout = config->negative_timeout = 0;
  config->direct_io = 1;
  // A removed statistic may still be open: its file is known by its handle, not by its path.
  config->hard_remove = 1;
  config->nullpath_ok = 1;
  return fuse_get_context()->private_data;
}

// libfuse gives no path if it gives a handle (nullpath_ok).
int get_attributes(const char* path, struct stat* out, fuse_file_info* file) {
  return guarded([&] {
    return file != nullptr ? tree().attributes(file->fh, *out)
                           : tree().attributes(std::string_view(path), *out);
  });
}

std::string* folder_of(const fuse_file_info* file) {
  return reinterpret_cast<std::string*>(file->fh);
}

int open_folder(const char* path, fuse_file_info* file) {
  return guarded([&] {
    file->fh = reinterpret_cast<uint64_t>(new std::string(path));
    return 0;
  });
}

int read_folder(const char* /*path*/, void* buffer, fuse_fill_dir_t fill, off_t /*offset*/,
                fuse_file_info* file, fuse_readdir_flags /*flags*/) {
  return guarded([&] {
    std::vector<std::string> names = {".", ".."};
    const int error = tree().list(*folder_of(file), names);
    if (error != 0) return error;
    for (const std::string& name : names)
      if (fill(buffer, name.c_str(), nullptr, 0, fuse_fill_dir_flags{}) != 0) return -ENOMEM;
    return 0;
  });
}

int release_folder(const char* /*path*/, fuse_file_info* file) {
  delete folder_of(file);
  return 0;
}

int open_node(const char* path, fuse_file_info* file) {
  return guarded([&] {
    FileTree::Handle handle = 0;
    const int error = tree().open(path, file->flags, handle);
    file->fh = handle;
    return error;
  });
}

int read_file_at(const char* /*path*/, char* out, size_t size, off_t offset, fuse_file_info* file) {
  return guarded([&] { return tree().read(file->fh, {out, size}, static_cast<uint64_t>(offset)); });
}

int write_file(const char* /*path*/, const char* bytes, size_t size, off_t /*offset*/,
               fuse_file_info* file) {
  return guarded([&] { return tree().write(file->fh, {bytes, size}, caller()); });
}

int flush_file(const char* /*path*/, fuse_file_info* file) {
  return guarded([&] { return tree().flush(file->fh, caller()); });
}

int release_file(const char* /*path*/, fuse_file_info* file) {
  tree().release(file->fh);
  return 0;
}

int remove_file(const char* path) {
  return guarded([&] { return tree().remove(path, caller()); });
}

int truncate_file(const char* path, off_t /*size*/, fuse_file_info* file) {
  if (file != nullptr) return 0;
  return guarded([&] { return tree().truncate(path); });
}

// Statistics are created by a trace. `echo START > NAME` of one that is not there gets here, too.
int create_file(const char* /*path*/, mode_t /*mode*/, fuse_file_info* /*file*/) {
  return -ENOENT;
}

fuse_operations operations() {
  fuse_operations all = {};
  all.init = begin;
  all.getattr = get_attributes;
  all.opendir = open_folder;
  all.readdir = read_folder;
  all.releasedir = release_folder;
  all.open = open_node;
  all.read = read_file_at;
  all.write = write_file;
  all.flush = flush_file;
  all.release = release_file;
  all.unlink = remove_file;
  all.truncate = truncate_file;
  all.create = create_file;
  // Without these, the errors would be "Function not implemented".
  all.mkdir = [](const char*, mode_t) { return -EPERM; };
  all.rmdir = [](const char*) { return -EPERM; };
  all.rename = [](const char*, const char*, unsigned) { return -EPERM; };
  all.symlink = [](const char*, const char*) { return -EPERM; };
  all.link = [](const char*, const char*) { return -EPERM; };
  all.chmod = [](const char*, mode_t, fuse_file_info*) { return -EPERM; };
  all.chown = [](const char*, uid_t, gid_t, fuse_file_info*) { return -EPERM; };
  return all;
}

// Collects what is written to standard error, by child processes as well.
class CapturedErrors {
 public:
  CapturedErrors()
      : captured_(::memfd_create("errors", MFD_CLOEXEC)),
        before_(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)) {
    if (captured_ && before_) ::dup2(captured_.get(), STDERR_FILENO);
  }
  ~CapturedErrors() { restore(); }
  CapturedErrors(const CapturedErrors&) = delete;
  CapturedErrors& operator=(const CapturedErrors&) = delete;

  // Ends collecting, and returns the last line.
  std::string last_line() {
    restore();
    if (!captured_ || ::lseek(captured_.get(), 0, SEEK_SET) != 0) return {};
    auto text = read_all(captured_.get());
    if (!text) return {};
    while (text->ends_with('\n')) text->pop_back();
    const size_t newline = text->rfind('\n');
    return newline == text->npos ? *text : text->substr(newline + 1);
  }

 private:
  void restore() {
    if (captured_ && before_) ::dup2(before_.get(), STDERR_FILENO);
    before_.reset();
  }
  Fd captured_, before_;
};

// Returns whether the folder is the root of a FUSE file system.
bool is_fuse_root(const char* folder, const struct stat& status) {
  struct statfs file_system = {};
  return status.st_ino == FUSE_ROOT_ID && ::statfs(folder, &file_system) == 0 &&
         file_system.f_type == FUSE_SUPER_MAGIC;
}

// Unmounting must find the folder, wherever the process is then.
std::string absolute(const std::string& folder) {
  const std::unique_ptr<char, decltype(&std::free)> path(::realpath(folder.c_str(), nullptr),
                                                         &std::free);
  return path ? path.get() : folder;
}

// Does the path of the folder `from` lead through the folder `through`, or to it?
bool leads_through(const std::string& from, const struct stat& through) {
  for (std::filesystem::path path = from;; path = path.parent_path()) {
    struct stat there = {};
    if (::stat(path.c_str(), &there) == 0 && there.st_dev == through.st_dev &&
        there.st_ino == through.st_ino)
      return true;
    if (!path.has_relative_path()) return false;
  }
}

// The same, by any of its names: with links in it, and without.
bool is_reached_through(const std::string& folder, const struct stat& through) {
  std::error_code error;
  const auto real = std::filesystem::weakly_canonical(folder, error);
  return leads_through(folder, through) || (!error && leads_through(real, through));
}

// The one thread of the server would wait for itself when it looks into a folder that it serves,
// and a wait in the kernel cannot be interrupted. So the tree is not mounted in, on, or above a
// folder that it reads. Returns such a folder, or nullptr. A folder that is a link is none: it is
// not followed, and any user may make one.
const std::string* own_folder_at(const std::string& mounted, const struct stat& status,
                                 const std::vector<std::string>& own_folders) {
  for (const std::string& own : own_folders) {
    struct stat there = {};
    const bool is_there = ::lstat(own.c_str(), &there) == 0 && S_ISDIR(there.st_mode);
    if (is_reached_through(std::filesystem::path(own).parent_path(), status) ||
        (is_there && is_reached_through(mounted, there)))
      return &own;
  }
  return nullptr;
}

Result<void, MountError> check_folder(const std::string& folder,
                                      const std::vector<std::string>& own_folders) {
  using Cause = MountError::Cause;
  struct stat status = {};
  if (::stat(folder.c_str(), &status) != 0)
    return fail(MountError{errno == ENOTCONN ? Cause::stale : Cause::no_folder, folder, errno, {}});
  if (!S_ISDIR(status.st_mode)) return fail(MountError{Cause::no_folder, folder, ENOTDIR, {}});
  if (is_fuse_root(folder.c_str(), status)) return fail(MountError{Cause::mounted, folder, 0, {}});
  if (const std::string* own = own_folder_at(absolute(folder), status, own_folders))
    return fail(MountError{Cause::own_folder, folder, 0, *own});
  return {};
}

}  // namespace

Result<std::unique_ptr<MountedTree>, MountError> MountedTree::mount(
    FileTree& tree, const std::string& folder, const std::vector<std::string>& own_folders) {
  using Cause = MountError::Cause;
  if (auto checked = check_folder(folder, own_folders); !checked) return fail(checked.error());
  if (const Fd device(::open("/dev/fuse", O_RDWR | O_CLOEXEC)); !device)
    return fail(MountError{Cause::no_fuse, folder, errno, {}});

  CapturedErrors errors;
  char name[] = "pinprick", option[] = "-ofsname=pinprick,subtype=pinprick";
  char* arguments[] = {name, option, nullptr};
  fuse_args args = FUSE_ARGS_INIT(2, arguments);
  const fuse_operations all = operations();
  struct fuse* fuse = fuse_new(&args, &all, sizeof all, &tree);
  fuse_opt_free_args(&args);
  if (fuse != nullptr && fuse_mount(fuse, absolute(folder).c_str()) == 0)
    return std::unique_ptr<MountedTree>(new MountedTree(fuse));
  if (fuse != nullptr) fuse_destroy(fuse);
  return fail(MountError{Cause::refused, folder, 0, errors.last_line()});
}

MountedTree::~MountedTree() {
  fuse_unmount(fuse_);
  fuse_destroy(fuse_);
}

void MountedTree::serve(int interrupt, const std::function<void()>& meanwhile) {
  constexpr uint64_t kPeriodNs = 10'000'000, kMillisecondNs = 1'000'000;
  fuse_session* session = fuse_get_session(fuse_);
  const int requests = fuse_session_fd(session);
  // A request may be taken back between poll() and read().
  ::fcntl(requests, F_SETFL, ::fcntl(requests, F_GETFL) | O_NONBLOCK);
  fuse_buf buffer = {};
  uint64_t next = 0;
  while (fuse_session_exited(session) == 0) {
    const uint64_t now = monotonic_ns();
    if (now >= next) {
      meanwhile();
      next = monotonic_ns() + kPeriodNs;
      continue;
    }
    pollfd ready[] = {{requests, POLLIN, 0}, {interrupt, POLLIN, 0}};
    const auto timeout = static_cast<int>((next - now + kMillisecondNs - 1) / kMillisecondNs);
    if (::poll(ready, std::size(ready), timeout) <= 0) continue;
    if (ready[1].revents != 0) break;
    const int size = fuse_session_receive_buf(session, &buffer);
    if (size > 0)
      fuse_session_process_buf(session, &buffer);
    else if (size != -EINTR && size != -EAGAIN)
      break;  // unmounted
  }
  std::free(buffer.mem);
}

}  // namespace pinprick::control
