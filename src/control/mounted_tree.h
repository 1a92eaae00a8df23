// The file tree of statistics, mounted in a folder by FUSE.
//
// One thread mounts, serves and unmounts. If it is killed, the folder stays mounted, and each look
// at it fails with ENOTCONN until `fusermount3 -u FOLDER`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/file_tree.h"

struct fuse;

namespace pinprick::control {

struct MountError {
  enum class Cause : uint8_t {
    no_folder,   // it cannot be used as a folder: system_error
    stale,       // what was mounted there has ended without unmounting
    mounted,     // a FUSE file system is mounted there
    own_folder,  // the server itself has to read the folder `detail`, through the mount
    no_fuse,     // /dev/fuse cannot be opened: system_error
    refused,     // detail: what libfuse or its helper said, one line
  };
  Cause cause = Cause::refused;
  std::string folder;
  int system_error = 0;
  std::string detail;
};

class MountedTree {
 public:
  // Mounts the tree, which must outlive this. `own_folders` are those that the implementation of
  // the tree reads, whether they are there or not: there it cannot be mounted. Standard error is
  // led elsewhere for this moment, as libfuse and its helper write there: no other thread may write
  // to it.
  static Result<std::unique_ptr<MountedTree>, MountError> mount(
      FileTree& tree, const std::string& folder, const std::vector<std::string>& own_folders);
  // Unmounts, unless it was unmounted already. Open files fail with ENOTCONN from then on.
  ~MountedTree();
  MountedTree(const MountedTree&) = delete;
  MountedTree& operator=(const MountedTree&) = delete;

  // Serves the folder until `interrupt` becomes readable, or until the folder is unmounted. Calls
  // `meanwhile` every 10 ms, later only if one request takes longer.
  void serve(int interrupt, const std::function<void()>& meanwhile);

 private:
  explicit MountedTree(struct fuse* fuse) : fuse_(fuse) {}
  struct fuse* fuse_;
};

}  // namespace pinprick::control
