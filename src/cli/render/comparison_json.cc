#include "cli/render/comparison_json.h"

#include <string>

namespace pinprick::cli {
namespace {

using compare::Change;
using compare::Comparison;
using compare::Presence;
using compare::SideFigures;
using compare::SideSummary;
using Fields = nlohmann::ordered_json;

Fields or_null(std::optional<double> value) {
  return value ? Fields(*value) : Fields();
}

Fields row_name(const compare::RowName& name) {
  Fields fields = {{"of", compare::name(name.kind)}};
  if (!name.measure.empty()) fields["measure"] = name.measure;
  fields["object"] = name.object;
  fields["function"] = name.function;
  if (name.at_return) fields["at"] = "return";
  if (!name.condition.empty()) fields["if"] = name.condition;
  if (!name.value.empty()) fields["value"] = name.value;
  if (!name.by.empty()) {
    fields["by"] = name.by;
    fields["key"] = name.key;
    if (!name.frames.empty()) fields["stack"] = name.frames;
  }
  return fields;
}

// Times are in nanoseconds, which their names say; values have no unit.
Fields side_figures(const SideFigures& side, const Change& change, const Comparison& comparison) {
  const compare::Kind kind = change.name.kind;
  const std::string unit = kind == compare::Kind::latency ? "_ns" : "";
  Fields fields = {{"count", side.figures.calls}};
  if (comparison.is_rate_known)
    fields[comparison.is_per_run ? "per_run" : "per_second"] = side.per_exposure;
  if (!change.name.sum.empty()) fields["sum"] = side.figures.sum;
  if (kind == compare::Kind::count) return fields;
  fields["sum" + unit] = side.figures.total;
  fields["mean" + unit] = or_null(side.mean);
  fields["typical" + unit] = or_null(side.typical);
  fields["p50" + unit] = or_null(side.p50);
  fields["p90" + unit] = or_null(side.p90);
  fields["p99" + unit] = or_null(side.p99);
  return fields;
}

Fields findings_of(const Change& change) {
  Fields list = Fields::array();
  for (const compare::Finding& finding : change.findings) {
    const stats::Difference& difference = finding.difference;
    Fields one = {{"figure", compare::name(finding.figure)},
                  {"before", difference.before},
                  {"after", difference.after}};
    const bool has_ratio = difference.before != 0;
    one["change"] = has_ratio ? Fields(difference.change()) : Fields();
    one["low"] = has_ratio ? Fields(difference.least_change()) : Fields();
    one["high"] = has_ratio ? Fields(difference.most_change()) : Fields();
    one["p"] = difference.p;
    one["is_change"] = finding.is_change;
    list.push_back(std::move(one));
  }
  return list;
}

const char* verdict_of(const Change& change) {
  if (change.presence == Presence::appeared) return "new";
  if (change.presence == Presence::disappeared) return "gone";
  return change.is_change() ? "changed" : "same";
}

const char* noise_of(compare::Noise noise) {
  switch (noise) {
    case compare::Noise::runs:
      return "runs";
    case compare::Noise::intervals:
      return "intervals";
    case compare::Noise::calls:
      return "calls";
  }
  return "?";
}

Fields side_of(const SideSummary& side) {
  Fields losses = Fields::object();
  side.losses.for_each([&](const layout::LossWords& words, uint64_t n) {
    if (n != 0) losses[words.key] = n;
  });
  return {{"files", side.paths},         {"command", side.command}, {"seconds", side.seconds},
          {"intervals", side.intervals}, {"losses", losses},        {"partial", side.partial_rows}};
}

}  // namespace

std::vector<Fields> comparison_records(const Comparison& comparison) {
  std::vector<Fields> records;
  size_t changed = 0;
  for (const Change& change : comparison.rows) {
    Fields record = {{"type", "change"}};
    record.update(row_name(change.name));
    record["verdict"] = verdict_of(change);
    record["before"] = side_figures(change.before, change, comparison);
    record["after"] = side_figures(change.after, change, comparison);
    record["figures"] = findings_of(change);
    records.push_back(std::move(record));
    if (change.is_change()) ++changed;
  }
  Fields shifts = Fields::array();
  for (const compare::Shift& shift : comparison.shifts)
    shifts.push_back({{"of", compare::name(shift.kind)},
                      {"figure", compare::name(shift.figure)},
                      {"change", shift.change},
                      {"rows", shift.rows}});
  records.push_back({{"type", "comparison"},
                     {"before", side_of(comparison.before)},
                     {"after", side_of(comparison.after)},
                     {"noise", noise_of(comparison.noise)},
                     {"shifts", shifts},
                     {"per_run", comparison.is_per_run},
                     {"least", comparison.least},
                     {"rows", comparison.rows.size()},
                     {"changed", changed}});
  return records;
}

}  // namespace pinprick::cli
