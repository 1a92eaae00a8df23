#include "http/connection.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <variant>

namespace pinprick::http {
namespace {

std::string head_of(const Response& response) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}Cache-Control: no-store\r\n"
      "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
      status_text(response.status), response.type, response.content->size(),
      response.status == Status::method_not_allowed ? "Allow: GET, HEAD\r\n" : "");
}

bool would_block(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

Response response_of(Status status) {
  Response response;
  response.status = status;
  response.content = std::make_shared<const std::string>(fmt::format("{}\n", status_text(status)));
  return response;
}

short Connection::events() const {
  return state_ == State::sending ? POLLOUT : POLLIN;
}

uint64_t Connection::yields_from_ns() const {
  return state_ == State::closing ? 0 : moved_ns_ + kIdleNs;
}

void Connection::check_time(uint64_t now_ns) {
  if (now_ns >= deadline_ns_) close();
}

std::optional<std::string> Connection::advance(uint64_t now_ns) {
  switch (state_) {
    case State::reading:
      return read_request(now_ns);
    case State::sending:
      send_response(now_ns);
      break;
    case State::closing:
      read_rest();
      break;
    case State::over:
      break;
  }
  return std::nullopt;
}

std::optional<std::string> Connection::read_request(uint64_t now_ns) {
  std::array<char, kMostHeadBytes> bytes;
  const ssize_t size = ::recv(fd_.get(), bytes.data(), bytes.size() - received_.size(), 0);
  if (size < 0 && would_block(errno)) return std::nullopt;
  if (size <= 0) {
    close();
    return std::nullopt;
  }
  received_.append(bytes.data(), static_cast<size_t>(size));
  auto parsed = parse_request(received_);
  if (std::holds_alternative<Unfinished>(parsed)) return std::nullopt;
  if (const auto* status = std::get_if<Status>(&parsed)) {
    respond(response_of(*status), now_ns);
    return std::nullopt;
  }
  auto& request = std::get<Request>(parsed);
  wants_content_ = request.method != "HEAD";
  if (request.is_read()) return std::move(request.path);
  respond(response_of(Status::method_not_allowed), now_ns);
  return std::nullopt;
}

void Connection::respond(const Response& response, uint64_t now_ns) {
  received_ = {};
  head_ = head_of(response);
  if (wants_content_) content_ = response.content;
  state_ = State::sending;
  deadline_ns_ = now_ns + kResponseNs;
  moved_ns_ = now_ns;
  send_response(now_ns);
}

// One call for each look, so that a fast reader does not keep others waiting.
void Connection::send_response(uint64_t now_ns) {
  constexpr size_t kMost = size_t{1} << 20;
  std::string_view part = head_;
  if (sent_ >= head_.size() && content_)
    part = std::string_view(*content_).substr(sent_ - head_.size());
  const bool is_head = sent_ < head_.size();
  if (is_head) part = part.substr(sent_);
  if (!part.empty()) {
    const int more = is_head && content_ && !content_->empty() ? MSG_MORE : 0;
    const ssize_t size =
        ::send(fd_.get(), part.data(), std::min(part.size(), kMost), MSG_NOSIGNAL | more);
    if (size < 0 && !would_block(errno)) close();
    if (size <= 0) return;
    sent_ += static_cast<size_t>(size);
    moved_ns_ = now_ns;
  }
  if (sent_ == head_.size() + (content_ ? content_->size() : 0)) begin_closing(now_ns);
}

void Connection::begin_closing(uint64_t now_ns) {
  content_.reset();
  head_ = {};
  ::shutdown(fd_.get(), SHUT_WR);
  state_ = State::closing;
  deadline_ns_ = now_ns + kClosingNs;
}

void Connection::read_rest() {
  std::array<char, kMostHeadBytes> bytes;
  const ssize_t size = ::recv(fd_.get(), bytes.data(), bytes.size(), 0);
  if (size == 0 || (size < 0 && !would_block(errno))) close();
}

}  // namespace pinprick::http
