// A user's folder of files that can be made again.
#include "base/cache_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "scratch.h"

namespace pinprick {
namespace {

using Bytes = std::vector<uint8_t>;

class CacheFolderTest : public testing::Test {
 protected:
  CacheFolder open(uint64_t most = CacheFolder::kMost) {
    auto folder = CacheFolder::open(path_, most);
    EXPECT_TRUE(folder);
    return *std::move(folder);
  }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  static unsigned mode(const std::string& path) {
    struct stat status = {};
    EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777;
  }
  size_t files() const {
    size_t n = 0;
    for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator(path_)) ++n;
    return n;
  }

  const Scratch scratch_;
  const std::string path_ = scratch_ / "above/cache";
};

TEST_F(CacheFolderTest, ReturnsWhatWasWrittenToThisUserOnly) {
  const CacheFolder folder = open();
  EXPECT_FALSE(folder.read("one"));
  folder.write("one", Bytes{1, 2, 3});
  EXPECT_EQ(folder.read("one"), (Bytes{1, 2, 3}));
  EXPECT_EQ(open().read("one"), (Bytes{1, 2, 3}));
  EXPECT_EQ(mode(path_), 0700u);
  EXPECT_EQ(mode(file("one")), 0600u);
  EXPECT_EQ(mode(file("key")), 0600u);
  EXPECT_EQ(files(), 2u) << "nothing unfinished is left";
}

TEST_F(CacheFolderTest, KeepsItsKey) {
  const HashKey key = open().key();
  EXPECT_EQ(open().key().of_block, key.of_block);
  // A damaged one is replaced.
  std::filesystem::resize_file(file("key"), 100);
  const HashKey other = open().key();
  EXPECT_NE(other.of_block, key.of_block);
  EXPECT_EQ(open().key().of_block, other.of_block);
}

TEST_F(CacheFolderTest, TrustsNoFileThatOthersMayWriteOrReadOrThatHasASecondName) {
  const CacheFolder folder = open();
  const auto refuses = [&](const std::string& name) {
    EXPECT_FALSE(folder.read(name)) << name;
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(file(name)))) << name;
    folder.write(name, Bytes{7});
    EXPECT_EQ(folder.read(name), Bytes{7}) << name;
  };
  for (unsigned mode : {0620u, 0602u, 0640u, 0604u}) {
    folder.write("open", Bytes{1});
    ASSERT_EQ(::chmod(file("open").c_str(), mode), 0);
    refuses("open");
  }
  folder.write("real", Bytes{1});
  std::filesystem::create_symlink("real", file("link"));
  refuses("link");
  std::filesystem::create_hard_link(file("real"), file("twin"));
  refuses("twin");
  std::filesystem::create_directory(file("folder"));
  refuses("folder");
  ASSERT_EQ(::mkfifo(file("fifo").c_str(), 0600), 0);
  refuses("fifo");
}

TEST_F(CacheFolderTest, TrustsNoFileOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make one";
  const CacheFolder folder = open();
  folder.write("theirs", Bytes{1});
  ASSERT_EQ(::chown(file("theirs").c_str(), 12345, 12345), 0);
  EXPECT_FALSE(folder.read("theirs"));
  folder.write("theirs", Bytes{2});
  EXPECT_EQ(folder.read("theirs"), Bytes{2});
  ASSERT_EQ(::chown(path_.c_str(), 12345, 12345), 0);
  EXPECT_FALSE(CacheFolder::open(path_));
}

TEST_F(CacheFolderTest, TakesRightsToTheFolderFromOthers) {
  open().write("one", Bytes{1});
  ASSERT_EQ(::chmod(path_.c_str(), 0770), 0);
  EXPECT_EQ(open().read("one"), Bytes{1});
  EXPECT_EQ(mode(path_), 0700u);
}

TEST_F(CacheFolderTest, IsNeitherALinkNorAFile) {
  std::filesystem::create_directories(scratch_ / "above");
  std::filesystem::create_directory(scratch_ / "elsewhere");
  std::filesystem::create_symlink(scratch_ / "elsewhere", path_);
  EXPECT_FALSE(CacheFolder::open(path_));
  std::filesystem::remove(path_);
  write_bytes(path_, Bytes{1});
  EXPECT_FALSE(CacheFolder::open(path_));
  EXPECT_FALSE(CacheFolder::open("/proc/no-such-folder/cache"));
}

TEST_F(CacheFolderTest, RemovesTheLeastRecentlyUsedFilesBeyondItsLimit) {
  constexpr uint64_t kFile = 16 << 10;
  const CacheFolder folder = open(10 * kFile);
  const auto used_at = [&](const std::string& name, int64_t seconds) {
    const timespec times[] = {{seconds, 0}, {seconds, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, file(name).c_str(), times, 0), 0);
  };
  for (int i = 0; i < 10; ++i) {
    folder.write(std::to_string(i), Bytes(kFile, 1));
    used_at(std::to_string(i), 1'000'000 + i);
  }
  folder.trim();
  EXPECT_TRUE(std::filesystem::exists(file("0"))) << "not too much yet";
  EXPECT_TRUE(folder.read("0"));  // it was used just now
  folder.write("new", Bytes(kFile, 1));
  folder.trim();
  for (const char* gone : {"1", "2", "3"})
    EXPECT_FALSE(std::filesystem::exists(file(gone))) << gone;
  for (const char* left : {"0", "9", "new", "key"})
    EXPECT_TRUE(std::filesystem::exists(file(left))) << left;
}

TEST_F(CacheFolderTest, RemovesWhatAnotherProcessNeverFinished) {
  const CacheFolder folder = open();
  write_bytes(file(".new-1-0"), Bytes{1});
  write_bytes(file(".new-2-0"), Bytes{1});
  const timespec long_ago[] = {{1'000'000, 0}, {1'000'000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, file(".new-1-0").c_str(), long_ago, 0), 0);
  folder.trim();
  EXPECT_FALSE(std::filesystem::exists(file(".new-1-0")));
  EXPECT_TRUE(std::filesystem::exists(file(".new-2-0"))) << "its process may be writing it";
}

// A full disk has the same effect.
TEST_F(CacheFolderTest, LeavesNoTraceOfAFileThatCouldNotBeWritten) {
  const CacheFolder folder = open();
  folder.write("before", Bytes{1});
  struct rlimit limit = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const struct rlimit small = {1000, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  folder.write("large", Bytes(2000));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_FALSE(folder.read("large"));
  EXPECT_TRUE(folder.read("before"));
  EXPECT_EQ(files(), 2u);
}

}  // namespace
}  // namespace pinprick
