// Turns what a terminal sends into keys: the sequences of xterm, tmux, screen and the Linux
// console. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pinprick::cli::top {

struct Key {
  enum class Kind : uint8_t {
    character,
    up,
    down,
    left,
    right,
    page_up,
    page_down,
    home,
    end,
    enter,
    tab,
    backspace,
    escape,
    help,     // F1
    control,  // with a letter, which is lower-case
    other,    // a key without a meaning here
  } kind = Kind::other;
  char32_t character = 0;

  bool operator==(const Key&) const = default;
};

class KeyDecoder {
 public:
  // Returns the keys that are complete. An escape sequence or a character may come in pieces.
  std::vector<Key> feed(std::string_view bytes);

  // Is something incomplete? An ESC that nothing follows soon is the key of that name.
  bool is_waiting() const { return !rest_.empty(); }
  // Returns the keys in the incomplete rest: to be called if nothing has followed for a while.
  std::vector<Key> give_up_waiting();

 private:
  std::string rest_;
};

}  // namespace pinprick::cli::top
