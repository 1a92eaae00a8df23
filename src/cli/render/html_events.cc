#include "cli/render/html_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cli/render/event_text.h"
#include "cli/render/units.h"
#include "export/html/recorded_calls.h"
#include "image/names/frame_name.h"
#include "recording/self_times.h"

namespace pinprick::cli {
namespace {

using exports::FlameGraph;
using exports::Table;
using exports::TraceEvent;

constexpr std::string_view kBeforeFrame = "\n    ";
// All functions, points, frames and spans for whose names a page has no room.
constexpr const char* kOther = "(other)";
constexpr size_t kFrameIndent = kBeforeFrame.size() - 1;

// A line with what was told, and one for each frame of the stack, the innermost first.
std::string page_details(const session::Event& event) {
  const CallTree::Event part = in_tree(event, "");
  const bool returns = part.of == CallTree::Event::Of::ret;
  std::string text = returns ? part.result : part.call;
  if (text == "()") text.clear();
  for (const std::string& frame : part.frames) text.append(kBeforeFrame).append(frame);
  return text;
}

bool is_call(const session::Event& event) {
  return (event.name.at_return || event.has_return_event) && !event.triggers_end;
}

}  // namespace

// All that the page is made of, added up while events come.
class HtmlEventsRenderer::Collected {
 public:
  explicit Collected(exports::Page& page) : page_(page) {}

  // Returns a number for the event's function or point.
  uint32_t number_of(const session::Event& event);
  void add(const TraceEvent& event);
  void add_span(const exports::TraceThread& thread, const EventSpans::Ended& span);
  // `clocks` relate the times of events to the system's.
  void fill_page(const recording::Clocks& clocks);

 private:
  // What one function, point or span has.
  struct Figures {
    // Two bars for each power of two.
    static constexpr unsigned kBits = 1;

    uint64_t count = 0, total_ns = 0, self_ns = 0, longest_ns = 0;
    stats::Histogram durations{kBits};

    void add(uint64_t duration_ns, uint64_t self) {
      ++count;
      total_ns += duration_ns;
      self_ns += self;
      longest_ns = std::max(longest_ns, duration_ns);
      durations.record(duration_ns);
    }
  };

  struct Function {
    std::string file, name, object;
    uint64_t address = 0;
    bool is_call = false;
    uint32_t of_page = 0;  // its number there
    Figures figures = {};
  };

  // Returns the name of a frame or a span as the page has it, and its number there.
  const std::pair<const std::string, uint32_t>& on_page(std::string_view name);
  // File, address, and the name if it is no call.
  using Identity = std::tuple<std::string, uint64_t, std::string>;
  using Numbers = std::map<Identity, uint32_t>;
  Numbers::iterator add_function(const Identity& identity, const std::string& label,
                                 std::string_view object, bool is_call);
  void add_stack(const TraceEvent& event, std::string_view frames);
  Table table_of_calls() const;
  Table table_of_points() const;
  Table table_of_spans() const;

  exports::Page& page_;
  std::vector<Function> functions_;
  Numbers numbers_;
  std::unordered_map<const engine::ProbeName*, uint32_t> known_;
  std::map<std::string, uint32_t, std::less<>>
      numbers_of_names_;  // of frames and spans, as the page has them
  std::map<std::string, Figures> spans_;
  recording::SelfTimes self_times_;
  exports::RecordedCalls calls_;
  FlameGraph stacks_of_points_, stacks_of_calls_;
};

// The name of another probe may come to lie at the same address, so it is compared.
uint32_t HtmlEventsRenderer::Collected::number_of(const session::Event& event) {
  const engine::ProbeName& name = event.name;
  const bool calls = is_call(event);
  const std::string label =
      calls ? std::string(name.function) : (event.triggers_end ? "until " : "") + event_name(name);
  if (const auto known = known_.find(&name); known != known_.end()) {
    const Function& one = functions_[known->second];
    if (one.address == name.address && one.is_call == calls && one.file == name.file &&
        (calls || one.name == label))
      return known->second;
  }
  const Identity identity = {std::string(name.file), name.address, calls ? "" : label};
  auto known = numbers_.find(identity);
  if (known == numbers_.end())
    known = page_.has_room_for_functions()
                ? add_function(identity, label, name.object, calls)
                : add_function({"", 0, calls ? "" : kOther}, kOther, "", calls);
  known_[&name] = known->second;
  return known->second;
}

HtmlEventsRenderer::Collected::Numbers::iterator HtmlEventsRenderer::Collected::add_function(
    const Identity& identity, const std::string& label, std::string_view object, bool is_call) {
  const auto [number, is_new] = numbers_.try_emplace(identity, functions_.size());
  const auto& [file, address, name] = identity;
  if (is_new)
    functions_.push_back(
        {file, label, std::string(object), address, is_call, page_.add_function(label, object)});
  return number;
}

const std::pair<const std::string, uint32_t>& HtmlEventsRenderer::Collected::on_page(
    std::string_view name) {
  auto known = numbers_of_names_.find(name);
  if (known == numbers_of_names_.end() && !page_.has_room_for_functions()) {
    name = kOther;
    known = numbers_of_names_.find(name);
  }
  if (known == numbers_of_names_.end())
    known = numbers_of_names_.emplace(name, page_.add_function(name, "")).first;
  return *known;
}

void HtmlEventsRenderer::Collected::add(const TraceEvent& event) {
  Function& function = functions_[event.function];
  const bool returns = event.of == TraceEvent::Of::ret || event.of == TraceEvent::Of::call;
  uint64_t self_ns = 0;
  if (returns) {
    self_ns = self_times_.take(session::identity_of_thread(event.thread.pid, event.thread.tid),
                               event.time_ns - std::min(event.time_ns, event.latency_ns),
                               event.time_ns, event.latency_ns);
    function.figures.add(event.latency_ns, self_ns);
  } else if (event.of == TraceEvent::Of::point) {
    ++function.figures.count;
  }
  const std::string_view details = event.details.bytes();
  const size_t frames_at = details.find(kBeforeFrame);
  if (frames_at != details.npos && event.of != TraceEvent::Of::entry)
    add_stack(event, details.substr(frames_at + 1));
  calls_.add(event, function.of_page, self_ns);
}

// The innermost frame comes first.
void HtmlEventsRenderer::Collected::add_stack(const TraceEvent& event, std::string_view frames) {
  const bool is_point = event.of == TraceEvent::Of::point;
  FlameGraph& stacks = is_point ? stacks_of_points_ : stacks_of_calls_;
  const auto lines = split_lines(frames);
  uint32_t path = FlameGraph::kNoPath;
  for (size_t i = lines.size(); i-- > 0;) {
    const std::string_view frame = lines[i].substr(std::min(kFrameIndent, lines[i].size()));
    path = stacks.after(path, on_page(image::function_of_frame(frame)).second);
  }
  path = stacks.after(path, functions_[event.function].of_page);
  stacks.add(path, is_point ? 1 : event.latency_ns, 1);
}

void HtmlEventsRenderer::Collected::add_span(const exports::TraceThread& thread,
                                             const EventSpans::Ended& span) {
  const auto& [name, number] = on_page(span.name());
  spans_[name].add(span.latency_ns(), 0);
  calls_.add_span(
      thread, name,
      {.start_ns = span.start.time_ns, .duration_ns = span.latency_ns(), .function = number},
      span.start.text);
}

Table HtmlEventsRenderer::Collected::table_of_calls() const {
  using Kind = Table::Kind;
  Table table("Functions", {{"function", Kind::function},
                            {"object", Kind::text},
                            {"calls", Kind::count},
                            {"total", Kind::duration, true},
                            {"self", Kind::duration},
                            {"average", Kind::duration},
                            {"longest", Kind::duration},
                            {"durations", Kind::durations}});
  for (const Function& one : functions_) {
    if (!one.is_call || one.figures.count == 0) continue;
    table.begin_row();
    table.add(one.name);
    table.add(one.object);
    table.add(one.figures.count);
    table.add(one.figures.total_ns);
    table.add(one.figures.self_ns);
    table.add(one.figures.total_ns / one.figures.count);
    table.add(one.figures.longest_ns);
    table.add(one.figures.durations);
  }
  return table;
}

Table HtmlEventsRenderer::Collected::table_of_points() const {
  using Kind = Table::Kind;
  Table table("Events",
              {{"event", Kind::function}, {"object", Kind::text}, {"hits", Kind::count, true}});
  for (const Function& one : functions_) {
    if (one.is_call || one.figures.count == 0) continue;
    table.begin_row();
    table.add(one.name);
    table.add(one.object);
    table.add(one.figures.count);
  }
  return table;
}

Table HtmlEventsRenderer::Collected::table_of_spans() const {
  using Kind = Table::Kind;
  Table table("Spans", {{"span", Kind::function},
                        {"spans", Kind::count},
                        {"total", Kind::duration, true},
                        {"average", Kind::duration},
                        {"longest", Kind::duration},
                        {"durations", Kind::durations}});
  for (const auto& [name, figures] : spans_) {
    table.begin_row();
    table.add(name);
    table.add(figures.count);
    table.add(figures.total_ns);
    table.add(figures.total_ns / figures.count);
    table.add(figures.longest_ns);
    table.add(figures.durations);
  }
  return table;
}

void HtmlEventsRenderer::Collected::fill_page(const recording::Clocks& clocks) {
  calls_.finish();
  for (const Table& table : {table_of_calls(), table_of_spans(), table_of_points()})
    if (!table.empty()) page_.add(table);
  if (!calls_.paths().empty())
    page_.add(calls_.paths(), "Flame graph", "ns",
              calls_.unreturned() == 0
                  ? ""
                  : fmt::format("{} without a recorded return: the time of each is not known, and "
                                "only that of the calls in it counts.",
                                plural(calls_.unreturned(), "call")));
  if (!stacks_of_calls_.empty())
    page_.add(stacks_of_calls_, "Stacks by the time of calls", "ns", "");
  if (!stacks_of_points_.empty()) page_.add(stacks_of_points_, "Stacks by hits", "hits", "");
  if (calls_.timeline().empty()) return;
  page_.set_start(clocks.realtime_ns + (calls_.timeline().begin_ns() - clocks.boottime_ns));
  page_.add(calls_.timeline());
}

HtmlEventsRenderer::HtmlEventsRenderer(TextRenderer text, const std::string& path,
                                       const recording::Header& header)
    : HtmlRenderer(std::move(text), path, header.command_line),
      is_tree_(header.is_tree),
      clocks_(header.clocks),
      collected_(std::make_unique<Collected>(page())) {}

HtmlEventsRenderer::~HtmlEventsRenderer() = default;

void HtmlEventsRenderer::replays(const recording::Header& header) {
  HtmlRenderer::replays(header);
  is_tree_ = header.is_tree;
  clocks_ = header.clocks;
}

TraceEvent HtmlEventsRenderer::part_of_timeline(const session::Event& event) const {
  using Of = TraceEvent::Of;
  const bool is_entry = is_tree_ && event.has_return_event;
  return {
      .thread = {event.process.pid, event.tid, event.process.command, std::string(event.command)},
      .of = event.triggers_end     ? Of::point
            : event.name.at_return ? (is_tree_ ? Of::ret : Of::call)
            : is_entry             ? Of::entry
                                   : Of::point,
      .time_ns = clocks_.boottime_of(event.tsc),
      .latency_ns = event.latency_ns.value_or(0),
      .stack_pointer = event.stack_pointer,
      .details = exports::TraceDetails::of_bytes(page_details(event)),
      .function = collected_->number_of(event)};
}

std::string HtmlEventsRenderer::timeline(const TraceEvent& event) {
  collected_->add(event);
  return {};
}

// The command of its process is what the span needs of its end.
EventSpans::Event HtmlEventsRenderer::part_of_span(const session::Event& event) const {
  return {.thread = identity_of_thread(event),
          .span = event.span_part->span,
          .is_start = event.span_part->is_start,
          .time_ns = clocks_.boottime_of(event.tsc),
          .name = event_name(event.name),
          .text = event.span_part->is_start ? page_details(event) : std::string(event.command),
          .frames = event.span_part->is_start ? std::string() : event.process.command,
          .is_named = !event.name.event.empty()};
}

// A span counts for --limit if there is a line of it. The page is written at the end.
std::string HtmlEventsRenderer::line_of_span(const EventSpans::Ended& span) const {
  const auto [pid, tid] = session::numbers_of_thread(span.start.thread);
  collected_->add_span({pid, tid, span.end.frames, span.end.text}, span);
  return "\n";
}

void HtmlEventsRenderer::add(const Report& report) {
  if (report.kind == placement::Kind::event) add_facts_of(report);
}

void HtmlEventsRenderer::fill_page() {
  collected_->fill_page(clocks_);
}

}  // namespace pinprick::cli
