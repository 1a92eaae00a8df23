// The heads of HTTP requests. Input: what a client sends.
#include "http/request.h"

#include <algorithm>

#include "fuzzer.h"

using namespace pinprick;

namespace {

bool is_judged(std::string_view bytes) {
  return !std::holds_alternative<http::Unfinished>(http::parse_request(bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto parsed = http::parse_request(bytes);
  if (const auto* request = std::get_if<http::Request>(&parsed)) {
    CHECK(!request->method.empty());
    CHECK(request->path == "*" || request->path.starts_with('/'));
    CHECK(
        std::ranges::all_of(request->path, [](char c) { return c > ' ' && c < 0x7f && c != '?'; }));
  }
  if (std::holds_alternative<http::Unfinished>(parsed)) CHECK(size < http::kMostHeadBytes);
  // In whatever pieces it comes: once it is judged, no more bytes change that.
  const size_t half = size / 2;
  if (is_judged(bytes.substr(0, half)))
    CHECK(parsed.index() == http::parse_request(bytes.substr(0, half)).index());
  return 0;
}

std::vector<Input> seeds() {
  std::vector<Input> all;
  for (const char* text :
       {"GET /metrics HTTP/1.1\r\nHost: localhost:9467\r\nAccept: */*\r\n\r\n",
        "HEAD / HTTP/1.0\n\n", "\r\nGET http://h/metrics?a=b HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
        "POST /metrics HTTP/1.1\r\nContent-Length: 12\r\n\r\nname=value&a",
        "OPTIONS * HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"})
    all.push_back(fuzz::text(text));
  all.push_back(fuzz::text("GET / HTTP/1.1\r\nA: " + std::string(http::kMostHeadBytes, 'a')));
  return all;
}
