#include "http/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <charconv>

namespace pinprick::http {
namespace {

constexpr std::string_view kUnix = "unix:";

bool is_number(int family, const std::string& name) {
  in6_addr address = {};
  return ::inet_pton(family, name.c_str(), &address) == 1;
}

}  // namespace

std::optional<Address> parse_address(std::string_view text) {
  using Kind = Address::Kind;
  if (text.starts_with(kUnix)) {
    text.remove_prefix(kUnix.size());
    if (text.empty() || text.find('\0') != text.npos) return std::nullopt;
    return Address{Kind::path, std::string(text), 0};
  }
  const size_t colon = text.rfind(':');
  if (colon == text.npos) return std::nullopt;
  uint16_t port = 0;
  const std::string_view digits = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  std::string name(text.substr(0, colon));
  if (name == "localhost") name = "127.0.0.1";
  if (name.starts_with('[') && name.ends_with(']')) {
    name = name.substr(1, name.size() - 2);
    if (is_number(AF_INET6, name)) return Address{Kind::ip6, std::move(name), port};
    return std::nullopt;
  }
  if (is_number(AF_INET, name)) return Address{Kind::ip4, std::move(name), port};
  return std::nullopt;
}

std::string to_text(const Address& address) {
  switch (address.kind) {
    case Address::Kind::ip4:
      return fmt::format("{}:{}", address.name, address.port);
    case Address::Kind::ip6:
      return fmt::format("[{}]:{}", address.name, address.port);
    case Address::Kind::path:
      break;
  }
  return fmt::format("{}{}", kUnix, address.name);
}

std::optional<std::string> url_of(const Address& address, std::string_view path) {
  if (address.kind == Address::Kind::path) return std::nullopt;
  return fmt::format("http://{}{}", to_text(address), path);
}

bool is_of_this_machine(const Address& address) {
  if (address.kind == Address::Kind::path) return true;
  if (address.kind == Address::Kind::ip4) {
    in_addr number = {};
    return ::inet_pton(AF_INET, address.name.c_str(), &number) == 1 &&
           ntohl(number.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  in6_addr number = {};
  if (::inet_pton(AF_INET6, address.name.c_str(), &number) != 1) return false;
  // ::ffff:127.0.0.1 is 127.0.0.1.
  return IN6_IS_ADDR_LOOPBACK(&number) ||
         (IN6_IS_ADDR_V4MAPPED(&number) && number.s6_addr[12] == IN_LOOPBACKNET);
}

}  // namespace pinprick::http
