// One request and its response, over a socket that does not block. A connection has a limited time
// and limited memory for both, whatever its client does: it closes after one response.
//
// One thread at a time uses it. Nothing here fails: a connection with an error is over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/fd.h"
#include "http/request.h"

namespace pinprick::http {

struct Response {
  Status status = Status::ok;
  std::string type = "text/plain; charset=utf-8";
  // Connections may share it.
  std::shared_ptr<const std::string> content;
};
// Returns a response that says the status.
Response response_of(Status status);

// From the connection to the whole request, from then on to the end of the response, and from then
// on until the client closes.
inline constexpr uint64_t kRequestNs = 5'000'000'000;
inline constexpr uint64_t kResponseNs = 30'000'000'000;
inline constexpr uint64_t kClosingNs = 1'000'000'000;
// A connection may be closed in favour of another one if its request is not complete after this
// time, or if its client has read nothing for so long.
inline constexpr uint64_t kIdleNs = 500'000'000;

class Connection {
 public:
  Connection(Fd fd, uint64_t now_ns)
      : fd_(std::move(fd)), deadline_ns_(now_ns + kRequestNs), moved_ns_(now_ns) {}

  int descriptor() const { return fd_.get(); }
  // Returns the events of poll() that it waits for: POLLIN or POLLOUT.
  short events() const;
  bool is_over() const { return state_ == State::over; }

  // Reads or writes what is possible now. Returns the path that a complete request asks for, to be
  // answered by respond(). Other requests than GET and HEAD, and wrong ones, are answered here.
  std::optional<std::string> advance(uint64_t now_ns);
  void respond(const Response& response, uint64_t now_ns);

  // Ends it if its time is over.
  void check_time(uint64_t now_ns);
  uint64_t deadline_ns() const { return deadline_ns_; }
  // From when on it may be closed in favour of another one.
  uint64_t yields_from_ns() const;
  void close() { state_ = State::over; }

 private:
  enum class State : uint8_t { reading, sending, closing, over };
  std::optional<std::string> read_request(uint64_t now_ns);
  void send_response(uint64_t now_ns);
  // Lets the client read the response before the connection is closed: closing a socket from which
  // not everything was read would take it from the client.
  void begin_closing(uint64_t now_ns);
  void read_rest();

  Fd fd_;
  State state_ = State::reading;
  uint64_t deadline_ns_;
  uint64_t moved_ns_;  // when it began, or when the client read something last
  bool wants_content_ = true;
  std::string received_;
  std::string head_;
  std::shared_ptr<const std::string> content_;
  size_t sent_ = 0;  // of head and content
};

}  // namespace pinprick::http
