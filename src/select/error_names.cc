#include "select/error_names.h"

#include <cstring>

namespace pinprick::select {
namespace {

constexpr int kLast = 133;  // EHWPOISON

}  // namespace

std::optional<std::string> name_of_error(uint64_t number) {
  const bool is_int = number >> 32 == 0;
  const int64_t value = is_int ? static_cast<int32_t>(number) : static_cast<int64_t>(number);
  if (value == 0 || value < -kLast || value > kLast) return std::nullopt;
  const char* const name = ::strerrorname_np(static_cast<int>(value < 0 ? -value : value));
  if (name == nullptr) return std::nullopt;
  return (value < 0 ? "-" : "") + std::string(name);
}

std::optional<uint64_t> error_named(std::string_view name) {
  if (name == "EWOULDBLOCK") name = "EAGAIN";
  if (name == "ENOTSUP") name = "EOPNOTSUPP";
  if (name == "EDEADLOCK") name = "EDEADLK";
  for (int number = 1; number <= kLast && name.starts_with('E'); ++number)
    if (const char* const known = ::strerrorname_np(number); known != nullptr && name == known)
      return number;
  return std::nullopt;
}

}  // namespace pinprick::select
