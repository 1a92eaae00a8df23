// Limits of how long the calls take that are recorded: --slower and --faster. They are conditions
// at the return of a call, and this makes such conditions of them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/messages/messages.h"

namespace pinprick::cli {

struct Limits {
  std::optional<uint64_t> slower_ns;  // calls take at least as long
  std::optional<uint64_t> faster_ns;  // calls take at most as long
  bool empty() const { return !slower_ns && !faster_ns; }
};

// A number of seconds, or with its unit after it, as times are printed: 1s, 20ms, 1.5us. Returns
// nullopt if the text is neither, or longer than some thirty years.
std::optional<uint64_t> parse_time(std::string_view text);

// Adds the limits to a point of `latency`: `F` becomes `F%return if $latency>=1ms`. A text of
// `measure` may end with limits of its own, as in `F --slower 1ms`. They replace the others.
Result<std::string, Message> with_limits(std::string_view text, Limits limits);

// Does the text end with limits?
bool has_limits(std::string_view text);

}  // namespace pinprick::cli
