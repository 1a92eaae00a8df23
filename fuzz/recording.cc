// Recordings, as files that come from elsewhere: the records of a chunk, and the file around them.
#include <zstd.h>

#include <cstring>
#include <span>

#include "fuzzer.h"
#include "recording/call_graph.h"
#include "recording/call_paths.h"
#include "recording/function_times.h"
#include "recording/reader.h"
#include "recording/run_figures.h"
#include "recording/writer.h"

namespace {

using namespace pinprick;

// Looks at all that it is given.
class Look : public recording::Sink {
 public:
  explicit Look(const recording::Header& header)
      : run_(header, [this](auto rows, double seconds) { look(rows, seconds); }),
        tree_(true, header.clocks.ns_multiplier),
        calls_(false, header.clocks.ns_multiplier) {}

  void event(const session::Event& event) override {
    ends_ = ends_ || event.triggers_end;
    bytes += event.command.size() + event.name.function.size() + event.process.command.size();
    for (const session::EventValue& one : event.values) look(one);
    times_.add(event);
    run_.event(event);
    for (recording::CallPaths* const paths : {&tree_, &calls_}) paths->add(event);
  }
  void told_until(uint64_t tsc) override {
    times_.told_until(tsc);
    run_.told_until(tsc);
    for (recording::CallPaths* const paths : {&tree_, &calls_}) paths->told_until(tsc);
  }
  void report(const session::Report& report) override {
    for (const session::Row& row : report.rows) bytes += row.name.file.size() + row.hits;
    run_.report(report);
  }
  void finish() {
    uint64_t calls = 0;
    for (const auto& one : times_.finish()) {
      CHECK(one.self_ns <= one.total_ns || one.calls > 1);
      calls += one.calls;
    }
    run_.finish();
    CHECK(calls_of_run_ == calls || ends_);
    for (recording::CallPaths* const paths : {&tree_, &calls_}) {
      paths->finish();
      const auto called = recording::called_functions(*paths, [](const auto&) { return true; });
      if (called.empty()) continue;
      const auto graph = recording::graph_of(*paths, called.front(), {.top = 2, .least = 0.1});
      CHECK(graph.callers.calls == graph.callees.calls);
      CHECK(graph.callers.total_ns == graph.callees.total_ns);
    }
  }
  uint64_t bytes = 0;

 private:
  void look(const session::EventValue& value) {
    bytes += value.name.size() + value.text.size() + value.words.size();
    if (value.format != nullptr) bytes += value.format->before.size();
    for (const session::EventValue& one : value.inner) look(one);
  }
  void look(std::span<recording::RunFigures::Row* const> rows, double seconds) {
    CHECK(seconds >= 0);
    for (const auto* const row : rows) {
      CHECK(row->count != 0);
      if (row->has_times) calls_of_run_ += row->count;
    }
  }

  recording::FunctionTimes times_;
  recording::RunFigures run_;
  recording::CallPaths tree_, calls_;
  uint64_t calls_of_run_ = 0;
  bool ends_ = false;  // with a hit of --until, of which the times alone know nothing
};

void read(std::string bytes) {
  auto reader = recording::Reader::of(std::move(bytes));
  if (!reader) return;
  Look look(reader->header());
  for (;;) {
    const auto more = reader->read_chunk(look);
    if (!more || !*more) break;
  }
  look.finish();
}

// A recording with one event of each sort.
std::string small_recording() {
  recording::Header header = {.version = "pinprick 0",
                              .command_line = "pinprick record f",
                              .clocks = {1000, 1, 2, 3, uint64_t{1} << 32},
                              .patterns = {"f"}};
  recording::Writer writer(header);
  const session::ProcessName process = {7, "program"};
  const action::Field::Words words = {"n is ", "", true};
  const std::vector<session::EventValue> inner = {
      {.name = "x", .kind = session::EventValue::Kind::number, .number = 3}};
  const std::vector<session::EventValue> values = {
      {.name = "a", .text = "$arg1", .number = 12},
      {.text = "t:string", .kind = session::EventValue::Kind::words, .words = "text"},
      {.name = "s", .kind = session::EventValue::Kind::members, .inner = inner, .is_cut = true},
      {.name = "e", .kind = session::EventValue::Kind::elements, .number = 9, .inner = inner},
      {.name = "v", .kind = session::EventValue::Kind::variant, .words = "Some", .inner = inner},
      {.kind = session::EventValue::Kind::signed_number, .number = ~uint64_t{4}, .format = &words}};
  const engine::ProbeName name = {.object = "m", .function = "f", .file = "/m", .address = 16};
  const engine::ProbeName at_return = {
      .object = "m", .function = "f", .at_return = true, .file = "/m", .address = 16};
  writer.add({process, 2000, 5, 8, 1, "thread", name, values, {}, true, {}, 4096});
  writer.told_until(2000);
  writer.add({process, 3000, 6, 8, 1, "thread", at_return, {}, 1000});
  writer.add({process, 3100, 7, 8, {}, "thread", name, {}, {}, false, {{1, true}}});
  session::Report report;
  report.process = process;
  report.kind = placement::Kind::event;
  report.seconds = 2;
  session::Row& row = report.rows.emplace_back();
  row.name = name;
  row.kind = placement::Kind::event;
  row.hits = 3;
  row.sample = {10, 30};
  writer.add(report);
  return writer.finish();
}

// Returns the contents of its chunks in their order: the first one is the header.
std::vector<std::string> contents(const std::string& file) {
  std::vector<std::string> all;
  for (size_t at = recording::kMagic.size() + 1; at < file.size();) {
    uint32_t sizes[2];
    std::memcpy(sizes, file.data() + at, sizeof sizes);
    std::string content(sizes[1], '\0');
    CHECK(ZSTD_decompress(content.data(), content.size(), file.data() + at + sizeof sizes,
                          sizes[0]) == content.size());
    all.push_back(std::move(content));
    at += sizeof sizes + sizes[0];
  }
  return all;
}

std::string chunk_of(const uint8_t* data, size_t size) {
  std::string bytes(ZSTD_compressBound(size), '\0');
  const size_t compressed = ZSTD_compress(bytes.data(), bytes.size(), data, size, 1);
  bytes.resize(compressed);
  const uint32_t sizes[2] = {static_cast<uint32_t>(compressed), static_cast<uint32_t>(size)};
  return std::string(reinterpret_cast<const char*>(sizes), sizeof sizes) + bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string file = small_recording();
  static const size_t header = recording::kMagic.size() + 1 + [] {
    uint32_t compressed = 0;
    std::memcpy(&compressed, file.data() + recording::kMagic.size() + 1, sizeof compressed);
    return 2 * sizeof(uint32_t) + compressed;
  }();
  if (size == 0) return 0;
  read(std::string(reinterpret_cast<const char*>(data), size));
  read(file.substr(0, header) + chunk_of(data, size));
  read(file.substr(0, recording::kMagic.size() + 1) + chunk_of(data, size));
  return 0;
}

std::vector<Input> seeds() {
  const std::string file = small_recording();
  std::vector<Input> all = {pinprick::fuzz::text(file)};
  for (const std::string& one : contents(file)) all.push_back(pinprick::fuzz::text(one));
  return all;
}
