#include "session/keyed_rows.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "select/spec.h"

namespace pinprick::session {
namespace {

// All rows of one function have the same one.
using FunctionName =
    std::tuple<uint32_t, std::string_view, std::string_view, uint64_t, std::string_view, uint64_t>;

FunctionName name_of_function(const Row& row) {
  return {row.measure,     row.name.object,    row.name.function,
          row.name.offset, row.name.condition, row.name.is_point ? 0 : row.name.address};
}

Distribution recorded_since(const ledger::Recorded& now, const ledger::KeyHits* before) {
  if (before == nullptr || !before->recorded) return {now.histogram, 0, now.losses};
  return {now.histogram.since(before->recorded->histogram), 0,
          now.losses.since(before->recorded->losses)};
}

}  // namespace

std::span<const ledger::KeyHits> keys_of(const std::vector<ledger::KeyHits>& all, uint64_t owner) {
  const auto begin = std::partition_point(
      all.begin(), all.end(), [&](const ledger::KeyHits& one) { return one.owner < owner; });
  const auto end = std::partition_point(
      begin, all.end(), [&](const ledger::KeyHits& one) { return one.owner == owner; });
  return {begin, end};
}

RowKey key_of_text(uint64_t number, const std::vector<ledger::ReadText>& texts) {
  if (number == layout::kUnreadText || number > texts.size()) return {.value = RowKey::kUnread};
  const ledger::ReadText& one = texts[number - 1];
  return {.value = one.is_cut ? RowKey::kCut : RowKey::kText, .text = one.text};
}

std::vector<KeyPart> parts_of_key(uint64_t number, layout::KeyParts parts,
                                  const std::vector<ledger::ReadText>& texts,
                                  const NameOfCode& name_of_code) {
  using Is = layout::KeyParts::Is;
  using Kind = KeyPart::Kind;
  if (parts.count > layout::KeyParts::kMost) return {};
  std::vector<uint64_t> numbers;
  for (size_t left = parts.count; left > 1; --left) {
    if (number == 0 || number > texts.size() || !texts[number - 1].pair) return {};
    const auto& [first, second] = *texts[number - 1].pair;
    numbers.push_back(second);
    number = first;
  }
  numbers.push_back(number);
  std::reverse(numbers.begin(), numbers.end());
  std::vector<KeyPart> all;
  for (size_t i = 0; i < numbers.size(); ++i) {
    KeyPart& part = all.emplace_back();
    if (parts.at(i) == Is::stack) {
      const Stack stack = stack_of(numbers[i], texts);
      part.kind = !stack.frames.empty()               ? Kind::stack
                  : numbers[i] == layout::kOtherTexts ? Kind::other
                                                      : Kind::unread;
      if (part.kind == Kind::stack) part.words = frame_names(stack, name_of_code);
    } else if (parts.at(i) == Is::code) {
      part.kind = Kind::words;
      part.words = name_of_code(numbers[i], 1);
    } else if (parts.at(i) != Is::text) {
      part.number = static_cast<int64_t>(numbers[i]);
    } else if (numbers[i] == layout::kOtherTexts) {
      part.kind = Kind::other;
    } else {
      const RowKey text = key_of_text(numbers[i], texts);
      part.kind = text.value == RowKey::kUnread ? Kind::unread
                  : text.value == RowKey::kCut  ? Kind::cut
                                                : Kind::words;
      part.words = text.text;
    }
  }
  return all;
}

bool has_command(const engine::ProbeName& name) {
  const auto parts = select::split_key(name.key);
  return std::any_of(parts.begin(), parts.end(), select::is_command_key);
}

void name_commands(std::vector<KeyPart>& parts, const engine::ProbeName& name,
                   const std::function<std::string_view(pid_t)>& command_of) {
  const auto names = select::split_key(name.key);
  for (size_t i = 0; i < std::min(parts.size(), names.size()); ++i) {
    if (!select::is_command_key(names[i])) continue;
    parts[i].words = command_of(static_cast<pid_t>(parts[i].number));
    parts[i].kind = KeyPart::Kind::words;
  }
}

void add_same_keys(std::vector<Row>& rows, size_t first) {
  std::map<std::optional<RowKey>, size_t> known;
  size_t end = first;
  for (size_t i = first; i < rows.size(); ++i) {
    const auto [at, is_new] = known.try_emplace(rows[i].key, end);
    if (!is_new) {
      rows[at->second].add(rows[i]);
      continue;
    }
    if (end != i) rows[end] = std::move(rows[i]);
    ++end;
  }
  rows.erase(rows.begin() + static_cast<ptrdiff_t>(end), rows.end());
}

// Each part is a letter for its kind, the length of what it has, a colon, and that.
std::string as_text(const std::vector<KeyPart>& parts) {
  constexpr std::string_view kLetters = "nwcuos";
  std::string text;
  for (const KeyPart& part : parts) {
    const std::string words =
        part.kind == KeyPart::Kind::number ? std::to_string(part.number) : part.words;
    text += kLetters[static_cast<size_t>(part.kind)] + std::to_string(words.size()) + ':' + words;
  }
  return text;
}

std::vector<KeyPart> parts_of(std::string_view text) {
  constexpr std::string_view kLetters = "nwcuos";
  std::vector<KeyPart> parts;
  while (!text.empty()) {
    const size_t kind = std::min(kLetters.find(text.front()), kLetters.size() - 1);
    size_t length = 0;
    const size_t colon = text.find(':', 1);
    if (colon == text.npos) break;
    const size_t begin = colon + 1;
    std::from_chars(text.data() + 1, text.data() + colon, length);
    KeyPart& part = parts.emplace_back();
    part.kind = static_cast<KeyPart::Kind>(kind);
    part.words = text.substr(begin, length);
    if (part.kind == KeyPart::Kind::number)
      std::from_chars(part.words.data(), part.words.data() + part.words.size(), part.number);
    text.remove_prefix(std::min(begin + length, text.size()));
  }
  return parts;
}

void add_keyed_rows(const Row& row, std::span<const ledger::KeyHits> now,
                    std::span<const ledger::KeyHits> before, std::vector<Row>& rows) {
  const size_t first = rows.size();
  Row rest = row;
  const uint64_t unread = rest.take_unread();
  auto earlier = before.begin();
  for (const ledger::KeyHits& one : now) {
    while (earlier != before.end() && earlier->key < one.key) ++earlier;
    const bool has_earlier = earlier != before.end() && earlier->key == one.key;
    Row added = {.name = row.name, .measure = row.measure, .kind = row.kind, .distribution = {}};
    added.hits = one.hits - (has_earlier ? earlier->hits : 0);
    if (row.sum)
      added.sum = layout::subtracted(one.sum, has_earlier ? earlier->sum : 0, row.name.is_sum_real);
    if (row.extremes) added.extremes = one.extremes;
    if (one.recorded)
      added.distribution = recorded_since(*one.recorded, has_earlier ? &*earlier : nullptr);
    const bool is_numbered = row.name.is_key_text || row.name.is_key_list();
    if (!row.key || (is_numbered && one.key == layout::kOtherTexts)) {
      rest.add(added);
    } else if (!has_nothing(added)) {
      added.key = RowKey{one.key};
      rows.push_back(std::move(added));
    }
  }
  const bool has_rest = rest.has_calls() || (row.key && !has_nothing(rest));
  if (has_rest || rows.size() == first) rows.push_back(std::move(rest));
  rows[first].add_unread(unread);
}

void leave_out_empty_keys(std::vector<Row>& rows) {
  if (std::none_of(rows.begin(), rows.end(), is_empty_key)) return;
  std::set<FunctionName> others;
  for (const Row& row : rows)
    if (!is_empty_key(row)) others.insert(name_of_function(row));
  std::erase_if(rows, [&](const Row& row) {
    return is_empty_key(row) && others.contains(name_of_function(row));
  });
}

size_t count_functions(const std::vector<Row>& rows) {
  if (std::none_of(rows.begin(), rows.end(), [](const Row& row) { return row.key.has_value(); }))
    return rows.size();
  std::set<FunctionName> functions;
  for (const Row& row : rows) functions.insert(name_of_function(row));
  return functions.size();
}

}  // namespace pinprick::session
