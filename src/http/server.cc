#include "http/server.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "base/clock.h"

namespace pinprick::http {
namespace {

timespec pause_of(uint64_t wake_ns, uint64_t now_ns) {
  constexpr uint64_t kSecond = 1'000'000'000;
  const uint64_t pause = wake_ns > now_ns ? std::min(wake_ns - now_ns, 60 * kSecond) : 0;
  return {static_cast<time_t>(pause / kSecond), static_cast<long>(pause % kSecond)};
}

}  // namespace

uint64_t Server::wake_ns(uint64_t now_ns, bool accepts) const {
  uint64_t wake = accepts_from_ns_ > now_ns ? accepts_from_ns_ : UINT64_MAX;
  const bool waits_for_room = !accepts && connections_.size() >= kMostConnections;
  for (const Connection& one : connections_) {
    wake = std::min(wake, one.deadline_ns());
    if (waits_for_room) wake = std::min(wake, std::max(one.yields_from_ns(), accepts_from_ns_));
  }
  return wake;
}

bool Server::has_room(uint64_t now_ns) const {
  return connections_.size() < kMostConnections ||
         std::ranges::any_of(connections_,
                             [&](const Connection& one) { return one.yields_from_ns() <= now_ns; });
}

void Server::accept_all(uint64_t now_ns) {
  while (has_room(now_ns)) {
    auto fd = listener_.accept();
    if (!fd) {
      constexpr uint64_t kPauseNs = 100'000'000;
      // Too few descriptors, or too little memory: the client waits, and would wake us all the
      // time.
      const int error = fd.error().number;
      if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM)
        accepts_from_ns_ = now_ns + kPauseNs;
      return;
    }
    if (connections_.size() >= kMostConnections)
      connections_.erase(std::ranges::min_element(connections_, {}, &Connection::yields_from_ns));
    connections_.emplace_back(*std::move(fd), now_ns);
  }
}

void Server::advance(const std::vector<int>& ready, uint64_t now_ns) {
  std::multimap<std::string, Connection*> asked;
  for (Connection& one : connections_)
    if (std::ranges::find(ready, one.descriptor()) != ready.end())
      if (auto path = one.advance(now_ns)) asked.emplace(*std::move(path), &one);
  for (auto it = asked.begin(); it != asked.end();) {
    const Response response = answer_(it->first);
    const uint64_t answered_ns = monotonic_ns();
    const auto end = asked.upper_bound(it->first);
    for (; it != end; ++it) it->second->respond(response, answered_ns);
  }
  const uint64_t later_ns = monotonic_ns();
  for (Connection& one : connections_) one.check_time(later_ns);
  connections_.remove_if([](const Connection& one) { return one.is_over(); });
}

void Server::serve(int interrupt, uint64_t until_ns) {
  while (true) {
    const uint64_t now_ns = monotonic_ns();
    if (now_ns >= until_ns) return;
    const bool accepts = now_ns >= accepts_from_ns_ && has_room(now_ns);
    std::vector<pollfd> polled = {{interrupt, POLLIN, 0},
                                  {accepts ? listener_.descriptor() : -1, POLLIN, 0}};
    for (const Connection& one : connections_)
      polled.push_back({one.descriptor(), one.events(), 0});
    const timespec pause = pause_of(std::min(wake_ns(now_ns, accepts), until_ns), now_ns);
    if (::ppoll(polled.data(), polled.size(), &pause, nullptr) < 0 && errno != EINTR) return;
    if (polled[0].revents != 0) return;
    std::vector<int> ready;
    for (size_t i = 2; i < polled.size(); ++i)
      if (polled[i].revents != 0) ready.push_back(polled[i].fd);
    advance(ready, monotonic_ns());
    if (polled[1].revents != 0) accept_all(monotonic_ns());
  }
}

}  // namespace pinprick::http
