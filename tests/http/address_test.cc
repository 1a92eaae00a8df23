#include "http/address.h"

#include <gtest/gtest.h>

namespace pinprick::http {
namespace {

TEST(HttpAddress, IsWrittenAsItWasRead) {
  for (const char* text : {"127.0.0.1:9467", "[::1]:80", "0.0.0.0:0", "[2001:db8::1]:65535",
                           "unix:/run/a socket", "unix:here"}) {
    const auto address = parse_address(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(to_text(*address), text);
  }
  EXPECT_EQ(to_text(*parse_address("localhost:1")), "127.0.0.1:1");
}

TEST(HttpAddress, WhatIsNoneIsRefused) {
  for (const char* text :
       {"", "9467", ":9467", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
        "127.0.0.1:1a", "127.1:80", "example.org:80", "::1:9467", "[127.0.0.1]:80", "[::1]",
        "[::1]80", "[:80", "unix:", "http://127.0.0.1:80"})
    EXPECT_FALSE(parse_address(text)) << text;
}

TEST(HttpAddress, OnlyLoopbackAndSocketsInFoldersAreThisMachinesAlone) {
  for (const char* text :
       {"127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "unix:/a"})
    EXPECT_TRUE(is_of_this_machine(*parse_address(text))) << text;
  for (const char* text :
       {"0.0.0.0:1", "10.0.0.1:1", "[::]:1", "[::ffff:10.0.0.1]:1", "[fe80::1]:1"})
    EXPECT_FALSE(is_of_this_machine(*parse_address(text))) << text;
}

TEST(HttpAddress, HasAUrlUnlessItIsASocketInAFolder) {
  EXPECT_EQ(url_of(*parse_address("[::1]:9467"), "/metrics"), "http://[::1]:9467/metrics");
  EXPECT_FALSE(url_of(*parse_address("unix:/a"), "/metrics"));
}

}  // namespace
}  // namespace pinprick::http
