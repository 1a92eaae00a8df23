#include "cli/measure/call_origins.h"

#include <fmt/format.h>

namespace pinprick::cli {
namespace {

using ValueKind = session::EventValue::Kind;

constexpr std::string_view kNoRoom = "(no room for more stacks)\n", kUnknown = "[unknown]\n";

std::string_view frames_of_value(const session::EventValue* stack) {
  if (stack == nullptr) return "";
  if (stack->kind == ValueKind::stack) return stack->words;
  return stack->kind == ValueKind::other ? kNoRoom : kUnknown;
}

}  // namespace

uint32_t CallOrigins::number_of(std::string_view function, const session::EventValue* stack) {
  const std::string_view words = frames_of_value(stack);
  const auto known = last_at_.find(words.data());
  if (known != last_at_.end()) {
    const Origin& origin = all_[known->second];
    if (origin.stack == words && origin.function == function) return known->second;
  }
  const auto [number, is_new] = numbers_.try_emplace(fmt::format("{}\n{}", function, words),
                                                     static_cast<uint32_t>(all_.size()));
  if (is_new) all_.push_back({std::string(function), std::string(words)});
  constexpr size_t kMostPlaces = 1 << 18;
  if (last_at_.size() >= kMostPlaces) last_at_.clear();
  last_at_[words.data()] = number->second;
  return number->second;
}

}  // namespace pinprick::cli
