#include "cli/render/json.h"

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/render/comparison_json.h"
#include "cli/render/count_columns.h"
#include "cli/render/json_record.h"
#include "select/spec.h"

namespace pinprick::cli {
namespace {

Json filled_slots(const stats::Histogram& histogram) {
  Json slots = Json::array();
  for (uint32_t i = 0; i < histogram.cells().size(); ++i) {
    const stats::Cell& cell = histogram.cells()[i];
    if (cell.count != 0)
      slots.push_back({stats::slot_floor(i, histogram.bits()), cell.count, histogram.average(i)});
  }
  return slots;
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
      list.push_back(
          number(static_cast<uint64_t>(part.number), order_of_part(row.name.key_parts.at(i))));
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
    fields["key"] = number(*key, order_of_keys(row.name));
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
        fields["sum"] = number(*row.sum, order_of_sums(row.name));
        const auto average = average_of(row);
        fields["avg"] = average ? Json(*average) : Json(nullptr);
        if (row.extremes) {
          const auto extreme = [&](std::optional<uint64_t> bits) {
            return bits ? number(*bits, order_of_sums(row.name)) : Json(nullptr);
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
  put_record(data_, {{"type", "error"},
                     {"cause", message.cause},
                     {"message", message.text},
                     {"exit", static_cast<int>(message.exit)}});
}

void JsonRenderer::warning(const std::string& text) {
  put_record(data_, {{"type", "warning"}, {"message", text}});
}

void JsonRenderer::skipped(const ProcessName& process, const std::vector<placement::Skipped>& all) {
  for (const auto& skipped : all)
    put_record(data_, {{"type", "skipped"},
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
  write_record(data_, record);
}

void JsonRenderer::armed(const ProcessName& process, const engine::ArmReport& report,
                         uint64_t elapsed_ns, bool) {
  skipped(process, report.skipped);
  put_record(data_, {{"type", "armed"},
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
  put_record(data_, {{"type", "files_armed"},
                     {"files", figures.files},
                     {"processes", figures.present},
                     {"armed", figures.functions},
                     {"follows", figures.why_not_followed.empty()},
                     {"by_loader", figures.by_loader},
                     {"why_not_followed", figures.why_not_followed},
                     {"elapsed_ns", figures.elapsed_ns}});
}

void JsonRenderer::files_detached(const FilesFigures& figures, const engine::DisarmReport& report) {
  put_record(data_, {{"type", "files_detached"},
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
  put_record(data_, {{"type", "loaded"},
                     {"pid", process.pid},
                     {"objects", objects},
                     {"armed", report.armed},
                     {"skipped", report.skipped.size()},
                     {"elapsed_ns", elapsed_ns},
                     {"stopped_ns", report.stopped_ns}});
}

void JsonRenderer::unloaded(const ProcessName& process, const std::vector<std::string>& objects) {
  put_record(data_, {{"type", "unloaded"}, {"pid", process.pid}, {"objects", objects}});
}

void JsonRenderer::silenced(size_t calls) {
  put_record(data_, {{"type", "silenced"}, {"calls", calls}});
}

void JsonRenderer::executed(const ProcessName& process) {
  put_record(data_, {{"type", "executed"}, {"pid", process.pid}, {"command", process.command}});
}

void JsonRenderer::kept(pid_t pid, size_t probes, double) {
  put_record(data_, {{"type", "kept"}, {"pid", pid}, {"probe_count", probes}});
}

void JsonRenderer::mounted(const std::string& folder) {
  put_record(data_, {{"type", "mounted"}, {"folder", folder}});
}

void JsonRenderer::serving(const http::Address& address, const std::string& path) {
  const auto url = http::url_of(address, path);
  put_record(data_, {{"type", "serving"},
                     {"address", http::to_text(address)},
                     {"port", url ? Json(address.port) : Json()},
                     {"url", url ? Json(*url) : Json()}});
}

void JsonRenderer::function_times(const std::vector<recording::FunctionTime>& functions, size_t) {
  for (const recording::FunctionTime& one : functions)
    put_record(data_, {{"type", "function_time"},
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
  if (path.size() > 1 || !is_caller) put_record(data, std::move(record));
  for (const recording::CallNode& one : node.others) put_graph_node(data, type, one, path);
  path.pop_back();
}

}  // namespace

void JsonRenderer::call_graph(const recording::CallGraph& graph) {
  const recording::Function& function = *graph.callees.function;
  put_record(data_, {{"type", "graph"},
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
    write_record(data_, record);
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
    write_record(data_, record);
  }
  if (report.budget) {
    const session::BudgetFigures& budget = *report.budget;
    write_record(data_, {{"type", "budget_total"},
                         {"pid", report.process.pid},
                         {"limit", budget.limit},
                         {"added_ns", std::llround(budget.added_ns)},
                         {"own_ns", std::llround(budget.own_ns)},
                         {"share", budget.own_ns > 0 ? budget.added_ns / budget.own_ns : 0.0},
                         {"partial", budget.partial}});
  }
  data_.flush();
}

void JsonRenderer::budget_changed(const ProcessName& process, const session::BudgetEvent& event) {
  Json functions = Json::array();
  for (const session::BudgetEvent::Function& one : event.functions)
    functions.push_back({{"object", one.object},
                         {"function", one.name},
                         {"address", one.address},
                         {"file", one.file}});
  put_record(data_, {{"type", "budget"},
                     {"pid", process.pid},
                     {"seconds", event.seconds},
                     {"change", event.is_out ? "out" : "back"},
                     {"share", event.share},
                     {"limit", event.limit},
                     {"functions", functions}});
}

void JsonRenderer::detached(const ProcessName& process, const engine::DisarmReport& report) {
  put_record(data_, {{"type", "detached"},
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
    put_record(data_, record);
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
    put_record(data_, record);
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
  put_record(data_, record);
}

void JsonRenderer::comparison(const compare::Comparison& comparison) {
  for (Json& record : comparison_records(comparison)) write_record(data_, std::move(record));
}

void JsonRenderer::checks(const MachineRow& machine, const std::vector<CheckRow>& rows) {
  put_record(data_, {{"type", "machine"},
                     {"program", machine.version},
                     {"commit", machine.commit},
                     {"build_id", machine.build_id},
                     {"kernel", machine.kernel},
                     {"system", machine.system},
                     {"cpu", machine.cpu},
                     {"cpus", machine.cpus},
                     {"uid", machine.user}});
  for (const CheckRow& row : rows)
    put_record(data_, {{"type", "check"},
                       {"name", row.name},
                       {"health", row.health == Health::ok     ? "ok"
                                  : row.health == Health::note ? "note"
                                                               : "bad"},
                       {"finding", row.finding},
                       {"remedy", row.remedy}});
}

}  // namespace pinprick::cli
