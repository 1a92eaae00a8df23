#include "cli/render/count_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

#include "cli/render/text_width.h"
#include "cli/render/units.h"
#include "select/error_names.h"
#include "select/spec.h"

namespace pinprick::cli {
namespace {

constexpr size_t kLeastWidth = 7;

using layout::NumberOrder;

NumberOrder order_of_numbers(bool is_signed, bool is_real) {
  return is_real     ? NumberOrder::real
         : is_signed ? NumberOrder::with_sign
                     : NumberOrder::without_sign;
}

std::string number_text(uint64_t number, const ProbeName& name) {
  const NumberOrder order = order_of_sums(name);
  if (order == NumberOrder::real) return plain_number(number, order);
  return order == NumberOrder::with_sign && static_cast<int64_t>(number) < 0
             ? "-" + with_commas(0 - number)
             : with_commas(number);
}

double as_real(uint64_t number, const ProbeName& name) {
  switch (order_of_sums(name)) {
    case NumberOrder::real:
      return std::bit_cast<double>(number);
    case NumberOrder::with_sign:
      return static_cast<double>(static_cast<int64_t>(number));
    case NumberOrder::without_sign:
      break;
  }
  return static_cast<double>(number);
}

std::string sum_text(const Row& row) {
  return row.sum ? number_text(*row.sum, row.name) : "";
}

// Where there is none, a dash says that nothing was hit.
std::string extreme_text(const Row& row, std::optional<uint64_t> extreme) {
  return extreme ? number_text(*extreme, row.name) : row.extremes ? "-" : "";
}
std::string least_text(const Row& row) {
  return extreme_text(row, least_of(row));
}
std::string greatest_text(const Row& row) {
  return extreme_text(row, greatest_of(row));
}

// Small ones have decimals, unless they are integers.
std::string average_text(double average) {
  constexpr double kSmall = 1000;
  const double size = std::abs(average);
  const bool has_decimals = size < kSmall && average != std::round(average);
  return (average < 0 ? "-" : "") + (has_decimals ? fmt::format("{:.2f}", size) : magnitude(size));
}
std::string average_text_of(const Row& row) {
  const auto average = row.sum ? average_of(row) : std::nullopt;
  return average ? average_text(*average) : "";
}

}  // namespace

NumberOrder order_of_sums(const ProbeName& name) {
  return order_of_numbers(name.is_sum_signed, name.is_sum_real);
}

NumberOrder order_of_keys(const ProbeName& name) {
  return order_of_numbers(name.is_key_signed, name.is_key_real);
}

std::string plain_number(uint64_t bits, NumberOrder order) {
  switch (order) {
    case NumberOrder::real:
      return fmt::format("{:.6g}", std::bit_cast<double>(bits));
    case NumberOrder::with_sign:
      return fmt::format("{}", static_cast<int64_t>(bits));
    case NumberOrder::without_sign:
      break;
  }
  return fmt::format("{}", bits);
}

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
static std::string shown_number(uint64_t number, NumberOrder order, std::string_view name) {
  if (select::is_error_key(name))
    if (auto error = select::name_of_error(number)) return *std::move(error);
  return plain_number(number, order);
}

NumberOrder order_of_part(layout::KeyParts::Is is) {
  using Is = layout::KeyParts::Is;
  return order_of_numbers(is == Is::signed_number, is == Is::real);
}

static std::string shown_part(const session::KeyPart& part, layout::KeyParts::Is is,
                              std::string_view name) {
  using Kind = session::KeyPart::Kind;
  switch (part.kind) {
    case Kind::number:
      return shown_number(static_cast<uint64_t>(part.number), order_of_part(is), name);
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
  return shown_number(value, order_of_keys(row.name), row.name.key);
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
  return as_real(*row.sum, row.name);
}

std::optional<double> average_of(const Row& row) {
  if (row.hits == 0) return std::nullopt;
  return sum_of(row) / static_cast<double>(row.hits);
}

std::optional<uint64_t> least_of(const Row& row) {
  if (!row.extremes || row.extremes->empty()) return std::nullopt;
  return row.extremes->least(order_of_sums(row.name));
}

std::optional<uint64_t> greatest_of(const Row& row) {
  if (!row.extremes || row.extremes->empty()) return std::nullopt;
  return row.extremes->greatest(order_of_sums(row.name));
}

double rank_of(const Row& row, const SumFigures& shown) {
  if (!row.sum) return static_cast<double>(row.hits);
  if (shown.sum) return sum_of(row);
  if (shown.average) return average_of(row).value_or(-HUGE_VAL);
  const auto extreme = shown.greatest ? greatest_of(row) : least_of(row);
  if (!extreme) return -HUGE_VAL;
  return shown.greatest ? as_real(*extreme, row.name) : -as_real(*extreme, row.name);
}

CountColumns::CountColumns(std::span<const Row* const> rows, SumFigures figures)
    : first_(*rows.front()) {
  constexpr size_t kLeastOfAverage = 10;
  const bool is_stack_alone = first_.name.key_parts.count == 1 && has_stack(first_);
  if (first_.key && !is_stack_alone) key_width_ = std::max(kLeastWidth, width_of(first_.name.key));
  for (const Row* row : rows) {
    const bool has_no_stack = row->key && frames_of(*row).empty();
    if (row->key && (key_width_ != 0 || has_no_stack))
      key_width_ = std::max(key_width_, width_of(key_text(*row)));
  }
  if (!first_.sum) return;
  const auto of = [&](std::string_view figure) {
    return fmt::format("{} {}", figure, first_.name.sum);
  };
  if (figures.sum) {
    add_column(of("sum"), sum_text, kLeastWidth, " ");
    add_column("mean", average_text_of, kLeastOfAverage);
  }
  if (figures.average) add_column(of("avg"), average_text_of, kLeastOfAverage);
  if (figures.least) add_column(of("min"), least_text, kLeastWidth);
  if (figures.greatest) add_column(of("max"), greatest_text, kLeastWidth);
  for (Column& column : numbers_)
    for (const Row* row : rows) column.width = std::max(column.width, column.text_of(*row).size());
}

void CountColumns::add_column(std::string heading, std::string (*text_of)(const Row& row),
                              size_t least_width, std::string_view after) {
  const size_t width = std::max(least_width, heading.size());
  numbers_.push_back({std::move(heading), text_of, after, width});
}

std::string CountColumns::key_column(std::string_view key) const {
  if (key_width_ == 0) return "";
  if (first_.name.has_key_in_words())
    return fmt::format("{}{:{}}  ", key, "", key_width_ - width_of(key));
  return fmt::format("{:>{}}  ", key, key_width_);
}

std::string CountColumns::heading() const {
  std::string text = key_column(first_.name.key);
  for (const Column& one : numbers_)
    text += fmt::format("{:>{}}{}", one.heading, one.width, one.after);
  return text;
}

std::string CountColumns::of(const Row& row) const {
  std::string text = key_column(row.key ? key_text(row) : "");
  for (const Column& one : numbers_)
    text += fmt::format("{:>{}}{}", one.text_of(row), one.width, one.after);
  return text;
}

std::string CountColumns::none() const {
  std::string text = key_column("");
  for (const Column& one : numbers_) text += fmt::format("{:{}}{}", "", one.width, one.after);
  return text;
}

}  // namespace pinprick::cli
