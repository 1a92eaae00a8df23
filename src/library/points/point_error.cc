#include "library/points/point_error.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

namespace pinprick::library {
namespace {

// Not a std::string: a failure for want of memory has to be told as well.
constinit thread_local std::array<char, 512> last = {};

int number_of(const Error& error) {
  switch (error.cause) {
    case Cause::debugger:
    case Cause::signal_blocked:
    case Cause::attached:
      return EBUSY;
    default:
      return error.system_error != 0 ? error.system_error : EINVAL;
  }
}

}  // namespace

PointError point_error(const Error& error) {
  return {number_of(error), error.message()};
}

int note_point_error(const PointError& error) noexcept {
  const std::string_view sentence =
      error.number == ENOMEM ? "there is no memory left" : std::string_view(error.sentence);
  const size_t length = std::min(sentence.size(), last.size() - 1);
  std::copy_n(sentence.begin(), length, last.begin());
  last[length] = '\0';
  errno = error.number;
  return -1;
}

const char* last_point_error() noexcept {
  return last.data();
}

}  // namespace pinprick::library
