// Actions for tests: pattern n has the n-th kind, in a measure of its own.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "action/action.h"

namespace pinprick::action {

inline Actions actions_of(std::initializer_list<Kind> kinds) {
  std::vector<Action> all;
  std::vector<uint32_t> by_pattern;
  for (const Kind kind : kinds) {
    by_pattern.push_back(static_cast<uint32_t>(all.size()));
    all.push_back({.kind = kind, .measure = by_pattern.back()});
  }
  return {std::move(all), std::move(by_pattern)};
}

}  // namespace pinprick::action
