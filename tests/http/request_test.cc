#include "http/request.h"

#include <gtest/gtest.h>

namespace pinprick::http {
namespace {

// Returns the path of a request that is to be answered, or the number of the status, or "".
std::string said_of(std::string_view bytes) {
  const auto parsed = parse_request(bytes);
  if (const auto* request = std::get_if<Request>(&parsed))
    return request->method + " " + request->path;
  if (const auto* status = std::get_if<Status>(&parsed))
    return std::string(status_text(*status).substr(0, 3));
  return "";
}

TEST(HttpRequest, APathIsTakenWithoutItsQuery) {
  EXPECT_EQ(said_of("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), "GET /metrics");
  EXPECT_EQ(said_of("HEAD /metrics?name[]=up HTTP/1.0\r\n\r\n"), "HEAD /metrics");
  EXPECT_EQ(said_of("GET http://a:9467/metrics HTTP/1.1\r\n\r\n"), "GET /metrics");
  EXPECT_EQ(said_of("GET http://a HTTP/1.1\r\n\r\n"), "GET /");
}

TEST(HttpRequest, LinesMayEndWithoutACarriageReturnAndAnEmptyOneMayComeFirst) {
  EXPECT_EQ(said_of("GET / HTTP/1.1\nHost: a\n\n"), "GET /");
  EXPECT_EQ(said_of("\r\n\r\nGET / HTTP/1.1\r\n\r\n"), "GET /");
}

TEST(HttpRequest, IsJudgedOnlyOnceItsHeadIsComplete) {
  const std::string whole = "GET /metrics HTTP/1.1\r\nwrong field\r\n\r\n";
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_EQ(said_of(whole.substr(0, size)), "");
  EXPECT_EQ(said_of(whole), "400");
}

TEST(HttpRequest, WhatIsNoRequestIsRefused) {
  for (const char* line :
       {"GET /", "GET  HTTP/1.1", "GET / HTTP/2.0", "GET / HTTP/1.1 ", " GET / HTTP/1.1",
        "G(T / HTTP/1.1", "GET metrics HTTP/1.1", "GET /a b HTTP/1.1", "GET /\x01 HTTP/1.1",
        "GET /\xc3\xa4 HTTP/1.1", "\x16\x03\x01"})
    EXPECT_EQ(said_of(std::string(line) + "\r\n\r\n"), "400") << line;
  for (const char* field : {"no colon", ": a", "a b: c", " a: b", "a: \x01", "Content-Length: -1",
                            "content-length: ", "Content-Length: 1a"})
    EXPECT_EQ(said_of("GET / HTTP/1.1\r\n" + std::string(field) + "\r\n\r\n"), "400") << field;
}

TEST(HttpRequest, OneThatReadsHasNoBody) {
  EXPECT_EQ(said_of("GET / HTTP/1.1\r\nContent-Length: 00\r\n\r\n"), "GET /");
  EXPECT_EQ(said_of("GET / HTTP/1.1\r\nCONTENT-LENGTH: 1\r\n\r\n"), "413");
  EXPECT_EQ(said_of("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), "413");
  EXPECT_EQ(said_of("POST /metrics HTTP/1.1\r\nContent-Length: 1\r\n\r\n"), "POST /metrics");
}

TEST(HttpRequest, AHeadMayHaveEightKilobytesAndNoMore) {
  const std::string begin = "GET / HTTP/1.1\r\nA: ", end = "\r\n\r\n";
  const auto of_size = [&](size_t size) {
    return begin + std::string(size - begin.size() - end.size(), 'a') + end;
  };
  EXPECT_EQ(said_of(of_size(8192)), "GET /");
  EXPECT_EQ(said_of(of_size(8193)), "431");
  EXPECT_EQ(said_of(std::string(8191, '\n')), "");
  EXPECT_EQ(said_of(std::string(8192, 'a')), "431");
}

}  // namespace
}  // namespace pinprick::http
