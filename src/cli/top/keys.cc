#include "cli/top/keys.h"

#include <map>
#include <optional>

#include "cli/render/text_width.h"

namespace pinprick::cli::top {
namespace {

using Kind = Key::Kind;
constexpr char kEscape = '\033';
// No terminal sends a longer sequence: this is text that only starts like one.
constexpr size_t kLongestSequence = 32;

struct Step {
  std::optional<Key> key;
  size_t length = 0;  // 0: more is needed
};

Key by_final_letter(char letter) {
  static const std::map<char, Kind> kKeys = {
      {'A', Kind::up},   {'B', Kind::down}, {'C', Kind::right}, {'D', Kind::left},
      {'H', Kind::home}, {'F', Kind::end},  {'P', Kind::help},  {'M', Kind::enter}};
  const auto known = kKeys.find(letter);
  return {known == kKeys.end() ? Kind::other : known->second};
}

// Of `ESC [ NUMBER ~`, by its number.
Key by_number(std::string_view number) {
  static const std::map<std::string_view, Kind> kKeys = {
      {"1", Kind::home},  {"7", Kind::home},    {"4", Kind::end},      {"8", Kind::end},
      {"11", Kind::help}, {"5", Kind::page_up}, {"6", Kind::page_down}};
  const auto known = kKeys.find(number);
  return {known == kKeys.end() ? Kind::other : known->second};
}

// ESC [ PARAMETERS FINAL. A modifier is the parameter after a semicolon, and does not matter.
Step control_sequence(std::string_view text) {
  constexpr size_t kStart = 2;
  if (text.size() > kStart && text[kStart] == '[') {  // the Linux console's F1 to F5
    if (text.size() == kStart + 1) return {};
    return {Key{text[kStart + 1] == 'A' ? Kind::help : Kind::other}, kStart + 2};
  }
  for (size_t i = kStart; i < text.size() && i < kLongestSequence; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x20 && byte < 0x40) continue;
    // A byte that no sequence has: what came before is dropped.
    if (byte < 0x40 || byte > 0x7e) return {Key{}, i};
    const std::string_view parameters = text.substr(kStart, i - kStart);
    const Key key = text[i] == '~' ? by_number(parameters.substr(0, parameters.find(';')))
                                   : by_final_letter(text[i]);
    return {key, i + 1};
  }
  return text.size() >= kLongestSequence ? Step{Key{}, kLongestSequence} : Step{};
}

Step escape(std::string_view text) {
  if (text.size() == 1) return {};
  if (text[1] == '[') return control_sequence(text);
  if (text[1] != 'O') return {Key{Kind::escape}, 1};  // the key, and then another one
  if (text.size() == 2) return {};
  return {by_final_letter(text[2]), 3};
}

Step single(std::string_view text) {
  const char byte = text.front();
  if (byte == '\r' || byte == '\n') return {Key{Kind::enter}, 1};
  if (byte == '\t') return {Key{Kind::tab}, 1};
  if (byte == '\b' || byte == 0x7f) return {Key{Kind::backspace}, 1};
  if (byte > 0 && byte < ' ') return {Key{Kind::control, static_cast<char32_t>(byte - 1 + 'a')}, 1};
  const Decoded decoded = first_character(text);
  if (decoded.length == 0) return {};
  if (!decoded.is_valid || decoded.character == 0) return {Key{}, decoded.length};
  return {Key{Kind::character, decoded.character}, decoded.length};
}

}  // namespace

std::vector<Key> KeyDecoder::feed(std::string_view bytes) {
  rest_ += bytes;
  std::vector<Key> keys;
  while (!rest_.empty()) {
    const Step step = rest_.front() == kEscape ? escape(rest_) : single(rest_);
    if (step.length == 0) break;
    if (step.key) keys.push_back(*step.key);
    rest_.erase(0, step.length);
  }
  return keys;
}

std::vector<Key> KeyDecoder::give_up_waiting() {
  const bool is_escape = rest_ == std::string_view(&kEscape, 1);
  const bool is_empty = rest_.empty();
  rest_.clear();
  if (is_empty) return {};
  return {Key{is_escape ? Kind::escape : Kind::other}};
}

}  // namespace pinprick::cli::top
