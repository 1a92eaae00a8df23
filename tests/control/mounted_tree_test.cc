#include "control/mounted_tree.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "control/memory_statistics.h"
#include "scratch.h"

namespace pinprick::control {
namespace {

using Cause = MountError::Cause;

// What the tree reads itself is FOLDER/above/own.
class OwnFolders : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(own_ + "/within/it"); }

  // Returns why the folder is refused; nullopt if nothing but FUSE can be the reason.
  std::optional<Cause> refused(const std::string& folder) {
    const auto mounted = MountedTree::mount(tree_, folder, {scratch_ / "none", own_});
    if (mounted || mounted.error().cause == Cause::no_fuse ||
        mounted.error().cause == Cause::refused)
      return std::nullopt;
    if (mounted.error().cause == Cause::own_folder) {
      EXPECT_EQ(mounted.error().detail, own_);
    }
    return mounted.error().cause;
  }

  const Scratch scratch_;
  const std::string own_ = scratch_ / "above/own";
  MemoryProcesses processes_{[] { return std::vector<pid_t>(); }};
  FileTree tree_{processes_, {}, [](const std::string&) {}};
};

TEST_F(OwnFolders, AreNoPlaceForATreeNorAreThoseInThemOrAboveThem) {
  for (const char* folder : {"above/own", "above/own/", "above/own/within", "above/own/within/it",
                             "above", "above/own/../own"})
    EXPECT_EQ(refused(scratch_ / folder), Cause::own_folder) << folder;
}

TEST_F(OwnFolders, AreNoPlaceForATreeByAnotherNameEither) {
  std::filesystem::create_directory_symlink(own_, scratch_ / "link");
  std::filesystem::create_directory_symlink(scratch_ / "above", scratch_ / "link_above");
  EXPECT_EQ(refused(scratch_ / "link"), Cause::own_folder);
  EXPECT_EQ(refused(scratch_ / "link/within"), Cause::own_folder);
  EXPECT_EQ(refused(scratch_ / "link_above"), Cause::own_folder);
}

TEST_F(OwnFolders, AreLookedForWhileTheyAreNotThereYet) {
  std::filesystem::remove_all(own_);
  EXPECT_EQ(refused(scratch_ / "above"), Cause::own_folder);
}

// Such a folder is not followed, and any user could make one to keep others from mounting.
TEST_F(OwnFolders, ThatAreLinksKeepNoFolderFromBeingMounted) {
  std::filesystem::create_directory(scratch_ / "tree");
  std::filesystem::remove_all(own_);
  std::filesystem::create_directory_symlink(scratch_ / "tree", own_);
  EXPECT_EQ(refused(scratch_ / "tree"), std::nullopt);
}

}  // namespace
}  // namespace pinprick::control
