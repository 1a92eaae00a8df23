#include "cli/render/json.h"
#include "cli/render/json_record.h"

namespace pinprick::cli {

static void add_prototype(const select::Prototype& prototype, Json& record) {
  using Kind = select::Parameter::Kind;
  Json parameters = Json::array();
  for (const select::Parameter& one : prototype.parameters) {
    Json parameter = {{"name", nullptr}, {"type", one.type}, {"argument", nullptr}};
    if (!one.name.empty()) parameter["name"] = one.name;
    if (one.argument != 0) parameter["argument"] = fmt::format("$arg{}", one.argument);
    const bool is_output = one.kind == Kind::output || one.kind == Kind::output_bytes;
    if (one.kind == Kind::text) parameter["is"] = "string";
    if (one.kind == Kind::bytes) parameter["is"] = "bytes";
    if (one.kind == Kind::flags) parameter["is"] = "flags";
    if (one.kind == Kind::floating_point) parameter["is"] = "floating_point";
    if (is_output) parameter["is"] = "output";
    if (!one.length.empty()) parameter["length"] = one.length;
    parameters.push_back(std::move(parameter));
  }
  record["parameters"] = std::move(parameters);
  record["result"] = prototype.result;
  if (prototype.failure != select::Prototype::Failure::none)
    record["fails_with"] = prototype.failure == select::Prototype::Failure::null ? "NULL" : "-1";
}

void JsonRenderer::functions(const std::vector<ListRow>& rows) {
  for (const ListRow& row : rows) {
    Json record = {{"type", "function"},
                   {"object", row.object},
                   {"function", row.function},
                   {"address", row.address}};
    if (row.tactic) record["tactic"] = plan::name(*row.tactic);
    if (row.refusal) record["refused"] = plan::name(*row.refusal);
    if (row.return_refusal) record["latency_refused"] = plan::name(*row.return_refusal);
    if (row.entry) record["entry_site"] = image::name(*row.entry);
    if (row.is_timed_by_exits) record["timed_by"] = *row.is_timed_by_exits ? "exits" : "slots";
    if (row.ends_at_tail_jumps) record["ends_at_tail_jumps"] = true;
    if (row.inlined_places != 0) record["inlined_places"] = row.inlined_places;
    if (row.arguments) record["arguments"] = *row.arguments;
    if (row.wants_prototype) record["parameters"] = nullptr;
    if (row.prototype) add_prototype(*row.prototype, record);
    if (row.wants_variables) record["variables"] = nullptr;
    if (row.variables) {
      record["variables"] = Json::array();
      for (const ListRow::Variable& one : *row.variables)
        record["variables"].push_back({{"name", one.name},
                                       {"type", one.type},
                                       {"where", one.where},
                                       {"is_parameter", one.is_parameter}});
    }
    if (row.wants_lines) record["lines"] = Json::array();
    for (const ListRow::Line& one : row.lines)
      record["lines"].push_back({{"address", one.address}, {"line", one.name}});
    put_record(data_, record);
  }
}

void JsonRenderer::layouts(const std::vector<LayoutRow>& rows) {
  using Kind = debug::LayoutPart::Kind;
  constexpr uint64_t kByte = 8;
  const auto name = [](Kind kind) {
    switch (kind) {
      case Kind::member:
        return "member";
      case Kind::base:
        return "base";
      case Kind::virtual_base:
        return "virtual_base";
      case Kind::hole:
        return "hole";
      case Kind::padding:
        return "padding";
    }
    return "";
  };
  for (const LayoutRow& row : rows) {
    Json members = Json::array();
    for (const debug::LayoutPart& part : row.layout.parts) {
      Json one = {{"kind", name(part.kind)}, {"depth", part.depth}};
      const bool has_place = part.kind != Kind::virtual_base;
      if (has_place) one["offset"] = part.offset;
      if (has_place && (part.is_bit_field || part.bit_offset != 0)) one["bit"] = part.bit_offset;
      const bool is_of_bits = part.is_bit_field || part.bits % kByte != 0;
      if (has_place)
        one[is_of_bits ? "bits" : "bytes"] = is_of_bits ? part.bits : part.bits / kByte;
      if (part.kind != Kind::hole && part.kind != Kind::padding) one["type"] = part.type;
      if (part.kind == Kind::member) one["name"] = part.name;
      members.push_back(std::move(one));
    }
    put_record(data_, {{"type", "structure"},
                       {"object", row.object},
                       {"name", row.layout.name},
                       {"bytes", row.layout.bytes},
                       {"members", members}});
  }
}

void JsonRenderer::summary(const SummaryRow& row) {
  Json by_tactic = Json::object();
  Json refused = Json::object();
  for (const auto& [tactic, n] : row.summary.by_tactic) by_tactic[plan::name(tactic)] = n;
  for (const auto& [reason, n] : row.summary.refused) refused[plan::name(reason)] = n;
  put_record(data_, {{"type", "summary"},
                     {"object", row.object},
                     {"of", row.sites},
                     {"sites", row.summary.sites},
                     {"probeable", row.summary.probeable},
                     {"by_tactic", by_tactic},
                     {"refused", refused}});
}

}  // namespace pinprick::cli
