// Where a server listens: an IP address and a port, or a socket in a folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pinprick::http {

struct Address {
  enum class Kind : uint8_t { ip4, ip6, path } kind = Kind::ip4;
  std::string name;   // a number; of Kind::path, the path
  uint16_t port = 0;  // 0: any that is free
};

// Parses `127.0.0.1:9467`, `localhost:9467`, `[::1]:9467` or `unix:/a/path`. Returns nullopt if it
// is none of these: other names are not looked up.
std::optional<Address> parse_address(std::string_view text);

// Returns the text that parse_address() takes.
std::string to_text(const Address& address);
// Returns a URL; nullopt for a socket in a folder, which has none.
std::optional<std::string> url_of(const Address& address, std::string_view path);

// Can only this machine reach it?
bool is_of_this_machine(const Address& address);

}  // namespace pinprick::http
