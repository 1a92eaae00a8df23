// When a file's version proves that its bytes are the same.
#include "base/file_version.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/fd.h"
#include "scratch.h"

namespace pinprick {
namespace {

Fd opened(const std::string& path, int flags) {
  auto file = open_file(path, flags, 0600);
  EXPECT_TRUE(file) << path;
  return file ? *std::move(file) : Fd();
}

bool is_settled_now(const Fd& file) {
  const auto version = version_of(file.get());
  return version && is_settled(file.get(), *version);
}

// A file that has not changed for longer than the test runs.
class OldFile : public testing::Test {
 protected:
  void SetUp() override {
    file_ = opened(kPath, O_RDONLY);
    if (!is_settled_now(file_))
      GTEST_SKIP() << kPath
                   << ": its file system does not note all changes, it was made seconds ago, or "
                      "this user may not lease it";
  }
  static constexpr const char* kPath = OLD_FILE;
  Fd file_;
};

TEST_F(OldFile, IsNotSettledWhileSomebodyHasItOpenForWriting) {
  {
    const Fd writer = opened(kPath, O_RDWR);
    EXPECT_FALSE(is_settled_now(file_));
  }
  EXPECT_TRUE(is_settled_now(file_));
}

TEST_F(OldFile, IsNotSettledWhileSomebodyCanWriteThroughAMapping) {
  void* mapped = MAP_FAILED;
  {
    const Fd writer = opened(kPath, O_RDWR);
    mapped = ::mmap(nullptr, 1, PROT_READ | PROT_WRITE, MAP_SHARED, writer.get(), 0);
    ASSERT_NE(mapped, MAP_FAILED);
  }
  EXPECT_FALSE(is_settled_now(file_));
  ::munmap(mapped, 1);
  EXPECT_TRUE(is_settled_now(file_));
}

TEST_F(OldFile, CanBeOpenedForWritingAfterTheLook) {
  ASSERT_TRUE(is_settled_now(file_));
  EXPECT_TRUE(open_file(kPath, O_RDWR | O_NONBLOCK)) << "no lease is left";
}

TEST(FileVersion, IsNotSettledSecondsAfterAChange) {
  const Scratch scratch;
  const Fd file = opened(scratch / "new", O_RDWR | O_CREAT);
  EXPECT_FALSE(is_settled_now(opened(scratch / "new", O_RDONLY)));
}

TEST(FileVersion, ChangesWithTheBytesAlthoughTheirTimeIsPutBack) {
  const Scratch scratch;
  const Fd file = opened(scratch / "file", O_RDWR | O_CREAT);
  ASSERT_EQ(::write(file.get(), "a", 1), 1);
  const auto before = version_of(file.get());
  const auto time = std::filesystem::last_write_time(scratch / "file");
  // The kernel's clock for files may have a tick of milliseconds.
  do {
    ASSERT_EQ(::pwrite(file.get(), "b", 1, 0), 1);
    std::filesystem::last_write_time(scratch / "file", time);
  } while (version_of(file.get()) == before);
  EXPECT_EQ(version_of(file.get())->size, before->size);
}

}  // namespace
}  // namespace pinprick
