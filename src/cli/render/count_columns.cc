#include "cli/render/count_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cli/render/text_width.h"
#include "cli/render/units.h"
#include "select/error_names.h"
#include "select/spec.h"

namespace pinprick::cli {
namespace {

constexpr size_t kLeastWidth = 7;

std::string sum_text(const Row& row) {
  return row.name.is_sum_signed && static_cast<int64_t>(*row.sum) < 0
             ? "-" + with_commas(0 - *row.sum)
             : with_commas(*row.sum);
}

// Small ones have decimals, unless they are integers.
std::string average_text(double average) {
  constexpr double kSmall = 1000;
  const double size = std::abs(average);
  const bool has_decimals = size < kSmall && average != std::round(average);
  return (average < 0 ? "-" : "") + (has_decimals ? fmt::format("{:.2f}", size) : magnitude(size));
}

}  // namespace

// As in C. A text that reads like another row stands in quotes.
static std::string shown_text(std::string_view text, bool is_cut) {
  std::string shown;
  for (const char c : text)
    if (c == '\n')
      shown += "\\n";
    else if (c == '\t')
      shown += "\\t";
    else if (c == '\r')
      shown += "\\r";
    else if (static_cast<unsigned char>(c) < ' ' || c == '\x7f')
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      shown += c;
  const bool is_ambiguous = shown.empty() || shown == "?" || shown == "(other)" ||
                            shown.ends_with("...") || shown.starts_with('"');
  if (is_ambiguous) shown = '"' + shown + '"';
  return printable(shown, true) + (is_cut ? "..." : "");
}

// `name` is what the user calls it.
static std::string shown_number(uint64_t number, bool is_signed, std::string_view name) {
  if (select::is_error_key(name))
    if (auto error = select::name_of_error(number)) return *std::move(error);
  return is_signed ? fmt::format("{}", static_cast<int64_t>(number)) : fmt::format("{}", number);
}

static std::string shown_part(const session::KeyPart& part, layout::KeyParts::Is is,
                              std::string_view name) {
  using Kind = session::KeyPart::Kind;
  switch (part.kind) {
    case Kind::number:
      return shown_number(static_cast<uint64_t>(part.number),
                          is == layout::KeyParts::Is::signed_number, name);
    case Kind::words:
    case Kind::cut:
      return shown_text(part.words, part.kind == Kind::cut);
    case Kind::unread:
      return "?";
    case Kind::other:
      return "(other)";
    case Kind::stack:
      break;
  }
  return "?";
}

bool has_stack(const Row& row) {
  const layout::KeyParts& parts = row.name.key_parts;
  for (size_t i = 0; i < parts.count; ++i)
    if (parts.at(i) == layout::KeyParts::Is::stack) return true;
  return false;
}

std::vector<std::string> frames_of(const Row& row) {
  std::vector<std::string> frames;
  if (!row.key || !row.name.is_key_list() || row.key->value != session::RowKey::kText)
    return frames;
  for (const session::KeyPart& part : session::parts_of(row.key->text)) {
    if (part.kind != session::KeyPart::Kind::stack) continue;
    for (const std::string_view name : split_lines(part.words))
      frames.push_back(printable(name, true));
  }
  return frames;
}

// Shows the part `number` of the key of a probe.
static std::string shown_part(const session::KeyPart& part, const engine::ProbeName& name,
                              size_t number) {
  const auto texts = select::split_key(name.key);
  return shown_part(part, name.key_parts.at(number), number < texts.size() ? texts[number] : "");
}

std::string key_text(const Row& row) {
  if (!row.key->value) return row.has_others() ? "(other)" : "";
  const uint64_t value = *row.key->value;
  if (row.name.is_key_list() && value == session::RowKey::kText) {
    std::string list;
    const auto parts = session::parts_of(row.key->text);
    for (size_t i = 0; i < parts.size(); ++i)
      if (parts[i].kind != session::KeyPart::Kind::stack)
        list += (list.empty() ? "" : ", ") + shown_part(parts[i], row.name, i);
    return list;
  }
  if (row.name.has_key_in_words())
    return value == session::RowKey::kUnread
               ? "?"
               : shown_text(row.key->text, value == session::RowKey::kCut);
  return shown_number(value, row.name.is_key_signed, row.name.key);
}

std::vector<std::string> key_texts(const Row& row) {
  const bool has_parts =
      row.name.is_key_list() && row.key->value && *row.key->value == session::RowKey::kText;
  if (!has_parts) return {key_text(row)};
  std::vector<std::string> texts;
  const auto parts = session::parts_of(row.key->text);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].kind != session::KeyPart::Kind::stack) {
      texts.push_back(shown_part(parts[i], row.name, i));
      continue;
    }
    std::string frames;
    for (const std::string_view name : split_lines(parts[i].words))
      frames = printable(name, true) + (frames.empty() ? "" : ";") + frames;
    texts.push_back(std::move(frames));
  }
  return texts;
}

double sum_of(const Row& row) {
  return row.name.is_sum_signed ? static_cast<double>(static_cast<int64_t>(*row.sum))
                                : static_cast<double>(*row.sum);
}

std::optional<double> average_of(const Row& row) {
  if (row.hits == 0) return std::nullopt;
  return sum_of(row) / static_cast<double>(row.hits);
}

CountColumns::CountColumns(std::span<const Row* const> rows, Sums sums)
    : first_(*rows.front()), sums_(sums) {
  constexpr size_t kLeastOfAverage = 10;
  const bool is_stack_alone = first_.name.key_parts.count == 1 && has_stack(first_);
  if (first_.key && !is_stack_alone) key_width_ = std::max(kLeastWidth, width_of(first_.name.key));
  if (first_.sum) average_width_ = std::max(kLeastOfAverage, heading_of_average().size());
  const bool has_sums = first_.sum && sums_ == Sums::with_averages;
  if (has_sums) sum_width_ = std::max(kLeastWidth, heading_of_sum().size());
  for (const Row* row : rows) {
    const bool has_no_stack = row->key && frames_of(*row).empty();
    if (row->key && (key_width_ != 0 || has_no_stack))
      key_width_ = std::max(key_width_, width_of(key_text(*row)));
    if (has_sums) sum_width_ = std::max(sum_width_, sum_text(*row).size());
  }
}

std::string CountColumns::heading_of_sum() const {
  return fmt::format("sum {}", first_.name.sum);
}

std::string CountColumns::heading_of_average() const {
  return sums_ == Sums::with_averages ? "mean" : fmt::format("avg {}", first_.name.sum);
}

std::string CountColumns::heading() const {
  return columns(first_.name.key, heading_of_sum(), heading_of_average());
}

std::string CountColumns::of(const Row& row) const {
  const auto average = row.sum ? average_of(row) : std::nullopt;
  return columns(row.key ? key_text(row) : "", row.sum ? sum_text(row) : "",
                 average ? average_text(*average) : "");
}

std::string CountColumns::columns(std::string_view key, std::string_view sum,
                                  std::string_view average) const {
  std::string text;
  if (key_width_ != 0 && first_.name.has_key_in_words())
    text += fmt::format("{}{:{}}  ", key, "", key_width_ - width_of(key));
  else if (key_width_ != 0)
    text += fmt::format("{:>{}}  ", key, key_width_);
  if (sum_width_ != 0) text += fmt::format("{:>{}} ", sum, sum_width_);
  if (average_width_ != 0) text += fmt::format("{:>{}}  ", average, average_width_);
  return text;
}

}  // namespace pinprick::cli
