// Whether the library or a session may change the text. Each test runs in a process of its own, as
// the library claims the text for good.
#include "patch/text_owner.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "layout/session_file.h"

namespace pinprick::patch {
namespace {

// Runs `work` in a child, and returns its exit status.
int in_child(const std::function<int()>& work) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(work());
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class TextOwner : public testing::Test {
 protected:
  TextOwner() {
    char name[] = "/tmp/text_owner_XXXXXX.session";
    const Fd file(::mkstemps(name, static_cast<int>(layout::kFileSuffix.size())));
    path_ = name;
    const layout::FileHeader header;  // preparing
    EXPECT_EQ(::pwrite(file.get(), &header, sizeof header, 0), ssize_t{sizeof header});
    EXPECT_EQ(::ftruncate(file.get(), kPageSize), 0);
  }
  ~TextOwner() override { ::unlink(path_.c_str()); }

  // What a session makes the process do, and then does itself. Returns true if it goes on.
  bool session_comes_in() const {
    const Fd file(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
    void* const tables = ::mmap(nullptr, kPageSize, PROT_READ, MAP_SHARED, file.get(), 0);
    if (tables == MAP_FAILED) std::abort();
    const auto memory = target::Memory::open(::getpid());
    const auto maps = image::read_maps(::getpid());
    if (!memory || !maps) std::abort();
    const bool comes_in = !library_changes_text(*memory, *maps);
    if (!comes_in) ::munmap(tables, kPageSize);
    return comes_in;
  }
  static bool library_comes_in() {
    const auto memory = target::Memory::open(::getpid());
    if (!memory) std::abort();
    const auto session = claim_own_text(*memory);
    if (!session) std::abort();
    return !*session;
  }

  std::string path_;
};

TEST_F(TextOwner, IsTheLibraryIfItCameFirst) {
  EXPECT_EQ(in_child([&] {
              const bool library = library_comes_in();
              return library && !session_comes_in() ? 0 : 1;
            }),
            0);
}

TEST_F(TextOwner, IsTheSessionIfItCameFirst) {
  EXPECT_EQ(in_child([&] {
              const bool session = session_comes_in();
              return session && !library_comes_in() ? 0 : 1;
            }),
            0);
}

TEST_F(TextOwner, IsAtMostOneOfTwoThatComeAtTheSameMoment) {
  int came_in[2] = {};
  for (int round = 0; round < 300; ++round) {
    const int both = in_child([&] {
      std::atomic<int> there = 0;
      const auto meet = [&] {
        ++there;
        while (there < 2) continue;
      };
      bool library = false;
      std::thread other([&] {
        meet();
        library = library_comes_in();
      });
      meet();
      const bool session = session_comes_in();
      other.join();
      return (library ? 1 : 0) + (session ? 2 : 0);
    });
    ASSERT_GE(both, 0);
    ASSERT_NE(both, 3) << "both came in, in round " << round;
    if (both != 0) ++came_in[both - 1];
  }
  EXPECT_NE(came_in[0] + came_in[1], 0) << "nobody ever came in";
}

}  // namespace
}  // namespace pinprick::patch
