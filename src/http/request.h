// The head of an HTTP/1.x request, as a client that may be hostile sends it: bytes to what is asked
// for. Pure. A head is judged once it is complete, so it does not matter in which pieces it comes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace pinprick::http {

// Includes the empty line that ends the head.
inline constexpr size_t kMostHeadBytes = 8192;

enum class Status : uint16_t {
  ok = 200,
  bad_request = 400,
  not_found = 404,
  method_not_allowed = 405,
  content_too_large = 413,
  head_too_large = 431,
};
// Returns the number and its phrase, such as "404 Not Found".
std::string_view status_text(Status status);

struct Request {
  std::string method;
  std::string path;  // without the query

  // Does it only read?
  bool is_read() const { return method == "GET" || method == "HEAD"; }
};
// The head goes on.
struct Unfinished {};

// Returns the status to refuse a request with that is wrong, whose head is too large, or that reads
// and has a content.
std::variant<Unfinished, Request, Status> parse_request(std::string_view bytes);

}  // namespace pinprick::http
