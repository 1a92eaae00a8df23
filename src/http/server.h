// Serves GET and HEAD requests on one thread: a few connections at a time, each with its limits
// (http/connection.h), so that no client makes others wait for long, or takes much memory.
//
// When all connections are taken, one over which nothing goes is closed in favour of a new client;
// if there is none, the new client waits.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "http/connection.h"
#include "http/listener.h"

namespace pinprick::http {

inline constexpr size_t kMostConnections = 16;

class Server {
 public:
  // Returns what is at a path. Called by serve() once for all requests for it that have come since
  // the last look.
  using Answer = std::function<Response(const std::string& path)>;

  Server(const Listener& listener, Answer answer)
      : listener_(listener), answer_(std::move(answer)) {}

  // Serves until `interrupt` becomes readable, or until CLOCK_MONOTONIC is `until_ns`.
  void serve(int interrupt, uint64_t until_ns);

 private:
  // When something is to be done although nothing happens. `accepts`: a new client is noticed.
  uint64_t wake_ns(uint64_t now_ns, bool accepts) const;
  bool has_room(uint64_t now_ns) const;
  void accept_all(uint64_t now_ns);
  void advance(const std::vector<int>& ready, uint64_t now_ns);

  const Listener& listener_;
  Answer answer_;
  std::list<Connection> connections_;
  uint64_t accepts_from_ns_ = 0;  // there were no descriptors for a while
};

}  // namespace pinprick::http
