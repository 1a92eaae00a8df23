#include "debug/calling.h"

#include <algorithm>
#include <optional>

#include "base/address.h"
#include "debug/alignment.h"

namespace pinprick::debug {
namespace {

constexpr uint64_t kWord = 8;
constexpr uint8_t kGeneral = 6, kVector = 8;
// As DWARF numbers registers: %rdi, %rsi, %rdx, %rcx, %r8, %r9.
constexpr uint64_t kArguments[kGeneral] = {5, 4, 1, 2, 8, 9};
constexpr uint64_t kFramePointer = 6, kStackPointer = 7;
constexpr int kMostMembers = 1000;
constexpr int kMostNested = 8;  // no structure of 16 bytes has more in it

// Is a structure passed by a pointer to it? Returns nullopt if that is not known.
std::optional<bool> is_passed_by_address(const Type& structure) {
  if (structure.is_of_c || structure.passed == Type::Passed::by_value) return false;
  if (structure.passed == Type::Passed::by_reference) return true;
  return std::nullopt;
}

// What the words of a structure of 16 bytes or less have in them.
struct Words {
  bool has_integer[2] = {}, has_float[2] = {};
  int members = 0;
};

// Adds what is at `offset`. Returns false if it is not known how that is passed.
bool add_words(DebugInfo& info, const Type& type, uint64_t offset, int depth, Words& words) {
  if (++words.members > kMostMembers) return false;
  using Kind = Type::Kind;
  if (depth > kMostNested || type.bytes == 0 || offset > 2 * kWord ||
      type.bytes > 2 * kWord - offset)
    return false;
  switch (type.kind) {
    case Kind::integer:
    case Kind::boolean:
    case Kind::character:
    case Kind::enumeration:
    case Kind::pointer:
    case Kind::floating_point:
      if (type.bytes > kWord || offset % type.bytes != 0) return false;
      (type.kind == Kind::floating_point ? words.has_float : words.has_integer)[offset / kWord] =
          true;
      return true;
    case Kind::array: {
      const auto element = info.target_of(type);
      if (!element || element->bytes == 0) return false;
      for (uint64_t at = 0; at + element->bytes <= type.bytes; at += element->bytes)
        if (!add_words(info, *element, offset + at, depth + 1, words)) return false;
      return true;
    }
    case Kind::structure: {
      const auto members = info.members_of(type);
      return std::ranges::all_of(members, [&](const Member& one) {
        return add_words(info, one.type, offset + one.offset, depth + 1, words);
      });
    }
    default:
      return false;
  }
}

// Is the result written to where a first, hidden argument points? Returns nullopt if that is not
// known.
std::optional<bool> returns_through_pointer(DebugInfo& info, const Type& result) {
  if (result.kind != Type::Kind::structure) return false;
  if (result.bytes > 2 * kWord) return true;
  Words words;
  if (!add_words(info, result, 0, 0, words)) return std::nullopt;
  return is_passed_by_address(result);
}

// Places one parameter after the other.
class Places {
 public:
  Places(DebugInfo& info, uint8_t general) : info_(info), general_(general) {}

  PassedParameter next(const Type& type) {
    if (type.bytes == 0) return {};
    bool is_address = false;
    if (type.kind == Type::Kind::structure) {
      const auto is_by_address = is_passed_by_address(type);
      if (!is_by_address) return {};
      is_address = *is_by_address;
    }
    const Type word = {.kind = Type::Kind::pointer, .bytes = kWord, .name = {}};
    if (is_address) return in_words({.has_integer = {true, false}}, word, true);
    if (type.bytes > 2 * kWord) return on_stack(type, false);
    Words words;
    if (!add_words(info_, type, 0, 0, words)) return {};
    return in_words(words, type, false);
  }

 private:
  PassedParameter in_words(const Words& words, const Type& type, bool is_address) {
    PassedParameter place = {.place = PassedParameter::Place::registers, .is_address = is_address};
    uint8_t general = general_, vector = vector_;
    for (uint64_t word = 0; kWord * word < type.bytes; ++word) {
      // A word of padding takes no register.
      if (!words.has_float[word] && !words.has_integer[word]) {
        place.words.push_back({});
        continue;
      }
      const bool is_vector = !words.has_integer[word];
      uint8_t& used = is_vector ? vector : general;
      if (used == (is_vector ? kVector : kGeneral)) return on_stack(type, is_address);
      ++used;
      place.words.push_back({is_vector, is_vector ? static_cast<uint8_t>(used - 1) : used});
    }
    general_ = general;
    vector_ = vector;
    return place;
  }
  PassedParameter on_stack(const Type& type, bool is_address) {
    const auto alignment = alignment_of(info_, type);
    knows_stack_ = knows_stack_ && alignment;
    if (!knows_stack_) return {};
    const uint64_t at = align_up(stack_, std::max(kWord, *alignment));
    stack_ = at + align_up(type.bytes, kWord);
    return {PassedParameter::Place::stack, {}, at, is_address};
  }

  DebugInfo& info_;
  uint8_t general_ = 0, vector_ = 0;
  uint64_t stack_ = 0;
  bool knows_stack_ = true;
};

}  // namespace

Location location_of(const PassedParameter& passed) {
  const auto of_word = [](const PassedParameter::Word& word) {
    if (!word.is_vector && word.number == 0) return Location{};
    using Step = LocationStep::Kind;
    const LocationStep step = {
        .kind = word.is_vector ? Step::vector : Step::register_,
        .number = word.is_vector ? word.number : kArguments[word.number - 1]};
    return Location{Location::Kind::value, {}, {step}};
  };
  if (passed.words.size() == 1) return of_word(passed.words.front());
  Location all = {Location::Kind::pieces, {}, {}};
  for (const auto& word : passed.words) all.pieces.push_back(of_word(word).as_piece(kWord));
  return all;
}

bool is_stored_later(const Location& location) {
  using Step = LocationStep::Kind;
  if (location.kind != Location::Kind::address) return false;
  const auto& steps = location.steps;
  const LocationStep& first = steps.front();
  if (first.kind == Step::register_)
    return first.number == kFramePointer || first.number == kStackPointer;
  if (first.kind != Step::frame_address) return false;
  // Above the return address are those that the caller has written.
  const bool is_sum =
      steps.size() == 3 && steps[1].kind == Step::number && steps[2].kind == Step::add;
  return !(steps.size() == 1 || (is_sum && static_cast<int64_t>(steps[1].number) >= 0));
}

std::vector<PassedParameter> passed_parameters(DebugInfo& info, const Function& function) {
  std::vector<PassedParameter> all(function.parameters.size());
  const auto is_hidden = returns_through_pointer(info, function.result);
  if (!is_hidden) return all;
  Places places(info, *is_hidden ? 1 : 0);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = places.next(function.parameters[i].type);
    if (all[i].place == PassedParameter::Place::unknown) break;
  }
  return all;
}

}  // namespace pinprick::debug
