#include "cli/render/json_record.h"

#include <bit>
#include <utility>

#include "select/error_names.h"

namespace pinprick::cli {

// Of all records. It grows if a field gets another name or meaning, or goes.
constexpr int kRecordVersion = 1;

std::string line_of_record(Json record) {
  record["version"] = kRecordVersion;
  // Names come from files, which may contain bytes that are not UTF-8.
  return record.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void write_record(Output& output, Json record) {
  output.write(line_of_record(std::move(record)));
}

void put_record(Output& output, Json record) {
  write_record(output, std::move(record));
  output.flush();
}

Json name_fields(const ProbeName& name) {
  Json fields = {{"object", name.object},
                 {"function", text_of(name)},
                 {"address", name.address},
                 {"file", name.file}};
  if (!name.event.empty()) fields["event"] = name.event;
  if (name.at_return) fields["at"] = "return";
  if (!name.condition.empty()) fields["if"] = name.condition;
  return fields;
}

Json frames(std::string_view names) {
  Json list = Json::array();
  for (const std::string_view name : split_lines(names)) list.push_back(std::string(name));
  return list;
}

// JSON has no infinity and no NaN: they become null.
Json number(uint64_t bits, layout::NumberOrder order) {
  switch (order) {
    case layout::NumberOrder::real:
      return std::bit_cast<double>(bits);
    case layout::NumberOrder::with_sign:
      return static_cast<int64_t>(bits);
    case layout::NumberOrder::without_sign:
      break;
  }
  return bits;
}

Json number_of_error(uint64_t number) {
  const auto name = select::name_of_error(number);
  return name ? Json(*name) : Json(static_cast<int64_t>(number));
}

}  // namespace pinprick::cli
