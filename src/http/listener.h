// A socket that listens. One thread at a time uses it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/fd.h"
#include "base/result.h"
#include "http/address.h"

namespace pinprick::http {

struct ListenError {
  enum class Cause : uint8_t {
    in_use,         // another program listens there
    not_permitted,  // to this user
    no_address,     // this machine does not have it
    not_socket,     // another kind of file has the path
    system,         // `system_error`
  } cause = Cause::system;
  Address address;
  int system_error = 0;
};

class Listener {
 public:
  // Listens there. A socket in a folder whose server was killed is replaced by a new one.
  static Result<Listener, ListenError> listen(const Address& address);
  // Removes a socket that it has made in a folder, unless another one has its place by now.
  ~Listener();
  Listener(Listener&&) = default;
  Listener& operator=(Listener&&) = delete;

  int descriptor() const { return fd_.get(); }
  // With the port that the system has chosen, if it was 0.
  const Address& address() const { return address_; }
  // Returns a connection that does not block. Fails with EAGAIN if none waits.
  Result<Fd, SystemError> accept() const;

 private:
  Listener(Fd fd, Address address) : fd_(std::move(fd)), address_(std::move(address)) {}

  Fd fd_;
  Address address_;
  // Of the socket in the folder.
  std::optional<std::pair<dev_t, ino_t>> file_;
};

}  // namespace pinprick::http
