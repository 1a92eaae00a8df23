#include "compare/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "image/names/frame_name.h"
#include "image/pattern.h"
#include "select/spec.h"

namespace pinprick::compare {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kVersion = 1;

// Reads the fields of one record. What is missing has a default; what is there and wrong is noted.
class Fields {
 public:
  explicit Fields(const Json& record) : record_(record) {}

  bool are_right() const { return are_right_; }
  const Json* find(const char* name) const {
    const auto found = record_.find(name);
    return found == record_.end() ? nullptr : &*found;
  }
  uint64_t number(const char* name) {
    const Json* field = find(name);
    if (field == nullptr) return 0;
    if (!field->is_number_unsigned()) return wrong(uint64_t{0});
    return field->get<uint64_t>();
  }
  double real(const char* name) {
    const Json* field = find(name);
    if (field == nullptr) return 0;
    if (!field->is_number()) return wrong(0.0);
    const auto value = field->get<double>();
    return std::isfinite(value) ? value : wrong(0.0);
  }
  bool flag(const char* name) {
    const Json* field = find(name);
    if (field == nullptr) return false;
    if (!field->is_boolean()) return wrong(false);
    return field->get<bool>();
  }
  std::string text(const char* name) {
    const Json* field = find(name);
    if (field == nullptr) return {};
    if (!field->is_string()) return wrong(std::string());
    return field->get<std::string>();
  }
  std::string needed_text(const char* name) {
    return find(name) == nullptr ? wrong(std::string()) : text(name);
  }
  uint64_t needed_number(const char* name) {
    return find(name) == nullptr ? wrong(uint64_t{0}) : number(name);
  }
  template <class T>
  T wrong(T value) {
    are_right_ = false;
    return value;
  }

 private:
  const Json& record_;
  bool are_right_ = true;
};

std::string text_of_part(const Json& part) {
  if (part.is_string()) return part.get<std::string>();
  if (part.is_null()) return "?";
  return part.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Where code is called from moves with each build, so only the function counts.
std::string text_of_part(const Json& part, std::string_view expression) {
  std::string text = text_of_part(part);
  const bool is_code = expression == "caller" || expression == "$caller";
  return is_code ? std::string(image::function_of_frame(text)) : text;
}

std::vector<std::string> frames_of(const Json& stack) {
  std::vector<std::string> frames;
  for (const Json& frame : stack)
    frames.emplace_back(image::function_of_frame(text_of_part(frame)));
  return frames;
}

void read_key(Fields& fields, RowName& name) {
  name.by = fields.text("by");
  const Json* key = fields.find("key");
  if (key == nullptr) return;
  const auto expressions = select::split_key(name.by);
  const auto expression = [&](size_t i) {
    return i < expressions.size() ? expressions[i] : std::string_view();
  };
  if (key->is_null()) {
    name.key = fields.flag("other") ? "(other)" : fields.flag("unreadable") ? "?" : "";
  } else if (!key->is_array()) {
    name.key = text_of_part(*key, expression(0));
  } else if (expressions.size() < 2) {
    name.frames = frames_of(*key);
  } else {
    size_t i = 0;
    for (const Json& part : *key) {
      const std::string_view of = expression(i++);
      if (part.is_array())
        name.frames = frames_of(part);
      else
        name.key += (name.key.empty() ? "" : ", ") + text_of_part(part, of);
    }
  }
}

RowName read_name(Fields& fields, Kind kind) {
  RowName name;
  name.kind = kind;
  name.measure = fields.text("measure");
  name.object = image::without_version(fields.needed_text("object"));
  name.function = fields.needed_text("function");
  name.at_return = fields.text("at") == "return";
  name.condition = fields.text("if");
  if (kind == Kind::hist) name.value = fields.needed_text("value");
  if (kind == Kind::count) name.sum = fields.text("sum_of");
  read_key(fields, name);
  return name;
}

// A slot is [smallest value, calls, average value].
void read_slot(Fields& fields, const Json& slot, stats::Histogram& histogram) {
  constexpr size_t kParts = 3;
  const bool has_numbers =
      slot.is_array() && slot.size() == kParts &&
      std::all_of(slot.begin(), slot.end(), [](const Json& n) { return n.is_number_unsigned(); });
  if (!has_numbers) return (void)fields.wrong(0);
  const auto floor = slot[0].get<uint64_t>(), calls = slot[1].get<uint64_t>(),
             average = slot[2].get<uint64_t>();
  const unsigned bits = histogram.bits();
  const uint32_t number = stats::slot_of(floor, bits);
  if (stats::slot_floor(number, bits) != floor || calls == 0) return (void)fields.wrong(0);
  // Sums as no histogram has them would make averages of another slot.
  const uint64_t shifted = average >> stats::sum_shift(number, bits);
  if (shifted != 0 && calls > UINT64_MAX / shifted) return (void)fields.wrong(0);
  histogram.add(number, {calls, calls * shifted});
}

// Averages are whole numbers, so their sums are too small by up to 1 for each call. What is missing
// is known of all slots together, and goes to those that have exact sums.
void complete_sums(stats::Histogram& histogram, double total) {
  const double missing = total - histogram.sum();
  const auto calls = static_cast<double>(histogram.count());
  if (!(missing > 0) || calls <= 0) return;
  const double of_each = std::min(missing / calls, 1.0);
  const std::vector<stats::Cell> cells = histogram.cells();
  for (uint32_t slot = 0; slot < cells.size(); ++slot) {
    const uint64_t count = cells[slot].count;
    if (count == 0 || stats::sum_shift(slot, histogram.bits()) != 0) continue;
    const double added = std::floor(static_cast<double>(count) * of_each);
    histogram.add(slot, {0, std::min(static_cast<uint64_t>(added), count - 1)});
  }
}

void read_distribution(Fields& fields, const char* total, Figures& figures) {
  const uint64_t bits = fields.needed_number("bits");
  const Json* slots = fields.find("slots");
  if (bits > stats::kMaxFractionBits || slots == nullptr || !slots->is_array())
    return (void)fields.wrong(0);
  figures.histogram = stats::Histogram(static_cast<unsigned>(bits));
  for (const Json& slot : *slots) read_slot(fields, slot, figures.histogram);
  figures.total = fields.real(total);
  complete_sums(figures.histogram, figures.total);
  figures.negative = fields.number("negative");
  figures.calls = fields.needed_number("count");
  if (figures.negative > figures.calls ||
      figures.calls - figures.negative != figures.histogram.count())
    fields.wrong(0);
}

void read_losses(Fields& fields, layout::Losses& losses) {
  for (size_t i = 0; i < layout::kLosses; ++i)
    losses[static_cast<layout::Loss>(i)] = fields.number(layout::kLossWords[i].key);
}

std::optional<Kind> kind_of(std::string_view type) {
  for (const Kind kind : {Kind::count, Kind::latency, Kind::hist})
    if (type == name(kind)) return kind;
  return std::nullopt;
}

Figures read_row(Fields& fields, Kind kind) {
  Figures figures;
  figures.name = read_name(fields, kind);
  figures.seconds = fields.real("seconds");
  if (figures.seconds < 0) fields.wrong(0);
  figures.is_final = fields.flag("final");
  if (kind == Kind::count)
    figures.calls = fields.needed_number("hits");
  else
    read_distribution(fields, kind == Kind::latency ? "sum_ns" : "sum", figures);
  if (kind == Kind::count) figures.sum = fields.real("sum");
  figures.is_partial = fields.flag("partial");
  return figures;
}

Figures read_statistic(Fields& fields) {
  Figures figures;
  figures.name.kind = Kind::latency;
  figures.name.function = fields.needed_text("name");
  figures.is_final = true;
  read_distribution(fields, "sum_ns", figures);
  return figures;
}

pid_t read_pid(Fields& fields) {
  const uint64_t pid = fields.needed_number("pid");
  return pid <= INT32_MAX ? static_cast<pid_t>(pid) : fields.wrong(pid_t{0});
}

std::optional<Figures> read_figures(Fields& fields, std::string_view type) {
  const auto kind = kind_of(type);
  if (!kind && type != "statistic") return std::nullopt;
  Figures figures = kind ? read_row(fields, *kind) : read_statistic(fields);
  figures.pid = read_pid(fields);
  read_losses(fields, figures.losses);
  return figures;
}

// With --children=follow one record stands for all processes; nothing has to be put back if they
// have all ended.
bool tells_of_end(Fields& fields, std::string_view type) {
  if (type == "detached") return fields.flag("target_gone") && !fields.flag("replaced");
  const Json* files = fields.find("files");
  return type == "files_detached" && files != nullptr && files->empty() &&
         fields.number("restored") == 0 && !fields.flag("memory_left");
}

}  // namespace

const char* name(Kind kind) {
  switch (kind) {
    case Kind::count:
      return "count";
    case Kind::latency:
      return "latency";
    case Kind::hist:
      return "hist";
  }
  return "?";
}

Result<Record, Fault> parse_record(std::string_view line) {
  // Records are flat, and what lies deeper would be walked by recursion.
  constexpr int kDeepest = 16;
  bool is_too_deep = false;
  const auto look = [&](int depth, Json::parse_event_t, Json&) {
    is_too_deep = is_too_deep || depth > kDeepest;
    return !is_too_deep;
  };
  const Json json = Json::parse(line, look, false);
  if (is_too_deep) return fail(Fault::not_a_record);
  if (json.is_discarded()) return fail(Fault::not_json);
  if (!json.is_object()) return fail(Fault::not_a_record);
  Fields fields(json);
  const Json* version = fields.find("version");
  Record record;
  record.type = fields.text("type");
  if (version == nullptr || !version->is_number_unsigned() || record.type.empty())
    return fail(Fault::not_a_record);
  if (version->get<uint64_t>() != kVersion) return fail(Fault::other_version);
  record.figures = read_figures(fields, record.type);
  if (record.type == "armed") {
    record.command = fields.text("command");
    record.starts_command = fields.flag("started");
  }
  record.has_ended = tells_of_end(fields, record.type);
  if (record.type == "error") record.message = fields.text("message");
  if (record.type == "skipped") {
    record.object = image::without_version(fields.text("object"));
    record.function = fields.text("function");
  }
  if (!fields.are_right()) return fail(Fault::wrong_field);
  return record;
}

}  // namespace pinprick::compare
