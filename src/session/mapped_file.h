// A file, as the maps of processes show it, and the processes that have it mapped. Nothing is
// changed in them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "image/maps.h"

namespace pinprick::session {

class MappedFile {
 public:
  // Finds out how it is shown by mapping it here: that is not always what stat(2) says.
  static Result<MappedFile, SystemError> of(const std::string& path);

  const std::string& path() const { return path_; }
  bool is(const image::Mapping& mapping) const {
    return mapping.inode == inode_ && mapping.device == device_;
  }
  // Is its code mapped?
  bool is_in(const std::vector<image::Mapping>& maps) const;

 private:
  std::string path_;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
};

// What a rule by file leaves out, before anything is attached to.
struct ProcessFilter {
  std::vector<std::string> commands;  // globs; empty: any
  std::vector<uid_t> users;           // effective; empty: any
  std::vector<pid_t> excluded;
  std::vector<std::string> cgroups;  // below /sys/fs/cgroup; empty: any

  // Its command is left out of consideration, as an execution changes it.
  bool admits_before_exec(pid_t pid) const;
  bool admits(pid_t pid) const;
};

}  // namespace pinprick::session
