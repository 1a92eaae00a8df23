#include "control/file_tree.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "control/memory_statistics.h"

namespace pinprick::control {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

class Tree : public testing::Test {
 protected:
  FileTree tree_with(std::vector<pid_t> only) {
    return {processes, std::move(only), [this](const std::string& line) { said.push_back(line); }};
  }

  std::vector<std::string> names(const std::string& path) {
    std::vector<std::string> all;
    EXPECT_EQ(tree.list(path, all), 0) << path;
    return all;
  }
  FileTree::Handle open(const std::string& path, int flags) {
    FileTree::Handle handle = 0;
    EXPECT_EQ(tree.open(path, flags, handle), 0) << path;
    return handle;
  }
  int open_error(const std::string& path, int flags = O_RDONLY) {
    FileTree::Handle handle = 0;
    return tree.open(path, flags, handle);
  }
  std::string read_all(FileTree::Handle handle, size_t at_once = 4096) {
    std::string text, part(at_once, '\0');
    for (int size; (size = tree.read(handle, part, text.size())) > 0;)
      text += part.substr(0, static_cast<size_t>(size));
    return text;
  }
  std::string content(const std::string& path) {
    const FileTree::Handle handle = open(path, O_RDONLY);
    std::string text = read_all(handle);
    tree.release(handle);
    return text;
  }
  // As `echo LINE > PATH` does; returns the error of the write, or of close.
  int echo(const std::string& path, const std::string& line, pid_t caller = 0) {
    FileTree::Handle handle = 0;
    if (const int error = tree.open(path, O_WRONLY | O_TRUNC, handle); error != 0) return error;
    const int written = tree.write(handle, line, caller);
    const int flushed = tree.flush(handle, caller);
    tree.release(handle);
    return written < 0 ? written : flushed;
  }
  std::vector<std::string>& ran(pid_t pid) { return processes.process(pid).commands; }

  std::vector<pid_t> pids = {17, 42};
  MemoryProcesses processes{[this] { return pids; }};
  std::vector<std::string> said;
  FileTree tree = tree_with({});
};

TEST_F(Tree, HasAFolderForEachProcessThatIsThereNow) {
  EXPECT_THAT(names("/"), ElementsAre("17", "42"));
  pids = {42, 99};
  EXPECT_THAT(names("/"), ElementsAre("42", "99"));
  EXPECT_THAT(names("/99"), ElementsAre("_control"));
  std::vector<std::string> none;
  EXPECT_EQ(tree.list("/17", none), -ENOENT);
}

TEST_F(Tree, HasOnlyTheNamedProcessesAndOfTheseOnlyTheLivingOnes) {
  FileTree narrow = tree_with({42, 7});
  std::vector<std::string> all;
  EXPECT_EQ(narrow.list("/", all), 0);
  EXPECT_THAT(all, ElementsAre("42"));
  struct stat status;
  EXPECT_EQ(narrow.attributes("/42", status), 0);
  EXPECT_EQ(narrow.attributes("/17", status), -ENOENT);
}

TEST_F(Tree, HasAFileForEachStatisticBesideTheControlFile) {
  EXPECT_EQ(echo("/17/_control", "trace read\n"), 0);
  EXPECT_EQ(echo("/17/_control", "trace write gap none\n"), 0);
  EXPECT_THAT(names("/17"), ElementsAre("_control", "read", "GAP-read", "write"));
  EXPECT_THAT(names("/42"), ElementsAre("_control"));
  EXPECT_EQ(content("/17/_control"), "read GAP-read write\n");
  EXPECT_EQ(content("/42/_control"), "\n");
}

TEST_F(Tree, HasNothingElse) {
  struct stat status;
  for (const char* path : {"", "x", "//", "/x", "/17/", "/17/x", "/17/_control/x", "/017", "/-17",
                           "/0", "/17x", "/99", "/99999999999999999999", "/+17", "/17//_control"}) {
    EXPECT_EQ(tree.attributes(path, status), -ENOENT) << path;
    EXPECT_EQ(open_error(path), -ENOENT) << path;
    EXPECT_EQ(tree.remove(path, 0), -ENOENT) << path;
  }
}

TEST_F(Tree, FilesAndFoldersAreTheMountersAlone) {
  struct stat status;
  for (const char* folder : {"/", "/17"}) {
    EXPECT_EQ(tree.attributes(folder, status), 0);
    EXPECT_EQ(status.st_mode, S_IFDIR | 0700u);
    EXPECT_EQ(status.st_uid, ::geteuid());
  }
  EXPECT_EQ(echo("/17/_control", "trace read\n"), 0);
  for (const char* file : {"/17/_control", "/17/read", "/17/GAP-read"}) {
    EXPECT_EQ(tree.attributes(file, status), 0);
    EXPECT_EQ(status.st_mode, S_IFREG | 0600u);
    EXPECT_EQ(status.st_uid, ::geteuid());
    EXPECT_EQ(status.st_gid, ::getegid());
  }
}

TEST_F(Tree, AFileIsAsLongAsTheTextThatWasOpenedLast) {
  EXPECT_EQ(echo("/17/_control", "trace read\n"), 0);
  struct stat status;
  EXPECT_EQ(tree.attributes("/17/_control", status), 0);
  EXPECT_EQ(status.st_size, static_cast<off_t>(std::string("read GAP-read\n").size()));
  const FileTree::Handle older = open("/17/read", O_RDONLY);
  const FileTree::Handle newer = open("/17/read", O_RDONLY);
  const std::string text = read_all(newer);
  EXPECT_GT(text.size(), read_all(older).size());
  EXPECT_EQ(tree.attributes("/17/read", status), 0);
  EXPECT_EQ(status.st_size, static_cast<off_t>(text.size()));
  EXPECT_GE(status.st_blocks * 512, status.st_size);  // or `cp` looks for holes
  tree.release(newer);
  EXPECT_EQ(tree.attributes("/17/read", status), 0);
  EXPECT_EQ(status.st_size, static_cast<off_t>(read_all(older).size()));
}

TEST_F(Tree, AFileIsAsLongAsTheTextOfNowIfItIsNotOpen) {
  EXPECT_EQ(echo("/17/_control", "trace read\n"), 0);
  for (int i = 0; i < 3; ++i) content("/17/read");
  EXPECT_EQ(echo("/17/read", "STOP\n"), 0);
  struct stat status;
  EXPECT_EQ(tree.attributes("/17/read", status), 0);
  EXPECT_GT(status.st_size, 0);
  EXPECT_EQ(status.st_size, static_cast<off_t>(content("/17/read").size()));
  EXPECT_EQ(echo("/17/read", "RESET\n"), 0);
  EXPECT_EQ(tree.attributes("/17/read", status), 0);
  EXPECT_EQ(status.st_size, 0);
}

TEST_F(Tree, AnOpenFileIsAsLongAsItsOwnTextAlsoWhenItIsRemoved) {
  EXPECT_EQ(echo("/17/_control", "trace read\n"), 0);
  const FileTree::Handle older = open("/17/read", O_RDONLY);
  const FileTree::Handle newer = open("/17/read", O_RDONLY);
  EXPECT_EQ(tree.remove("/17/read", 0), 0);
  for (const FileTree::Handle handle : {older, newer}) {
    struct stat status;
    EXPECT_EQ(tree.attributes(handle, status), 0);
    EXPECT_EQ(status.st_mode, S_IFREG | 0600u);
    EXPECT_EQ(status.st_size, static_cast<off_t>(read_all(handle).size()));
  }
  struct stat status;
  EXPECT_EQ(tree.attributes(newer + 1, status), -EBADF);
}

TEST_F(Tree, TimesAreThoseOfTheLastChangeAndOfCreation) {
  EXPECT_EQ(echo("/17/_control", "trace read\n"), 0);
  StatisticInfo& info = processes.process(17).statistics.front().info;
  info.created_ns = 5'000'000'007;
  info.changed_ns = 6'000'000'008;
  info.running = false;
  struct stat status;
  EXPECT_EQ(tree.attributes("/17/read", status), 0);
  EXPECT_EQ(status.st_mtim.tv_sec, 6);
  EXPECT_EQ(status.st_mtim.tv_nsec, 8);
  EXPECT_EQ(status.st_ctim.tv_sec, 5);
  EXPECT_EQ(status.st_ctim.tv_nsec, 7);
}

TEST_F(Tree, WhatIsReadIsTheTextOfTheMomentOfOpening) {
  EXPECT_EQ(echo("/17/_control", "trace read\n"), 0);
  for (int i = 0; i < 5; ++i) content("/17/read");
  const FileTree::Handle first = open("/17/read", O_RDONLY);
  const std::string text = read_all(first, 7);
  const FileTree::Handle second = open("/17/read", O_RDWR);
  EXPECT_EQ(echo("/17/read", "RESET\n"), 0);
  EXPECT_EQ(read_all(first, 100'000), text);
  EXPECT_NE(read_all(second), text);
  EXPECT_EQ(text.substr(text.size() - 9), "1.000000\n");  // all of it
}

TEST_F(Tree, ReadingAtAndAfterTheEndYieldsNothing) {
  const FileTree::Handle handle = open("/17/_control", O_RDONLY);
  std::string part(10, '\0');
  EXPECT_EQ(tree.read(handle, part, 0), 1);
  EXPECT_EQ(tree.read(handle, part, 1), 0);
  EXPECT_EQ(tree.read(handle, part, UINT64_MAX), 0);
}

TEST_F(Tree, AFileThatIsOpenForWritingOnlyHasNoText) {
  const FileTree::Handle handle = open("/17/_control", O_WRONLY);
  std::string part(10, '\0');
  EXPECT_EQ(tree.read(handle, part, 0), -EBADF);
  EXPECT_EQ(tree.read(handle + 1, part, 0), -EBADF);
  EXPECT_EQ(tree.write(handle + 1, "x", 0), -EBADF);
  EXPECT_EQ(tree.flush(handle + 1, 0), -EBADF);
}

TEST_F(Tree, AStatisticIsStoppedStartedAndResetThroughItsFile) {
  EXPECT_EQ(echo("/17/_control", "trace read\n"), 0);
  EXPECT_EQ(echo("/17/read", "STOP\n"), 0);
  EXPECT_EQ(echo("/17/read", "start"), 0);
  EXPECT_EQ(echo("/17/GAP-read", "Reset\n"), 0);
  EXPECT_THAT(ran(17), ElementsAre("trace read", "stop read", "start read", "reset GAP-read"));
}

TEST_F(Tree, ACommandMayComeInSeveralWritesAndWithoutANewline) {
  const FileTree::Handle handle = open("/17/_control", O_WRONLY);
  EXPECT_EQ(tree.write(handle, "trace ", 0), 6);
  EXPECT_EQ(tree.write(handle, "re", 0), 2);
  EXPECT_THAT(names("/17"), ElementsAre("_control"));
  EXPECT_EQ(tree.write(handle, "ad\n", 0), 3);
  EXPECT_EQ(content("/17/_control"), "read GAP-read\n");
  EXPECT_EQ(tree.write(handle, "remove read", 0), 11);
  EXPECT_EQ(content("/17/_control"), "read GAP-read\n");
  EXPECT_EQ(tree.flush(handle, 0), 0);
  EXPECT_EQ(content("/17/_control"), "\n");
  EXPECT_EQ(tree.flush(handle, 0), 0);  // of a duplicate of the descriptor
  EXPECT_THAT(ran(17), ElementsAre("trace read", "remove read"));
}

TEST_F(Tree, EachWriteRunsOneLineSoThatItsErrorIsThatLines) {
  const FileTree::Handle handle = open("/17/_control", O_WRONLY);
  const std::string lines = "trace a\ntrace no_such\ntrace b\n";
  EXPECT_EQ(tree.write(handle, lines, 0), 8);
  EXPECT_EQ(tree.write(handle, lines.substr(8), 0), -ENOENT);
  EXPECT_EQ(tree.write(handle, lines.substr(22), 0), 8);
  EXPECT_EQ(content("/17/_control"), "a GAP-a b GAP-b\n");
}

TEST_F(Tree, AnErrorIsThatOfTheWriteOrOfClosingAndItsReasonIsSaid) {
  EXPECT_EQ(echo("/17/_control", "trace no_such_function\n"), -ENOENT);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_THAT(said[0], HasSubstr("17/_control: trace no_such_function: there is no function"));
  EXPECT_THAT(said[0], HasSubstr("(ENOENT)"));
  EXPECT_EQ(echo("/17/_control", "trace no_such_function"), -ENOENT);
  EXPECT_EQ(echo("/17/_control", "trace x bits 9\n"), -EINVAL);
  EXPECT_EQ(echo("/17/_control", "trace x\n"), 0);
  EXPECT_EQ(echo("/17/_control", "trace x\n"), -EEXIST);
  EXPECT_EQ(echo("/17/_control", "remove y\n"), -ENOENT);
  EXPECT_EQ(echo("/17/_control", "\n"), -EINVAL);
  EXPECT_EQ(echo("/17/_control", "list\n"), -EINVAL);
  EXPECT_EQ(echo("/17/x", "remove x\n"), -EINVAL);
  EXPECT_EQ(echo("/17/y", "START\n"), -ENOENT);  // of open
  EXPECT_EQ(said.size(), 8u);
}

TEST_F(Tree, ACommandThatIsTooLongIsRefusedAndForgotten) {
  const FileTree::Handle handle = open("/17/_control", O_WRONLY);
  const std::string most = "trace s start " + std::string(FileTree::kMaxLine - 14, 'x');
  EXPECT_EQ(tree.write(handle, most + "y\n", 0), -EINVAL);
  EXPECT_EQ(tree.write(handle, std::string(200'000, 'x'), 0), -EINVAL);
  EXPECT_EQ(tree.write(handle, most, 0), static_cast<int>(most.size()));
  EXPECT_EQ(tree.write(handle, "y", 0), -EINVAL);
  EXPECT_EQ(tree.flush(handle, 0), 0);
  EXPECT_THAT(names("/17"), ElementsAre("_control"));
  EXPECT_EQ(tree.write(handle, most + "\n", 0), static_cast<int>(most.size()) + 1);
  EXPECT_THAT(names("/17"), ElementsAre("_control", "s", "GAP-s"));
}

TEST_F(Tree, RemovingAFileRemovesTheStatisticWithItsGaps) {
  EXPECT_EQ(echo("/17/_control", "trace read\n"), 0);
  EXPECT_EQ(tree.remove("/17/read", 0), 0);
  EXPECT_THAT(names("/17"), ElementsAre("_control"));
  EXPECT_EQ(tree.remove("/17/GAP-read", 0), -ENOENT);
}

TEST_F(Tree, OtherFilesAndFoldersCannotBeRemoved) {
  EXPECT_EQ(echo("/17/_control", "trace read\n"), 0);
  EXPECT_EQ(tree.remove("/17/_control", 0), -EPERM);
  EXPECT_EQ(tree.remove("/17/GAP-read", 0), -EPERM);
  EXPECT_THAT(said, Contains(HasSubstr("goes with its statistic")));
  EXPECT_EQ(tree.remove("/17", 0), -EISDIR);
  EXPECT_EQ(tree.remove("/", 0), -EISDIR);
  EXPECT_THAT(names("/17"), ElementsAre("_control", "read", "GAP-read"));
}

TEST_F(Tree, FoldersAreNoFilesAndFilesNoFolders) {
  std::vector<std::string> none;
  EXPECT_EQ(open_error("/"), -EISDIR);
  EXPECT_EQ(open_error("/17"), -EISDIR);
  EXPECT_EQ(tree.list("/17/_control", none), -ENOTDIR);
  EXPECT_EQ(tree.truncate("/17"), -EISDIR);
  EXPECT_EQ(tree.truncate("/17/_control"), 0);
  EXPECT_EQ(tree.truncate("/17/x"), -ENOENT);
}

// PIDs are used again.
TEST_F(Tree, AnOpenFileStaysThatOfItsProcessAfterThatHasEnded) {
  EXPECT_EQ(echo("/17/_control", "trace read\n"), 0);
  const FileTree::Handle control = open("/17/_control", O_RDWR);
  pids = {};
  EXPECT_EQ(open_error("/17/_control"), -ENOENT);
  pids = {17};
  EXPECT_EQ(tree.write(control, "trace write\n", 0), -ESRCH);
  EXPECT_EQ(read_all(control), "read GAP-read\n");
  EXPECT_THAT(names("/17"), ElementsAre("_control"));
}

TEST_F(Tree, AStatisticThatIsRemovedWhileItsFileIsOpenCanBeReadButNotChanged) {
  EXPECT_EQ(echo("/17/_control", "trace read\n"), 0);
  const FileTree::Handle handle = open("/17/read", O_RDWR);
  EXPECT_EQ(tree.remove("/17/read", 0), 0);
  EXPECT_EQ(tree.write(handle, "STOP\n", 0), -ENOENT);
  EXPECT_EQ(tree.flush(handle, 0), 0);
  tree.release(handle);
  EXPECT_EQ(open_error("/17/read"), -ENOENT);
}

// It would wait for the write, and the write for it to stop.
TEST_F(Tree, AProcessCannotTraceItselfThroughAFile) {
  const pid_t self = ::getpid();
  const std::string folder = "/" + std::to_string(self);
  pids = {self};
  EXPECT_EQ(echo(folder + "/_control", "trace read\n", self), -EDEADLK);
  EXPECT_THAT(said, Contains(HasSubstr("from another process")));
  EXPECT_EQ(echo(folder + "/_control", "trace read\n", ::getppid()), 0);
  for (const char* line : {"STOP\n", "START\n", "RESET\n"}) {
    EXPECT_EQ(echo(folder + "/read", line, self), -EDEADLK) << line;
    EXPECT_EQ(echo(folder + "/GAP-read", line, self), -EDEADLK) << line;
    EXPECT_EQ(echo(folder + "/read", line, ::getppid()), 0) << line;
  }
  EXPECT_EQ(echo(folder + "/_control", "stop read\n", self), -EDEADLK);
  EXPECT_EQ(echo(folder + "/_control", "stop other\n", self), -ENOENT);
  EXPECT_EQ(tree.remove(folder + "/read", self), -EDEADLK);
  EXPECT_EQ(tree.remove(folder + "/read", ::getppid()), 0);
}

TEST_F(Tree, AProcessCanChangeThroughAFileWhatItRecordsItself) {
  const pid_t self = ::getpid();
  const std::string folder = "/" + std::to_string(self);
  pids = {self};
  EXPECT_EQ(echo(folder + "/_control", "trace mine gap none\n"), 0);
  processes.process(self).statistics.front().info.is_recorded = true;
  for (const char* line : {"STOP\n", "START\n", "RESET\n"})
    EXPECT_EQ(echo(folder + "/mine", line, self), 0) << line;
}

// Statistics whose implementation forgot the number.
class Numberless : public Processes {
 public:
  std::vector<pid_t> all() override { return {1}; }
  Result<std::unique_ptr<Statistics>, ControlError> open(pid_t) override {
    return refusal(0, "unknown");
  }
  void provide() override {}
};

TEST_F(Tree, AnErrorWithoutANumberIsAnErrorToo) {
  Numberless broken;
  FileTree of_broken(broken, {}, [](const std::string&) {});
  struct stat status;
  EXPECT_EQ(of_broken.attributes("/1", status), -EIO);
}

}  // namespace
}  // namespace pinprick::control
