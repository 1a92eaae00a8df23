// The names of generated code that a process lists for perf.
#include "session/generated_names.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace pinprick::session {
namespace {

TEST(GeneratedCode, IsNamedByTheLineThatHasIt) {
  GeneratedCode code;
  code.add_lines("1000 20 LazyCompile:~f file.js:1\n0x1040 0x8 g\n");
  ASSERT_NE(code.find(0x1000), nullptr);
  EXPECT_EQ(code.find(0x101f)->second.name, "LazyCompile:~f file.js:1");
  EXPECT_EQ(code.find(0x101f)->first, 0x1000u);
  EXPECT_EQ(code.find(0x1020), nullptr);
  EXPECT_EQ(code.find(0xfff), nullptr);
  EXPECT_EQ(code.find(0x1047)->second.name, "g");
  EXPECT_EQ(code.find(0x1048), nullptr);
}

TEST(GeneratedCode, IsThatOfTheLastLineWhereSeveralHaveAnAddress) {
  GeneratedCode code;
  code.add_lines("1000 100 first\n1100 100 second\n10f0 20 third\n");
  EXPECT_EQ(code.find(0x10f0)->second.name, "third");
  EXPECT_EQ(code.find(0x110f)->second.name, "third");
  EXPECT_EQ(code.find(0x1000), nullptr) << "its memory was used again";
  EXPECT_EQ(code.find(0x1110), nullptr);
}

TEST(GeneratedCode, LeavesOutLinesThatAreNone) {
  GeneratedCode code;
  code.add_lines(
      "\n1000\n1000 \n1000 10\n1000 10 \n x\nzz 10 name\n1000 0 empty\nffffffffffffffff 2 wraps\n"
      "10000000000000000 1 large\n-1 10 negative\n2000 10 fine");
  EXPECT_EQ(code.size(), 1u);
  EXPECT_EQ(code.find(0x2000)->second.name, "fine");
}

TEST(GeneratedNames, FollowTheFileOfTheProcess) {
  const std::string path = "/tmp/perf-" + std::to_string(::getpid()) + ".map";
  GeneratedNames names(::getpid());
  EXPECT_EQ(names.find(0x1000), nullptr);
  std::ofstream file(path);
  file << "1000 10 first\n2000 10 second" << std::flush;
  ASSERT_NE(names.find(0x1008), nullptr);
  EXPECT_EQ(names.find(0x1008)->second.name, "first");
  EXPECT_EQ(names.find(0x2008), nullptr) << "its line goes on";
  file << " one\n" << std::flush;
  ASSERT_NE(names.find(0x2008), nullptr);
  EXPECT_EQ(names.find(0x2008)->second.name, "second one");
  file.close();
  file.open(path, std::ios::trunc);
  file << "3000 10 another\n" << std::flush;
  ASSERT_NE(names.find(0x3000), nullptr) << "it was written anew";
  EXPECT_EQ(names.find(0x1008), nullptr);
  file << "1000 10 a longer one than those before, which were of other code\n" << std::flush;
  ASSERT_NE(names.find(0x1008), nullptr);
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace pinprick::session
