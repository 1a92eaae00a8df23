#include "cli/render/json.h"

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/render/comparison_json.h"
#include "cli/render/count_columns.h"
#include "cli/render/event_text.h"
#include "select/error_names.h"
#include "select/spec.h"

namespace pinprick::cli {
namespace {

// Keys keep the order in which they are added.
using Json = nlohmann::ordered_json;

// Of all records (docs/json.md). It grows if a field gets another name or meaning, or goes.
constexpr int kRecordVersion = 1;

void write(Output& output, Json record) {
  record["version"] = kRecordVersion;
  // Names come from files, which may contain bytes that are not UTF-8.
  output.write(record.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void put(Output& output, Json record) {
  write(output, std::move(record));
  output.flush();
}

Json filled_slots(const stats::Histogram& histogram) {
  Json slots = Json::array();
  for (uint32_t i = 0; i < histogram.cells().size(); ++i) {
    const stats::Cell& cell = histogram.cells()[i];
    if (cell.count != 0)
      slots.push_back({stats::slot_floor(i, histogram.bits()), cell.count, histogram.average(i)});
  }
  return slots;
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

// Calls that were not recorded, by cause.
Json loss_fields(const layout::Losses& losses) {
  Json fields = Json::object();
  losses.for_each([&](const layout::LossWords& words, uint64_t n) { fields[words.key] = n; });
  return fields;
}

// What is said of times, besides what they are of.
Json time_fields(const stats::Histogram& h, const layout::Losses& losses) {
  Json fields = {{"count", h.count()}};
  fields.update(loss_fields(losses));
  fields.update({{"sum_ns", h.sum()},
                 {"p50_ns", h.quantile(0.5)},
                 {"p90_ns", h.quantile(0.9)},
                 {"p99_ns", h.quantile(0.99)},
                 {"p999_ns", h.quantile(0.999)},
                 {"max_ns", h.maximum()},
                 {"bits", h.bits()},
                 {"slots", filled_slots(h)}});
  return fields;
}

// What is said of the time of calls without the calls within them.
Json self_fields(const stats::Histogram& h) {
  return {{"self_ns", h.sum()},
          {"self_p50_ns", h.quantile(0.5)},
          {"self_p99_ns", h.quantile(0.99)},
          {"self_max_ns", h.maximum()},
          {"self_slots", filled_slots(h)}};
}

Json value_fields(const Row& row) {
  const auto& h = row.histogram();
  const auto quantile = [&](double p) {
    const auto value = row.quantile(p);
    return value ? Json(*value) : Json();
  };
  const bool all_negative = row.negative() != 0 && h.count() == 0;
  return {{"value", row.name.value},
          {"count", row.count()},
          {"negative", row.negative()},
          {"missed", row.lost(layout::Loss::missed)},
          {"unread", row.lost(layout::Loss::unread)},
          {"sum", h.sum()},
          {"p50", quantile(0.5)},
          {"p90", quantile(0.9)},
          {"p99", quantile(0.99)},
          {"p999", quantile(0.999)},
          {"max", all_negative ? Json() : Json(h.maximum())},
          {"bits", h.bits()},
          {"slots", filled_slots(h)}};
}

Json number(uint64_t value, bool is_signed) {
  return is_signed ? Json(static_cast<int64_t>(value)) : Json(value);
}

Json frames(std::string_view names) {
  Json list = Json::array();
  for (const std::string_view name : split_lines(names)) list.push_back(std::string(name));
  return list;
}

// An error number is told by its name, if it has one.
Json number_of_error(uint64_t number) {
  const auto name = select::name_of_error(number);
  return name ? Json(*name) : Json(static_cast<int64_t>(number));
}

Json key_list(const Row& row) {
  using Kind = session::KeyPart::Kind;
  Json list = Json::array();
  const auto parts = session::parts_of(row.key->text);
  const auto names = select::split_key(row.name.key);
  for (size_t i = 0; i < parts.size(); ++i) {
    const session::KeyPart& part = parts[i];
    if (part.kind == Kind::number && i < names.size() && select::is_error_key(names[i]))
      list.push_back(number_of_error(static_cast<uint64_t>(part.number)));
    else if (part.kind == Kind::number)
      list.push_back(number(static_cast<uint64_t>(part.number),
                            row.name.key_parts.at(i) == layout::KeyParts::Is::signed_number));
    else if (part.kind == Kind::stack)
      list.push_back(frames(part.words));
    else if (part.kind == Kind::words || part.kind == Kind::cut)
      list.push_back(part.words + (part.kind == Kind::cut ? "..." : ""));
    else
      list.push_back(Json());
  }
  return list;
}

Json key_fields(const Row& row) {
  const auto& key = row.key->value;
  Json fields = {{"by", row.name.key}, {"key", Json()}};
  if (row.name.is_key_list() && key == session::RowKey::kText) {
    const Json list = key_list(row);
    fields["key"] = list.size() == 1 ? list.front() : list;
    return fields;
  }
  if (key && !row.name.has_key_in_words() && select::is_error_key(row.name.key))
    fields["key"] = number_of_error(*key);
  else if (key && !row.name.has_key_in_words())
    fields["key"] = number(*key, row.name.is_key_signed);
  else if (key && *key != session::RowKey::kUnread)
    fields["key"] = std::string(row.key->text) + (*key == session::RowKey::kCut ? "..." : "");
  else if (key)
    fields["unreadable"] = true;
  else if (row.has_others())
    fields["other"] = true;
  if (row.name.has_key_in_words() && key && *key == session::RowKey::kCut) fields["cut"] = true;
  return fields;
}

Json row_fields(const Row& row) {
  Json fields = name_fields(row.name);
  if (row.key) fields.update(key_fields(row));
  switch (row.kind) {
    case placement::Kind::count:
      fields["hits"] = row.hits;
      if (row.sum) {
        fields["sum_of"] = row.name.sum;
        fields["sum"] = number(*row.sum, row.name.is_sum_signed);
        const auto average = average_of(row);
        fields["avg"] = average ? Json(*average) : Json(nullptr);
        if (row.extremes) {
          const auto extreme = [&](std::optional<uint64_t> bits) {
            return bits ? number(*bits, row.name.is_sum_signed) : Json(nullptr);
          };
          fields["min"] = extreme(least_of(row));
          fields["max"] = extreme(greatest_of(row));
        }
      }
      if (row.distribution) fields.update(loss_fields(row.distribution->losses));
      break;
    case placement::Kind::latency:
    case placement::Kind::span:
      fields.update(time_fields(row.histogram(), row.distribution->losses));
      if (row.self_time) fields.update(self_fields(*row.self_time));
      break;
    case placement::Kind::value:
      fields.update(value_fields(row));
      if (row.name.at_return) fields.update(loss_fields(row.distribution->losses));
      break;
    case placement::Kind::event:
      fields["events"] = row.hits;
      if (row.sample) fields.update({{"every", row.sample->every}, {"hits", row.sample->hits}});
      if (row.lacks_older_events) fields["older_overwritten"] = true;
      fields.update(loss_fields(row.distribution->losses));
      break;
  }
  return fields;
}

const char* type_of_record(placement::Kind kind) {
  switch (kind) {
    case placement::Kind::count:
      return "count";
    case placement::Kind::latency:
    case placement::Kind::span:
      return "latency";
    case placement::Kind::value:
      return "hist";
    case placement::Kind::event:
      return "events";
  }
  return "?";
}

const char* state_name(SessionRow::State state) {
  switch (state) {
    case SessionRow::State::live:
      return "live";
    case SessionRow::State::orphaned:
      return "orphaned";
    case SessionRow::State::kept:
      return "kept";
    case SessionRow::State::left_behind:
      return "left_behind";
    case SessionRow::State::target_gone:
      return "target_gone";
    case SessionRow::State::own:
      return "own";
  }
  return "?";
}

const char* kind_name(session::StatisticFigures::Kind kind) {
  using Kind = session::StatisticFigures::Kind;
  switch (kind) {
    case Kind::calls:
      return "call";
    case Kind::span:
      return "span";
    case Kind::gaps:
      return "gap";
    case Kind::recorded:
      return "recorded";
  }
  return "?";
}

}  // namespace

void JsonRenderer::error(const Message& message) {
  put(data_, {{"type", "error"},
              {"cause", message.cause},
              {"message", message.text},
              {"exit", static_cast<int>(message.exit)}});
}

void JsonRenderer::warning(const std::string& text) {
  put(data_, {{"type", "warning"}, {"message", text}});
}

void JsonRenderer::skipped(const ProcessName& process, const std::vector<placement::Skipped>& all) {
  for (const auto& skipped : all)
    put(data_, {{"type", "skipped"},
                {"pid", process.pid},
                {"object", skipped.match.object->name()},
                {"function", skipped.match.name()},
                {"address", skipped.match.address()},
                {"file", skipped.match.object->path()},
                {"reason", plan::name(skipped.refusal.reason)},
                {"message", plan::sentence(skipped.refusal)}});
}

void JsonRenderer::dry_run(const DryRunRow& row) {
  const session::DryRun& run = row.run;
  skipped(run.process, run.skipped);
  Json tactics = Json::object();
  for (const auto& [tactic, sites] : run.by_tactic)
    tactics[std::string(plan::name(tactic))] = sites;
  Json record = {{"type", "dry_run"},
                 {"pid", run.process.pid},
                 {"command", run.process.command},
                 {"would_arm", run.functions},
                 {"skipped", run.skipped.size()},
                 {"tactics", std::move(tactics)},
                 {"may_unwind_elsewhere", run.may_unwind_elsewhere}};
  if (row.rate)
    record.update({{"seconds", row.rate->seconds},
                   {"hits", row.rate->hits},
                   {"ns_per_hit", row.rate->ns_per_hit},
                   {"cpu_share", row.rate->share_of_cpu()}});
  write(data_, record);
}

void JsonRenderer::armed(const ProcessName& process, const engine::ArmReport& report,
                         uint64_t elapsed_ns, bool) {
  skipped(process, report.skipped);
  put(data_, {{"type", "armed"},
              {"pid", process.pid},
              {"command", process.command},
              {"armed", report.armed},
              {"skipped", report.skipped.size()},
              {"elapsed_ns", elapsed_ns},
              {"stopped_ns", report.stopped_ns},
              {"stub_bytes", report.stub_bytes},
              {"trapped", report.trapped},
              {"rseq", !report.locked},
              {"started", starts_command_}});
}

void JsonRenderer::files_armed(const FilesFigures& figures, bool) {
  put(data_, {{"type", "files_armed"},
              {"files", figures.files},
              {"processes", figures.present},
              {"armed", figures.functions},
              {"follows", figures.why_not_followed.empty()},
              {"by_loader", figures.by_loader},
              {"why_not_followed", figures.why_not_followed},
              {"elapsed_ns", figures.elapsed_ns}});
}

void JsonRenderer::files_detached(const FilesFigures& figures, const engine::DisarmReport& report) {
  put(data_, {{"type", "files_detached"},
              {"files", figures.files},
              {"processes", figures.processes},
              {"executed", figures.caught},
              {"late", figures.late},
              {"let_through", figures.let_through},
              {"left_alone", figures.left_alone},
              {"restored", report.restored},
              {"foreign", report.foreign},
              {"memory_left", report.memory_left},
              {"hooks_left", report.hooks_left},
              {"forked", report.forked},
              {"forked_left", report.forked_left}});
}

void JsonRenderer::loaded(const ProcessName& process, const std::vector<std::string>& objects,
                          const engine::ArmReport& report, uint64_t elapsed_ns) {
  skipped(process, report.skipped);
  put(data_, {{"type", "loaded"},
              {"pid", process.pid},
              {"objects", objects},
              {"armed", report.armed},
              {"skipped", report.skipped.size()},
              {"elapsed_ns", elapsed_ns},
              {"stopped_ns", report.stopped_ns}});
}

void JsonRenderer::unloaded(const ProcessName& process, const std::vector<std::string>& objects) {
  put(data_, {{"type", "unloaded"}, {"pid", process.pid}, {"objects", objects}});
}

void JsonRenderer::silenced(size_t calls) {
  put(data_, {{"type", "silenced"}, {"calls", calls}});
}

void JsonRenderer::executed(const ProcessName& process) {
  put(data_, {{"type", "executed"}, {"pid", process.pid}, {"command", process.command}});
}

void JsonRenderer::kept(pid_t pid, size_t probes, double) {
  put(data_, {{"type", "kept"}, {"pid", pid}, {"probe_count", probes}});
}

void JsonRenderer::mounted(const std::string& folder) {
  put(data_, {{"type", "mounted"}, {"folder", folder}});
}

void JsonRenderer::serving(const http::Address& address, const std::string& path) {
  const auto url = http::url_of(address, path);
  put(data_, {{"type", "serving"},
              {"address", http::to_text(address)},
              {"port", url ? Json(address.port) : Json()},
              {"url", url ? Json(*url) : Json()}});
}

EventSpans::Event JsonRenderer::part_of_span(const session::Event& event) const {
  return {.thread = identity_of_thread(event),
          .span = event.span_part->span,
          .is_start = event.span_part->is_start,
          .time_ns = event.time_ns,
          .name = name_fields(event.name)["function"],
          .text = line_of(event)};
}

// As a call's at its return, with the place and the values of the start.
std::string JsonRenderer::line_of_span(const EventSpans::Ended& span) const {
  Json record = Json::parse(span.start.text);
  record["function"] = span.start.name + ".." + span.end.name;
  record["time_ns"] = span.end.time_ns;
  record["latency_ns"] = span.latency_ns();
  return record.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void JsonRenderer::span_figures(const EventSpans::Figures& figures) {
  put(data_, {{"type", "spans"},
              {"repeated_starts", figures.repeated},
              {"unmatched_ends", figures.unmatched},
              {"open", figures.open}});
}

void JsonRenderer::function_times(const std::vector<recording::FunctionTime>& functions, size_t) {
  for (const recording::FunctionTime& one : functions)
    put(data_, {{"type", "function_time"},
                {"object", one.object},
                {"function", one.function},
                {"address", one.address},
                {"file", one.file},
                {"calls", one.calls},
                {"total_ns", one.total_ns},
                {"self_ns", one.self_ns},
                {"longest_ns", one.longest_ns}});
}

namespace {

// `path` leads from the outermost function to this one.
void put_graph_node(Output& data, const char* type, const recording::CallNode& node,
                    std::vector<std::string>& path) {
  path.emplace_back(node.function->function);
  const bool is_caller = std::string_view(type) == "graph_caller";
  Json record = {{"type", type}};
  record["path"] = is_caller ? Json(std::vector(path.rbegin(), path.rend())) : Json(path);
  record["calls"] = node.calls;
  record["total_ns"] = node.total_ns;
  if (!is_caller) record["self_ns"] = node.self_ns;
  if (path.size() > 1 || !is_caller) put(data, std::move(record));
  for (const recording::CallNode& one : node.others) put_graph_node(data, type, one, path);
  path.pop_back();
}

}  // namespace

void JsonRenderer::call_graph(const recording::CallGraph& graph) {
  const recording::Function& function = *graph.callees.function;
  put(data_, {{"type", "graph"},
              {"object", function.object},
              {"function", function.function},
              {"address", function.address},
              {"file", function.file},
              {"calls", graph.callees.calls},
              {"total_ns", graph.callees.total_ns},
              {"self_ns", graph.callees.self_ns},
              {"inner_calls", graph.inner_calls},
              {"without_caller", graph.outermost_calls}});
  std::vector<std::string> path;
  put_graph_node(data_, "graph_caller", graph.callers, path);
  put_graph_node(data_, "graph_callee", graph.callees, path);
}

namespace {

// The paths of those values of an event that are cut, could not be read, or found no room.
struct Lacks {
  Json cut = Json::array(), unreadable = Json::array(), other = Json::array();
};

Json json_of(const session::EventValue& one, const std::string& path, Lacks& lacks);

Json members_of(const session::EventValue& structure, const std::string& path, Lacks& lacks) {
  Json members = Json::object();
  for (const session::EventValue& one : structure.inner) {
    std::string name = one.name.empty() ? fmt::format("{}", members.size()) : std::string(one.name);
    // A class may have members of the same names as its base classes.
    if (members.contains(name)) name += fmt::format("#{}", members.size());
    members[name] = json_of(one, path + "." + name, lacks);
  }
  if (structure.is_cut) lacks.cut.push_back(path);
  return members;
}

Json elements_of(const session::EventValue& list, const std::string& path, Lacks& lacks) {
  Json elements = Json::array();
  for (const session::EventValue& one : list.inner)
    elements.push_back(json_of(one, fmt::format("{}[{}]", path, elements.size()), lacks));
  return {{"size", list.number}, {"elements", std::move(elements)}};
}

// A variant without members is a text, its name. That of one member without a name is an object
// with that value; others have objects, or arrays, of their members.
Json variant_of(const session::EventValue& one, const std::string& path, Lacks& lacks) {
  const std::string name(one.words);
  if (one.inner.empty() && !one.is_cut) return name;
  const std::string inner_path = path + "." + name;
  if (one.inner.empty() || !one.inner.front().name.empty())
    return {{name, members_of(one, inner_path, lacks)}};
  if (one.is_cut) lacks.cut.push_back(path);
  if (one.inner.size() == 1) return {{name, json_of(one.inner.front(), inner_path, lacks)}};
  Json parts = Json::array();
  for (const session::EventValue& part : one.inner)
    parts.push_back(json_of(part, fmt::format("{}[{}]", inner_path, parts.size()), lacks));
  return {{name, std::move(parts)}};
}

Json json_of(const session::EventValue& one, const std::string& path, Lacks& lacks) {
  using Kind = session::EventValue::Kind;
  switch (one.kind) {
    case Kind::number:
    case Kind::signed_number:
    case Kind::hexadecimal:
      return number(one.number, one.kind == Kind::signed_number);
    case Kind::character:
      return number(static_cast<uint8_t>(one.number), false);
    case Kind::floating:
      return std::bit_cast<double>(one.number);
    case Kind::error:
      return number_of_error(one.number);
    case Kind::cut:
      lacks.cut.push_back(path);
      return std::string(one.words);
    case Kind::words:
    case Kind::code:
      return std::string(one.words);
    case Kind::none:
      if (one.is_cut) lacks.cut.push_back(path);
      break;
    case Kind::stack:
      return frames(one.words);
    case Kind::unread:
      lacks.unreadable.push_back(path);
      break;
    case Kind::other:
      lacks.other.push_back(path);
      break;
    case Kind::members:
      return members_of(one, path, lacks);
    case Kind::elements:
      return elements_of(one, path, lacks);
    case Kind::variant:
      return variant_of(one, path, lacks);
  }
  return {};
}

}  // namespace

// After the values come the names of those that are cut, unreadable and so on, by reason.
std::string JsonRenderer::line_of(const session::Event& event) const {
  Json record = {{"type", "event"},
                 {"pid", event.process.pid},
                 {"tid", event.tid},
                 {"command", std::string(event.command)},
                 {"time_ns", event.time_ns}};
  record.update(name_fields(event.name));
  Json values = Json::object();
  Lacks lacks;
  for (const session::EventValue& one : event.values) {
    if (one.format != nullptr && !one.format->has_value) continue;
    if (is_error_of_result(one) && one.number == 0) continue;
    // Two values of one expression may have different types.
    const std::string name(values.contains(name_of(one)) ? one.text : name_of(one));
    values[name] = json_of(one, name, lacks);
  }
  record["values"] = std::move(values);
  if (auto words = in_words(event)) record["text"] = *std::move(words);
  if (event.triggers_end) record["until"] = true;
  if (event.latency_ns) record["latency_ns"] = *event.latency_ns;
  if (!lacks.cut.empty()) record["cut"] = std::move(lacks.cut);
  if (!lacks.unreadable.empty()) record["unreadable"] = std::move(lacks.unreadable);
  if (!lacks.other.empty()) record["other"] = std::move(lacks.other);
  record["version"] = kRecordVersion;
  return record.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void JsonRenderer::dumped(const Dump& dump) {
  using Cause = Dump::Cause;
  Json record = {{"type", "dump"},
                 {"number", dump.number},
                 {"cause", dump.cause == Cause::hit       ? "until"
                           : dump.cause == Cause::request ? "request"
                           : dump.cause == Cause::key     ? "key"
                           : dump.cause == Cause::left    ? "left"
                                                          : "end"},
                 {"time_ns", dump.time_ns},
                 {"events", dump.events},
                 {"dropped", dump.dropped}};
  if (dump.cause == Cause::left) record["controller"] = dump.recorder;
  if (dump.lacks_older_events) record["older_overwritten"] = true;
  if (const auto& hit = dump.trigger)
    record["until"] = {{"function", hit->point},
                       {"pid", hit->pid},
                       {"tid", hit->tid},
                       {"command", hit->command},
                       {"time_ns", hit->time_ns}};
  record["pause_ns"] = dump.pause_ns ? Json(*dump.pause_ns) : Json();
  put(data_, std::move(record));
}

// What two runs have in common has the same build ID, or file, and the same address.
void JsonRenderer::coverage(const Report& report) {
  for (const Row& row : report.rows) {
    Json record = {{"type", "coverage"},
                   {"pid", report.process.pid},
                   {"seconds", report.seconds},
                   {"final", report.is_final}};
    record.update(name_fields(row.name));
    record["build_id"] = row.name.build_id;
    record["executed"] = row.has_calls();
    write(data_, record);
  }
  data_.flush();
}

namespace {

Json times_of(const std::vector<session::Absence>& absences) {
  Json times = Json::array();
  for (const session::Absence& one : absences)
    times.push_back({one.from_s, one.until_s ? Json(*one.until_s) : Json()});
  return times;
}

}  // namespace

void JsonRenderer::report(const Report& report) {
  if (report.coverage) return coverage(report);
  for (const Row& row : report.rows) {
    Json record = {{"type", type_of_record(row.kind)},
                   {"pid", report.process.pid},
                   {"seconds", report.seconds},
                   {"final", report.is_final}};
    if (!report.name.empty()) record["measure"] = report.name;
    record.update(row_fields(row));
    if (row.absences) {
      record["partial"] = true;
      // Those of many processes have no start in common.
      if (report.process.pid != 0) record["out"] = times_of(*row.absences);
    }
    write(data_, record);
  }
  if (report.budget) {
    const session::BudgetFigures& budget = *report.budget;
    write(data_, {{"type", "budget_total"},
                  {"pid", report.process.pid},
                  {"limit", budget.limit},
                  {"added_ns", std::llround(budget.added_ns)},
                  {"own_ns", std::llround(budget.own_ns)},
                  {"share", budget.own_ns > 0 ? budget.added_ns / budget.own_ns : 0.0},
                  {"partial", budget.partial}});
  }
  data_.flush();
}

void JsonRenderer::leaks(const LeakReport& report) {
  const Json common = {
      {"seconds", report.seconds}, {"final", report.is_final}, {"sample", report.sample}};
  for (const LeakRow& row : report.rows) {
    Json record = {{"type", "leak"}};
    record.update(common);
    record.update({{"function", row.function},
                   {"stack", frames(row.stack)},
                   {"bytes", row.bytes},
                   {"blocks", row.blocks},
                   {"oldest_ns", row.oldest_ns}});
    write(data_, record);
  }
  Json total = {{"type", "leaks"}};
  total.update(common);
  total.update({{"bytes", report.bytes},
                {"blocks", report.blocks},
                {"least_age_ns", report.least_age_ns},
                {"young_bytes", report.young_bytes},
                {"young_blocks", report.young_blocks},
                {"allocated", report.allocated},
                {"freed", report.freed},
                {"unknown_freed", report.tells_unknown ? Json(report.unknown_freed) : Json()},
                {"reused", report.reused},
                {"no_room", report.no_room},
                {"dropped", report.dropped}});
  put(data_, total);
}

static Json fields_of(const LockUse& use, const LockReport& report) {
  const auto held = [&](uint64_t number) { return report.tells_holding ? Json(number) : Json(); };
  return {{"taken", use.taken},
          {"not_taken", use.not_taken},
          {"waits", use.waits},
          {"waited_ns", use.waited_ns},
          {"longest_wait_ns", use.longest_wait_ns},
          {"holds", held(use.holds)},
          {"held_ns", held(use.held_ns)},
          {"longest_hold_ns", held(use.longest_hold_ns)}};
}

void JsonRenderer::locks(const LockReport& report) {
  const Json common = {{"seconds", report.seconds}, {"final", report.is_final}};
  for (const auto* const rows : {&report.locks, &report.conditions})
    for (const LockRow& row : *rows) {
      Json record = {{"type", "lock"}};
      record.update(common);
      record.update({{"pid", row.pid},
                     {"kind", row.type},
                     {"address", row.address},
                     {"name", row.name.empty() ? Json() : Json(row.name)},
                     {"signals", row.signals}});
      record.update(fields_of(row.use, report));
      Json stacks = Json::array();
      for (const LockRow::ByStack& one : row.by_stack) {
        Json of_stack = {{"function", one.function}, {"stack", frames(one.stack)}};
        of_stack.update(fields_of(one.use, report));
        stacks.push_back(of_stack);
      }
      record["stacks"] = stacks;
      write(data_, record);
    }
  for (const LockOrder& order : report.orders) {
    Json steps = Json::array();
    for (const LockOrder::Step& step : order.steps)
      steps.push_back({{"thread", step.thread},
                       {"held", step.held},
                       {"taken", step.taken},
                       {"held_stack", frames(step.held_stack)},
                       {"taken_stack", frames(step.taken_stack)}});
    Json record = {{"type", "lock_order"}};
    record.update(common);
    record.update({{"pid", order.pid}, {"steps", steps}});
    write(data_, record);
  }
  Json total = {{"type", "locks"}};
  total.update(common);
  total.update({{"locks", report.locks.size()},
                {"conditions", report.conditions.size()},
                {"orders", report.orders.size()},
                {"least_wait_ns", report.least_wait_ns},
                {"unknown_releases", report.unknown_releases},
                {"unseen_releases", report.unseen_releases},
                {"no_room", report.no_room},
                {"no_room_for_stacks", report.no_room_for_stacks},
                {"no_room_for_orders", report.no_room_for_orders},
                {"dropped", report.dropped}});
  put(data_, total);
}

static Json fields_of(const session::LockWait& wait) {
  return {{"thread", wait.thread},
          {"thread_name", wait.thread_name},
          {"kind", session::word_of(wait.kind)},
          {"address", wait.lock},
          {"lock", wait.lock_name},
          {"owner", wait.owner == 0 ? Json() : Json(wait.owner)},
          {"owner_name", wait.owner_name},
          {"owner_has_ended", wait.owner_has_ended},
          {"gives_up", wait.gives_up},
          {"stack", wait.stack},
          {"owner_stack", wait.owner_stack}};
}

void JsonRenderer::deadlocks(const session::LockWaits& waits) {
  for (const std::vector<size_t>& ring : waits.deadlocks) {
    Json threads = Json::array();
    for (const size_t i : ring) threads.push_back(fields_of(waits.waits[i]));
    put(data_, {{"type", "deadlock"}, {"pid", waits.process.pid}, {"threads", threads}});
  }
}

void JsonRenderer::lock_waits(const session::LockWaits& waits) {
  for (const session::LockWait& wait : waits.waits) {
    Json record = {{"type", "lock_wait"}, {"pid", waits.process.pid}};
    record.update(fields_of(wait));
    write(data_, record);
  }
  deadlocks(waits);
  put(data_, {{"type", "lock_waits"},
              {"pid", waits.process.pid},
              {"threads", waits.threads},
              {"waits", waits.waits.size()},
              {"deadlocks", waits.deadlocks.size()}});
}

void JsonRenderer::budget_changed(const ProcessName& process, const session::BudgetEvent& event) {
  Json functions = Json::array();
  for (const session::BudgetEvent::Function& one : event.functions)
    functions.push_back({{"object", one.object},
                         {"function", one.name},
                         {"address", one.address},
                         {"file", one.file}});
  put(data_, {{"type", "budget"},
              {"pid", process.pid},
              {"seconds", event.seconds},
              {"change", event.is_out ? "out" : "back"},
              {"share", event.share},
              {"limit", event.limit},
              {"functions", functions}});
}

void JsonRenderer::detached(const ProcessName& process, const engine::DisarmReport& report) {
  put(data_, {{"type", "detached"},
              {"pid", process.pid},
              {"restored", report.restored},
              {"foreign", report.foreign},
              {"gone", report.gone},
              {"released", report.released},
              {"threads_inside", report.threads_inside},
              {"calls_abandoned", report.calls_abandoned},
              {"calls_ended", report.calls_ended},
              {"kept_slot_bytes", report.kept_slot_bytes},
              {"kept_stub_bytes", report.kept_stub_bytes},
              {"is_filtered", report.is_filtered},
              {"memory_left", report.memory_left},
              {"hooks_left", report.hooks_left},
              {"target_gone", report.target_gone},
              {"replaced", report.replaced},
              {"forked", report.forked},
              {"forked_left", report.forked_left},
              {"stopped_ns", report.stopped_ns}});
}

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
    put(data_, record);
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
    put(data_, {{"type", "structure"},
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
  put(data_, {{"type", "summary"},
              {"object", row.object},
              {"of", row.sites},
              {"sites", row.summary.sites},
              {"probeable", row.summary.probeable},
              {"by_tactic", by_tactic},
              {"refused", refused}});
}

void JsonRenderer::sessions(const std::vector<SessionRow>& rows) {
  for (const SessionRow& row : rows) {
    Json probes = Json::array();
    for (const Row& one : row.rows) probes.push_back(row_fields(one));
    for (const std::string& probe : row.own_probes) probes.push_back({{"name", probe}});
    Json record = {{"type", "session"},
                   {"pid", row.process.pid},
                   {"command", row.process.command},
                   {"state", state_name(row.state)},
                   {"file", row.file},
                   {"age_s", row.age_s},
                   {"sites", row.sites},
                   {"probes", probes}};
    record["controller"] = row.controller;
    record["forked"] = row.forked;
    record["replaced"] = row.is_replaced;
    if (row.has_events) record["has_events"] = true;
    if (!row.statistic.empty()) record["statistic"] = row.statistic;
    if (row.slots)
      record["slots"] = {{"in_use", row.slots->in_use},
                         {"abandoned", row.slots->abandoned},
                         {"most", row.slots->most},
                         {"room", row.slots->room}};
    put(data_, record);
  }
}

void JsonRenderer::calls(const ProcessName& process, const std::vector<session::TimedCall>& calls,
                         uint64_t) {
  for (const session::TimedCall& call : calls) {
    Json record = {{"type", "call"},
                   {"pid", process.pid},
                   {"object", call.function.object},
                   {"function", call.function.function},
                   {"address", call.function.address},
                   {"file", call.function.file},
                   {"span", call.is_span},
                   {"age_ns", call.age_ns}};
    if (call.thread != 0) {
      record["tid"] = call.thread;
      record["thread"] = call.thread_name;
    }
    if (call.caller)
      record["caller"] = {{"name", call.caller->text()},
                          {"object", call.caller->object},
                          {"address", call.caller->address},
                          {"file", call.caller->file}};
    put(data_, record);
  }
  data_.flush();
}

void JsonRenderer::statistic_names(pid_t pid,
                                   const std::vector<session::StatisticFigures>& statistics) {
  for (const auto& one : statistics) statistic(pid, one, {});
}

void JsonRenderer::statistic(pid_t pid, const session::StatisticFigures& statistic, StatisticForm) {
  stats::Histogram sum(statistic.bits);
  Json cpus = Json::array();
  for (const auto& [cpu, histogram] : statistic.by_cpu) {
    sum.merge(histogram);
    cpus.push_back(
        {{"cpu", cpu}, {"count", histogram.count()}, {"slots", filled_slots(histogram)}});
  }
  layout::Losses losses = statistic.losses;
  const bool is_gap = statistic.kind == session::StatisticFigures::Kind::gaps;
  uint64_t unmatched_starts = 0;
  if (is_gap) std::swap(losses[layout::Loss::unmatched], unmatched_starts);
  Json fields = time_fields(sum, losses);
  fields["unmatched_starts"] = unmatched_starts;
  Json record = {{"type", "statistic"},
                 {"pid", pid},
                 {"name", statistic.name},
                 {"of", statistic.what},
                 {"kind", kind_name(statistic.kind)},
                 {"running", statistic.is_running},
                 {"gone", statistic.is_gone},
                 {"created_ns", statistic.created_ns}};
  if (!statistic.file.empty()) {
    record["address"] = statistic.address;
    record["file"] = statistic.file;
  }
  record.update(fields);
  record["cpus"] = cpus;
  put(data_, record);
}

void JsonRenderer::comparison(const compare::Comparison& comparison) {
  for (Json& record : comparison_records(comparison)) write(data_, std::move(record));
}

void JsonRenderer::checks(const MachineRow& machine, const std::vector<CheckRow>& rows) {
  put(data_, {{"type", "machine"},
              {"program", machine.version},
              {"commit", machine.commit},
              {"build_id", machine.build_id},
              {"kernel", machine.kernel},
              {"system", machine.system},
              {"cpu", machine.cpu},
              {"cpus", machine.cpus},
              {"uid", machine.user}});
  for (const CheckRow& row : rows)
    put(data_, {{"type", "check"},
                {"name", row.name},
                {"health", row.health == Health::ok     ? "ok"
                           : row.health == Health::note ? "note"
                                                        : "bad"},
                {"finding", row.finding},
                {"remedy", row.remedy}});
}

}  // namespace pinprick::cli
