#include "base/fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>

#include "scratch.h"

namespace pinprick {
namespace {

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) != -1;
}

std::span<const uint8_t> as_bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST(Fd, ClosesItselfOnce) {
  int number = -1;
  {
    Fd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(fd);
    number = fd.get();
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(Fd, MovesItsDescriptorAndLeavesNone) {
  Fd first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = first.get();
  Fd second(std::move(first));
  EXPECT_EQ(second.get(), number);
  EXPECT_TRUE(is_open(number));
  second.reset();
  EXPECT_FALSE(second);
  EXPECT_FALSE(is_open(number));
}

TEST(Fd, AssignmentClosesTheOldOneAtTheLatestWithTheOther) {
  Fd kept(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int old = kept.get();
  {
    Fd other(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const int number = other.get();
    kept = std::move(other);
    EXPECT_EQ(kept.get(), number);
  }
  EXPECT_TRUE(is_open(kept.get()));
  EXPECT_FALSE(is_open(old));
}

TEST(OpenFile, IsNotInheritedByProgramsThatAreStarted) {
  Scratch scratch;
  write_bytes(scratch / "file", {});
  auto fd = open_file(scratch / "file", O_RDONLY);
  ASSERT_TRUE(fd);
  EXPECT_TRUE(::fcntl(fd->get(), F_GETFD) & FD_CLOEXEC);
}

// Without the refusal this test would hang: nothing writes into the FIFO.
TEST(OpenFile, RefusesAFifoAtOnce) {
  Scratch scratch;
  const std::string path = scratch / "fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const auto fd = open_file(path, O_RDONLY);
  ASSERT_FALSE(fd);
  EXPECT_EQ(fd.error().number, ENODEV);
  const auto text = read_file(path);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().number, ENODEV);
}

TEST(OpenFile, RefusesDevicesSocketsAndDirectories) {
  Scratch scratch;
  const auto device = open_file("/dev/zero", O_RDONLY);
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().number, ENODEV);

  const auto folder = open_file(scratch.path(), O_RDONLY);
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().number, EISDIR);

  Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {AF_UNIX, {}};
  const std::string path = scratch / "socket";
  ASSERT_LT(path.size(), sizeof address.sun_path);
  path.copy(address.sun_path, path.size());
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_FALSE(open_file(path, O_RDONLY));
}

TEST(OpenFile, SaysWhyAFileCannotBeOpened) {
  Scratch scratch;
  const auto missing = open_file(scratch / "missing", O_RDONLY);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().number, ENOENT);
}

TEST(OpenFile, CreatesWithTheGivenMode) {
  Scratch scratch;
  const std::string path = scratch / "new";
  ASSERT_TRUE(open_file(path, O_RDWR | O_CREAT | O_EXCL, 0600));
  struct stat status = {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  const auto again = open_file(path, O_RDWR | O_CREAT | O_EXCL, 0600);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().number, EEXIST);
}

TEST(ReadFile, ReturnsEveryByteOfFilesLargerThanItsBuffer) {
  Scratch scratch;
  std::vector<uint8_t> bytes(100'003);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7 + i / 251);
  write_bytes(scratch / "file", bytes);
  const auto text = read_file(scratch / "file");
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, std::string(bytes.begin(), bytes.end()));
}

TEST(ReadFile, ReadsFilesOfProcThatClaimToBeEmpty) {
  struct stat status = {};
  ASSERT_EQ(::stat("/proc/self/status", &status), 0);
  ASSERT_EQ(status.st_size, 0);
  const auto text = read_file("/proc/self/status");
  ASSERT_TRUE(text);
  EXPECT_NE(text->find("\nPid:\t" + std::to_string(::getpid()) + "\n"), std::string::npos);
}

TEST(ReadAt, ReadsAllOrNothing) {
  Scratch scratch;
  write_bytes(scratch / "file", as_bytes("0123456789"));
  const auto fd = open_file(scratch / "file", O_RDONLY);
  ASSERT_TRUE(fd);
  std::array<uint8_t, 4> out = {};
  ASSERT_TRUE(read_at(fd->get(), out, 6));
  EXPECT_EQ(std::string(out.begin(), out.end()), "6789");

  const auto beyond = read_at(fd->get(), out, 7);
  ASSERT_FALSE(beyond) << "only three bytes are left";
  EXPECT_EQ(beyond.error().number, EIO);
  EXPECT_TRUE(read_at(fd->get(), {}, 100)) << "nothing can be had anywhere";
}

TEST(ReadAt, ReportsTheSystemsErrorForABadDescriptorOrOffset) {
  std::array<uint8_t, 1> out = {};
  EXPECT_EQ(read_at(-1, out, 0).error().number, EBADF);
  const auto fd = open_file("/proc/self/exe", O_RDONLY);
  ASSERT_TRUE(fd);
  EXPECT_EQ(read_at(fd->get(), out, UINT64_MAX).error().number, EINVAL);
}

TEST(WriteAt, WritesAtItsOffsetAndLeavesTheRest) {
  Scratch scratch;
  write_bytes(scratch / "file", as_bytes("0123456789"));
  const auto fd = open_file(scratch / "file", O_RDWR);
  ASSERT_TRUE(fd);
  ASSERT_TRUE(write_at(fd->get(), as_bytes("abc"), 4));
  EXPECT_EQ(*read_file(scratch / "file"), "0123abc789");
}

TEST(WriteAt, FailsOnADescriptorThatIsOnlyForReading) {
  Scratch scratch;
  write_bytes(scratch / "file", as_bytes("x"));
  const auto fd = open_file(scratch / "file", O_RDONLY);
  ASSERT_TRUE(fd);
  EXPECT_EQ(write_at(fd->get(), as_bytes("y"), 0).error().number, EBADF);
}

}  // namespace
}  // namespace pinprick
