#include "http/request.h"

#include <algorithm>
#include <optional>

namespace pinprick::http {
namespace {

bool is_visible(char c) {
  return c > ' ' && c < '\x7f';
}

// Returns whether the text may be a method, or the name of a field.
bool is_token(std::string_view text) {
  constexpr std::string_view kSeparators = "\"(),/:;<=>?@[\\]{}";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return is_visible(c) && kSeparators.find(c) == kSeparators.npos;
  });
}

bool is_same_name(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Takes a line from the front; nullopt if its end has not come. Some clients end lines without \r.
std::optional<std::string_view> take_line(std::string_view& bytes) {
  const size_t end = bytes.find('\n');
  if (end == bytes.npos) return std::nullopt;
  std::string_view line = bytes.substr(0, end);
  bytes.remove_prefix(end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::optional<Request> parse_first_line(std::string_view line) {
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == line.npos || first == last) return std::nullopt;
  const std::string_view method = line.substr(0, first), version = line.substr(last + 1);
  std::string_view target = line.substr(first + 1, last - first - 1);
  if (!is_token(method) || (version != "HTTP/1.1" && version != "HTTP/1.0") || target.empty() ||
      !std::ranges::all_of(target, is_visible))
    return std::nullopt;
  // As a proxy is asked.
  constexpr std::string_view kScheme = "http://";
  if (target.starts_with(kScheme)) {
    const size_t path = target.find('/', kScheme.size());
    target = path == target.npos ? "/" : target.substr(path);
  }
  if (!target.starts_with('/') && target != "*") return std::nullopt;
  return Request{std::string(method), std::string(target.substr(0, target.find('?')))};
}

// Returns the status if the field makes the request one to refuse.
std::optional<Status> refusal_of_field(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == line.npos || !is_token(line.substr(0, colon))) return Status::bad_request;
  const std::string_view name = line.substr(0, colon),
                         value = without_blanks(line.substr(colon + 1));
  const auto is_control = [](char c) {
    return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == '\x7f';
  };
  if (std::ranges::any_of(value, is_control)) return Status::bad_request;
  if (is_same_name(name, "transfer-encoding")) return Status::content_too_large;
  if (!is_same_name(name, "content-length")) return std::nullopt;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (value.empty() || !std::ranges::all_of(value, is_digit)) return Status::bad_request;
  if (value.find_first_not_of('0') != value.npos) return Status::content_too_large;
  return std::nullopt;
}

}  // namespace

std::string_view status_text(Status status) {
  switch (status) {
    case Status::ok:
      return "200 OK";
    case Status::bad_request:
      return "400 Bad Request";
    case Status::not_found:
      return "404 Not Found";
    case Status::method_not_allowed:
      return "405 Method Not Allowed";
    case Status::content_too_large:
      return "413 Content Too Large";
    case Status::head_too_large:
      break;
  }
  return "431 Request Header Fields Too Large";
}

std::variant<Unfinished, Request, Status> parse_request(std::string_view bytes) {
  const bool is_full = bytes.size() >= kMostHeadBytes;
  std::string_view rest = bytes.substr(0, kMostHeadBytes);
  std::optional<std::string_view> first;
  std::optional<Status> refusal;
  while (const auto line = take_line(rest)) {
    if (!first) {
      // Some clients end the request before with an empty line too many.
      if (!line->empty()) first = *line;
      continue;
    }
    if (!line->empty()) {
      if (!refusal) refusal = refusal_of_field(*line);
      continue;
    }
    auto request = parse_first_line(*first);
    if (!request || refusal == Status::bad_request) return Status::bad_request;
    // Another method is wrong in any case, and that is said of it.
    if (refusal && request->is_read()) return *refusal;
    return *std::move(request);
  }
  if (is_full) return Status::head_too_large;
  return Unfinished{};
}

}  // namespace pinprick::http
