#include "http/listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace pinprick::http {
namespace {

using Cause = ListenError::Cause;

struct SocketAddress {
  sockaddr_storage bytes = {};
  socklen_t size = 0;

  template <class T>
  T& as() {
    size = sizeof(T);
    return reinterpret_cast<T&>(bytes);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
};

// Returns nullopt if the path is too long.
std::optional<SocketAddress> socket_address(const Address& address) {
  SocketAddress socket;
  if (address.kind == Address::Kind::ip4) {
    auto& to = socket.as<sockaddr_in>();
    to.sin_family = AF_INET;
    to.sin_port = htons(address.port);
    ::inet_pton(AF_INET, address.name.c_str(), &to.sin_addr);
  } else if (address.kind == Address::Kind::ip6) {
    auto& to = socket.as<sockaddr_in6>();
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(address.port);
    ::inet_pton(AF_INET6, address.name.c_str(), &to.sin6_addr);
  } else {
    auto& to = socket.as<sockaddr_un>();
    if (address.name.size() >= sizeof to.sun_path) return std::nullopt;
    to.sun_family = AF_UNIX;
    std::memcpy(to.sun_path, address.name.c_str(), address.name.size() + 1);
  }
  return socket;
}

Fd new_socket(const SocketAddress& address) {
  return Fd(::socket(address.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Removes a socket that no program listens to. Returns EADDRINUSE if one does, and ENOTSOCK if
// the file is none.
int remove_stale(const SocketAddress& address, const std::string& path) {
  struct stat file = {};
  if (::lstat(path.c_str(), &file) != 0) return errno;
  if (!S_ISSOCK(file.st_mode)) return ENOTSOCK;
  const Fd client = new_socket(address);
  if (!client) return errno;
  if (::connect(client.get(), address.get(), address.size) == 0 || errno != ECONNREFUSED)
    return EADDRINUSE;
  return ::unlink(path.c_str()) == 0 ? 0 : errno;
}

// Returns 0 or an errno.
int bind_and_listen(int fd, const SocketAddress& address, const Address& wanted) {
  // Otherwise the port could not be used for a minute after a server has ended.
  const int on = 1;
  if (wanted.kind != Address::Kind::path)
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const auto bound = [&] { return ::bind(fd, address.get(), address.size) == 0 ? 0 : errno; };
  int error = bound();
  if (error == EADDRINUSE && wanted.kind == Address::Kind::path) {
    error = remove_stale(address, wanted.name);
    if (error == 0) error = bound();
  }
  if (error != 0) return error;
  constexpr int kWaiting = 128;
  return ::listen(fd, kWaiting) == 0 ? 0 : errno;
}

Cause cause_of(int error) {
  switch (error) {
    case EADDRINUSE:
      return Cause::in_use;
    case EACCES:
    case EPERM:
      return Cause::not_permitted;
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
      return Cause::no_address;
    case ENOTSOCK:
      return Cause::not_socket;
    default:
      return Cause::system;
  }
}

uint16_t port_of(int fd, uint16_t asked) {
  SocketAddress real;
  socklen_t size = sizeof real.bytes;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&real.bytes), &size) != 0) return asked;
  // The port lies at the same place in both kinds of addresses.
  return ntohs(reinterpret_cast<const sockaddr_in&>(real.bytes).sin_port);
}

}  // namespace

Result<Listener, ListenError> Listener::listen(const Address& address) {
  const auto refuse = [&](int error) { return fail(ListenError{cause_of(error), address, error}); };
  const auto socket = socket_address(address);
  if (!socket) return refuse(ENAMETOOLONG);
  Fd fd = new_socket(*socket);
  if (!fd) return refuse(errno);
  if (const int error = bind_and_listen(fd.get(), *socket, address); error != 0)
    return refuse(error);
  Listener listener(std::move(fd), address);
  if (address.kind != Address::Kind::path) {
    listener.address_.port = port_of(listener.fd_.get(), address.port);
    return listener;
  }
  struct stat file = {};
  if (::lstat(address.name.c_str(), &file) == 0) listener.file_.emplace(file.st_dev, file.st_ino);
  return listener;
}

Listener::~Listener() {
  struct stat file = {};
  if (fd_ && file_ && ::lstat(address_.name.c_str(), &file) == 0 &&
      *file_ == std::pair(file.st_dev, file.st_ino))
    ::unlink(address_.name.c_str());
}

Result<Fd, SystemError> Listener::accept() const {
  Fd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd) return fail(SystemError{errno});
  return fd;
}

}  // namespace pinprick::http
