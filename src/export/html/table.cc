#include "export/html/table.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <iterator>

#include "export/html/json_text.h"

namespace pinprick::exports {
namespace {

constexpr std::array<const char*, 10> kKinds = {"function", "text", "stack",    "count",
                                                "number",   "rate", "duration", "durations",
                                                "values",   "lost"};
static_assert(kKinds.size() == static_cast<size_t>(Table::Kind::lost) + 1);

}  // namespace

void Table::begin_row() {
  is_kept_ = kept_ < limits_.rows && rows_.size() < limits_.bytes;
  if (!is_kept_) {
    ++left_out_;
    return;
  }
  ++kept_;
  rows_ += rows_.empty() ? "[" : "],\n[";
  is_first_ = true;
}

void Table::put(std::string_view json) {
  if (!is_kept_) return;
  if (!is_first_) rows_ += ',';
  is_first_ = false;
  rows_ += json;
}

void Table::add(std::string_view text) {
  put(json_text(text));
}

void Table::add(uint64_t number) {
  put(fmt::format("{}", number));
}

void Table::add(double number) {
  if (!std::isfinite(number)) return add_nothing();
  put(fmt::format("{}", number));
}

void Table::add_nothing() {
  put("null");
}

// The smallest value of each slot that is not empty, the smallest of the next slot, and the number.
void Table::add(const stats::Histogram& values) {
  std::string json;
  for (uint32_t slot = 0; slot < values.cells().size(); ++slot)
    if (const uint64_t count = values.cells()[slot].count; count != 0)
      fmt::format_to(std::back_inserter(json), "{}{},{},{}", json.empty() ? "" : ",",
                     stats::slot_floor(slot, values.bits()),
                     stats::slot_floor(slot + 1, values.bits()), count);
  put("[" + json + "]");
}

std::string Table::json() const {
  std::string columns;
  for (const Column& one : columns_)
    columns += fmt::format(R"({}{{"name":{},"kind":"{}","sorts":{}}})", columns.empty() ? "" : ",",
                           json_text(one.name), kKinds[static_cast<size_t>(one.kind)], one.sorts);
  return fmt::format(R"({{"title":{},"left_out":{},"columns":[{}],"rows":[{}{}]}})",
                     json_text(title_), left_out_, columns, rows_, rows_.empty() ? "" : "]");
}

}  // namespace pinprick::exports
