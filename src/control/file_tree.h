// The files through which the statistics of processes are read and changed, as debugfs shows
// kstats:
//
//     PID/_control     reading: the names of all statistics. Writing: commands, one a line
//     PID/NAME         reading: the text. Writing: START, STOP or RESET. Removing it removes NAME
//
// The operations of a file system on paths, without the file system: control/mounted_tree.h has
// that. Paths begin with '/'. Each operation returns 0 or more, or -errno as read(2) and its like
// set it. Called by one thread. A trace takes as long as Statistics::run(), and all others wait
// meanwhile.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "control/statistics.h"

namespace pinprick::control {

class FileTree {
 public:
  using Handle = uint64_t;
  // Gets a line for each command that failed, as its writer sees only errno.
  using Complain = std::function<void(const std::string& line)>;

  // A longer command is refused with EINVAL.
  static constexpr size_t kMaxLine = 4096;

  // With `only`, there are no other processes than these.
  FileTree(Processes& processes, std::vector<pid_t> only, Complain complain);
  ~FileTree();
  FileTree(const FileTree&) = delete;
  FileTree& operator=(const FileTree&) = delete;

  // Fills in what stat(2) says. The size of a file is that of the text that was opened last, while
  // it is open, and else that of the text now. Times are when the figures changed (mtime), and when
  // the statistic was created (atime, ctime).
  int attributes(std::string_view path, struct stat& out);
  // The same of an open file, as it was when it was opened. The size is that of its own text.
  int attributes(Handle handle, struct stat& out);
  // Appends the names of a folder's entries.
  int list(std::string_view path, std::vector<std::string>& names);

  // Opens a file. What is read from it is the text of this moment.
  int open(std::string_view path, int flags, Handle& handle);
  // Returns how many bytes it has copied; 0 at the end.
  int read(Handle handle, std::span<char> out, uint64_t offset);
  // Runs the first complete line, and returns how many bytes it took, as write(2) may: the next
  // call has the next line. So a command has failed exactly if its write has. What follows the last
  // newline waits for the next write, or for flush(). `caller` is the thread that writes, or 0.
  int write(Handle handle, std::string_view bytes, pid_t caller);
  // Runs a line that has no newline. close(2) of the file calls it, and returns its error.
  int flush(Handle handle, pid_t caller);
  void release(Handle handle);

  // Removes a statistic. Others than files of statistics cannot be removed.
  int remove(std::string_view path, pid_t caller);
  // Files are emptied before they are written to. This does nothing, if it is a file.
  int truncate(std::string_view path);

 private:
  struct Node;
  struct OpenFile;

  void fill_in(const Node& node, size_t size, struct stat& out) const;
  Result<Node, int> find(std::string_view path);
  Result<std::unique_ptr<Statistics>, ControlError> open_process(pid_t pid);
  int run_line(OpenFile& file, std::string_view line, pid_t caller);
  int run(Statistics& statistics, pid_t pid, const Command& command, pid_t caller);
  int refuse(pid_t pid, std::string_view file, const ControlError& error);
  const OpenFile* opened_last(pid_t pid, std::string_view name) const;

  Processes& processes_;
  std::vector<pid_t> only_;
  Complain complain_;
  uint64_t mounted_ns_;
  Handle next_handle_ = 1;
  std::map<Handle, std::unique_ptr<OpenFile>> open_files_;
};

}  // namespace pinprick::control
