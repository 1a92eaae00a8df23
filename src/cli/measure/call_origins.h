// Numbers for who has called what: a function, and the stack of its caller, as events tell them.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "session/events.h"

namespace pinprick::cli {

class CallOrigins {
 public:
  struct Origin {
    std::string function;
    std::string stack;  // the innermost frame first, with a line end after each
  };

  // `stack` is null if the event has none.
  uint32_t number_of(std::string_view function, const session::EventValue* stack);
  // The number is one that number_of() has returned.
  const Origin& operator[](uint32_t number) const { return all_[number]; }
  size_t size() const { return all_.size(); }

 private:
  std::vector<Origin> all_;
  std::unordered_map<std::string, uint32_t> numbers_;  // by function and stack
  // The origin that a stack at this place had: texts of stacks stay where they are for long.
  std::unordered_map<const char*, uint32_t> last_at_;
};

}  // namespace pinprick::cli
