// Recordings: what was written is read, and what is no recording is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "recording/format.h"
#include "recording/reader.h"
#include "recording/writer.h"

namespace pinprick::recording {
namespace {

using session::EventValue;
using Kind = EventValue::Kind;

Header header() {
  return {.version = "pinprick 1.2",
          .command_line = "pinprick record f",
          .clocks = {.tsc = 5000,
                     .boottime_ns = 11,
                     .monotonic_ns = 12,
                     .realtime_ns = 1'700'000'000'000'000'000,
                     .ns_multiplier = uint64_t{3} << 31},
          .patterns = {"f $arg1", "g"},
          .is_regex = true,
          .is_tree = true,
          .has_until = true,
          .after_ns = 77,
          .slower_ns = 0,
          .faster_ns = {}};
}

// Returns all that an event says, as words that can be compared.
std::string in_words(const EventValue& value) {
  std::string text = std::string(value.name) + "/" + std::string(value.text) + "/" +
                     std::to_string(static_cast<int>(value.kind)) + "/" +
                     std::to_string(value.number) + "/" + std::string(value.words) +
                     (value.is_cut ? "..." : "");
  if (value.format != nullptr)
    text += "<" + value.format->before + "|" + value.format->after +
            (value.format->has_value ? "+>" : ">");
  for (const EventValue& one : value.inner) text += "{" + in_words(one) + "}";
  return text;
}

std::string in_words(const session::Event& event) {
  std::string text = std::to_string(event.process.pid) + event.process.command + " " +
                     std::to_string(event.tsc) + " " + std::to_string(event.time_ns) + " " +
                     std::to_string(event.tid) + std::string(event.command) + "@" +
                     std::to_string(event.cpu.value_or(99)) + " ";
  const engine::ProbeName& name = event.name;
  for (const std::string_view one :
       {name.object, name.function, name.condition, name.file, name.build_id, name.event})
    text += std::string(one) + ",";
  text += std::to_string(name.address) + "," + std::to_string(name.site) + "," +
          std::to_string(name.offset) + "," + std::to_string(name.is_point) +
          std::to_string(name.at_return) + std::to_string(name.is_shared) +
          std::to_string(event.has_return_event) + std::to_string(event.triggers_end) + " " +
          std::to_string(event.latency_ns.value_or(1)) + " " + std::to_string(event.stack_pointer);
  if (event.span_part)
    text += " span " + std::to_string(event.span_part->span) +
            (event.span_part->is_start ? "start" : "end");
  for (const EventValue& one : event.values) text += " [" + in_words(one) + "]";
  return text;
}

class Collected : public Sink {
 public:
  void event(const session::Event& event) override { events.push_back(in_words(event)); }
  void told_until(uint64_t tsc) override { marks.push_back(tsc); }
  void report(const session::Report& report) override {
    for (const session::Row& row : report.rows) {
      std::string text = std::to_string(report.process.pid) + report.process.command + " " +
                         std::to_string(report.seconds) + " " + std::string(row.name.function) +
                         " " + std::to_string(row.hits) +
                         (row.lacks_older_events ? " lacks older" : "");
      if (row.sample)
        text += " " + std::to_string(row.sample->every) + ":" + std::to_string(row.sample->hits);
      row.distribution->losses.for_each([&](const layout::LossWords& words, uint64_t count) {
        if (count != 0) text += std::string(" ") + words.key + "=" + std::to_string(count);
      });
      rows.push_back(text);
    }
  }
  std::vector<std::string> events, rows;
  std::vector<uint64_t> marks;
};

// Reads all of it, and says how that ended.
struct End {
  bool is_complete = false;
  std::optional<ReadError::Cause> error = {};
};
End read_all(const std::string& bytes, Collected& to) {
  auto reader = Reader::of(bytes);
  if (!reader) return {.error = reader.error().cause};
  for (;;) {
    const auto more = reader->read_chunk(to);
    if (!more) return {.error = more.error().cause};
    if (!*more) return {.is_complete = reader->is_complete()};
  }
}

// A value of any kind, with others in it.
EventValue any_value(std::mt19937_64& random, const std::deque<std::string>& texts, int depth) {
  constexpr Kind kKinds[] = {Kind::number,  Kind::signed_number, Kind::hexadecimal, Kind::words,
                             Kind::code,    Kind::error,         Kind::stack,       Kind::cut,
                             Kind::none,    Kind::unread,        Kind::other,       Kind::floating,
                             Kind::members, Kind::elements,      Kind::character,   Kind::variant};
  EventValue value;
  value.kind = kKinds[random() % std::size(kKinds)];
  const auto any_text = [&]() -> std::string_view { return texts[random() % texts.size()]; };
  value.name = any_text();
  switch (value.kind) {
    case Kind::number:
    case Kind::signed_number:
    case Kind::hexadecimal:
    case Kind::error:
    case Kind::floating:
    case Kind::character:
      value.number = random() >> random() % 64;
      break;
    case Kind::code:
      value.number = random();
      [[fallthrough]];
    case Kind::words:
    case Kind::stack:
    case Kind::cut:
    case Kind::none:
      value.words = any_text();
      break;
    case Kind::unread:
    case Kind::other:
      break;
    case Kind::elements:
      value.number = random() % 100;
      [[fallthrough]];
    case Kind::members:
    case Kind::variant:
      if (value.kind == Kind::variant) value.words = any_text();
      value.is_cut = random() % 2 == 0;
      for (uint64_t n = depth < 3 ? random() % 4 : 0; n != 0; --n)
        value.inner.push_back(any_value(random, texts, depth + 1));
  }
  return value;
}

TEST(Recording, HasTheEventsInTheirOrderWithAllThatTheySay) {
  std::mt19937_64 random(9);
  std::deque<std::string> texts = {"", "x", "a longer text",
                                   std::string(kLongestNumberedText + 1, 'l'),
                                   std::string("zero \0 inside", 13)};
  for (int i = 0; i < 50; ++i) texts.push_back("text " + std::to_string(i));
  const session::ProcessName processes[] = {{7, "one"}, {8, "two"}, {7, "renamed"}};
  const action::Field::Words words[] = {{"before ", " after", true}, {"alone", "", false}};
  std::vector<engine::ProbeName> names(20);
  for (size_t i = 0; i < names.size(); ++i)
    names[i] = {.object = texts[i % 7],
                .function = texts[i],
                .offset = i % 3,
                .condition = texts[i % 4],
                .is_point = i % 5 == 0,
                .at_return = i % 2 == 0,
                .file = texts[i % 6],
                .build_id = texts[1],
                .address = i << 40,
                .is_shared = i % 7 == 0,
                .event = texts[i % 3],
                .site = i << 50};
  Writer writer(header());
  std::string file;
  std::vector<std::string> written;
  uint64_t tsc = 5000, time_ns = 1'700'000'000'000'000'000;
  for (int i = 0; i < 20'000; ++i) {
    // Clocks of rings that are read one after the other go back, too.
    tsc += random() % 5000 - (random() % 100 == 0 ? 100'000 : 0);
    time_ns += random() % 3000;
    std::vector<EventValue> values;
    for (uint64_t n = random() % 4; n != 0; --n) {
      values.push_back(any_value(random, texts, 0));
      values.back().text = texts[random() % 5];
      if (random() % 4 == 0) values.back().format = &words[random() % 2];
    }
    std::optional<action::Action::SpanPart> span;
    if (random() % 10 == 0) span = {static_cast<uint32_t>(random()), random() % 2 == 0};
    std::optional<uint64_t> latency_ns;
    if (random() % 2 == 0) latency_ns = random() >> random() % 64;
    const session::Event event = {
        processes[random() % 3],
        tsc,
        time_ns,
        static_cast<pid_t>(random() % 3),
        random() % 3 == 0 ? std::nullopt : std::optional(static_cast<uint32_t>(random() % 4)),
        texts[4 + random() % 9],
        names[random() % names.size()],
        values,
        latency_ns,
        random() % 2 == 0,
        span,
        random() % 3 == 0 ? random() : 0,
        random() % 100 == 0};
    writer.add(event);
    written.push_back(in_words(event));
    if (random() % 10 == 0)
      file += writer.take(random() % 2 == 0 ? Writer::Rest::comes : Writer::Rest::waits);
  }
  file += writer.finish();
  Collected read;
  const End end = read_all(file, read);
  EXPECT_TRUE(end.is_complete);
  ASSERT_EQ(read.events.size(), written.size());
  for (size_t i = 0; i < written.size(); ++i) ASSERT_EQ(read.events[i], written[i]) << i;
}

TEST(Recording, SaysHowItWasMade) {
  Writer writer(header());
  const auto reader = Reader::of(writer.finish());
  ASSERT_TRUE(reader);
  const Header& found = reader->header();
  EXPECT_EQ(found.version, header().version);
  EXPECT_EQ(found.command_line, header().command_line);
  EXPECT_EQ(found.clocks.tsc, 5000u);
  EXPECT_EQ(found.clocks.boottime_ns, 11u);
  EXPECT_EQ(found.clocks.ns_multiplier, uint64_t{3} << 31);
  EXPECT_EQ(found.patterns, header().patterns);
  EXPECT_TRUE(found.is_regex && found.is_tree && found.has_until);
  EXPECT_EQ(found.after_ns, 77u);
  EXPECT_EQ(found.slower_ns, 0u);
  EXPECT_EQ(found.faster_ns, std::nullopt);
  EXPECT_EQ(found.clocks.boottime_of(5000 + 4), 11u + 6);
  EXPECT_EQ(found.clocks.boottime_of(5000 - 4), 11u - 6);
}

std::string with_one_event(Writer& writer, uint64_t tsc) {
  static const session::ProcessName process = {7, "one"};
  static const engine::ProbeName name = {.object = "m", .function = "f", .file = "/m"};
  const session::Event event = {process, tsc, 1, 7, {}, "one", name, {}};
  writer.add(event);
  return in_words(event);
}

TEST(Recording, HasFiguresAndLossesAndSaysUpToWhereEventsAreComplete) {
  Writer writer(header());
  with_one_event(writer, 6000);
  writer.told_until(5999);
  session::Report report;
  report.process = {7, "one"};
  report.kind = placement::Kind::event;
  report.seconds = 2.5;
  session::Row row;
  row.name.function = "f";
  row.kind = placement::Kind::event;
  row.hits = 12;
  row.sample = session::Sample{10, 120};
  row.lacks_older_events = true;
  row.distribution = session::Distribution{stats::Histogram(0), 0, {}};
  row.distribution->losses[layout::Loss::dropped] = 5;
  row.distribution->losses[layout::Loss::missed] = 6;
  session::Row other;
  other.name.function = "g";
  other.kind = placement::Kind::event;
  other.hits = 1;
  report.rows = {row, other};
  writer.add(report);
  Collected read;
  EXPECT_TRUE(read_all(writer.finish(), read).is_complete);
  EXPECT_EQ(read.marks, (std::vector<uint64_t>{5999}));
  EXPECT_EQ(read.rows,
            (std::vector<std::string>{"7one 2.500000 f 12 lacks older 10:120 missed=6 dropped=5",
                                      "7one 2.500000 g 1"}));
}

TEST(Recording, ThatWasCutHasWhatWasWrittenBefore) {
  Writer writer(header());
  std::vector<std::string> written;
  std::string file;
  std::vector<size_t> ends;
  for (uint64_t i = 0; i < 5; ++i) {
    written.push_back(with_one_event(writer, 6000 + i));
    file += writer.take(Writer::Rest::comes);
    ends.push_back(file.size());
  }
  for (size_t size = ends[0]; size <= file.size(); ++size) {
    Collected read;
    const End end = read_all(file.substr(0, size), read);
    EXPECT_FALSE(end.error.has_value()) << size;
    EXPECT_FALSE(end.is_complete);
    const auto whole = std::upper_bound(ends.begin(), ends.end(), size) - ends.begin();
    EXPECT_EQ(read.events, std::vector<std::string>(written.begin(), written.begin() + whole));
  }
}

TEST(Recording, OfAnotherKindOrVersionIsRefused) {
  using Cause = ReadError::Cause;
  Collected read;
  EXPECT_EQ(read_all("", read).error, Cause::not_recording);
  EXPECT_EQ(read_all("{\"type\":\"event\"}\n", read).error, Cause::not_recording);
  std::string file = Writer(header()).finish();
  ++file[kMagic.size()];
  EXPECT_EQ(read_all(file, read).error, Cause::other_version);
  file = Writer(header()).finish();
  file.resize(kMagic.size() + 1);
  EXPECT_EQ(read_all(file, read).error, Cause::damaged);
  EXPECT_EQ(Reader::open("/nonexistent").error().system_error, ENOENT);
}

TEST(Recording, ThatWasDamagedEndsThere) {
  Writer writer(header());
  std::string file, good;
  for (uint64_t i = 0; i < 3; ++i) {
    with_one_event(writer, 6000 + i);
    file += writer.take(Writer::Rest::comes);
    if (i == 0) good = file;
  }
  // The size of the next chunk, and of its content, is more than any has.
  for (const size_t at : {size_t{3}, size_t{7}}) {
    std::string bad = file;
    bad[good.size() + at] = '\x7f';
    Collected read;
    EXPECT_EQ(read_all(bad, read).error, ReadError::Cause::damaged);
    EXPECT_EQ(read.events.size(), 1u);
  }
}

TEST(Recording, OfAThreadWhoseNameIsLongerThanTheKernelHasThemIsRefused) {
  for (const size_t size : {kLongestCommand, kLongestCommand + 1}) {
    Writer writer(header());
    const std::string command(size, 'x');
    const session::ProcessName process = {7, "p"};
    const engine::ProbeName name = {.object = "m", .function = "f", .file = "/m", .address = 16};
    writer.add({process, 6000, 1, 8, {}, command, name, {}, {}});
    Collected read;
    EXPECT_EQ(read_all(writer.finish(), read).is_complete, size == kLongestCommand);
  }
}

}  // namespace
}  // namespace pinprick::recording
