// Pages for browsers. Input: names and texts, and events of calls that have them.
#include "export/html/page.h"

#include <nlohmann/json.hpp>

#include "export/html/json_text.h"
#include "export/html/recorded_calls.h"
#include "fuzzer.h"

using namespace pinprick;

namespace {

constexpr uint32_t kFunctions = 4;

size_t times_in(std::string_view text, std::string_view word) {
  size_t times = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++times;
  return times;
}

std::string text_of(const exports::Page& page) {
  std::string text;
  page.write([&](std::string_view part) { text += part; });
  return text;
}

// What a parser of HTML takes for the element with the data: all up to the first end tag.
std::string_view data_of(std::string_view page) {
  const size_t start = page.find("id=\"data\">") + sizeof "id=\"data\">" - 1;
  return page.substr(start, page.find("</", start) - start);
}

exports::TraceEvent event_of(fuzz::Numbers& numbers, std::string_view text, uint64_t time_ns) {
  using Of = exports::TraceEvent::Of;
  constexpr Of kKinds[] = {Of::point, Of::entry, Of::ret, Of::call};
  const auto bits = numbers.take<uint8_t>();
  return {.thread = {1, bits >> 2 & 3, "p", std::string(text)},
          .of = kKinds[bits & 3],
          .time_ns = time_ns,
          .latency_ns = (bits & 0x80) != 0 ? numbers.take<uint64_t>() : bits,
          .stack_pointer = numbers.take<uint16_t>(),
          .details = exports::TraceDetails::of_bytes(std::string(text))};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Numbers numbers({data, size});
  const size_t events = numbers.take<uint8_t>();
  const std::string_view text(reinterpret_cast<const char*>(data), size);

  const std::string json = exports::json_text(text);
  CHECK(json.find_first_of("<>&") == json.npos);
  CHECK(nlohmann::json::parse(json).is_string());

  exports::Page page;
  page.add_fact(text, text);
  page.add_warning(text);
  for (uint32_t i = 0; i < kFunctions; ++i) page.add_function(text, text);
  exports::Table table(std::string(text), {{std::string(text), exports::Table::Kind::function}});
  table.begin_row();
  table.add(text);
  page.add(table);
  exports::RecordedCalls calls;
  uint64_t time_ns = 0;
  for (size_t i = 0; i < events; ++i) {
    time_ns += numbers.take<uint8_t>();
    calls.add(event_of(numbers, text.substr(0, i), time_ns), static_cast<uint32_t>(i) % kFunctions,
              time_ns);
  }
  calls.finish();
  page.add(calls.paths(), text, text, text);
  page.add(calls.timeline());

  const std::string written = text_of(page);
  for (const char* tag : {"<script", "</script", "<!--"})
    CHECK(times_in(written, tag) == times_in(text_of(exports::Page()), tag));
  const auto parsed = nlohmann::json::parse(data_of(written));
  const auto& timeline = parsed.at("timeline");
  size_t slices = 0;
  for (const auto& track : timeline.at("tracks")) slices += track.at("start").size();
  CHECK(timeline.at("kept") == slices && slices <= events);
  return 0;
}

std::vector<Input> seeds() {
  std::vector<Input> all;
  for (const char* text :
       {"</script><script>alert(1)</script>", "<!--<script>",
        "\xc2\x85\xe2\x80\xae&lt;\xff\xed\xa0\x80", "@data@@style@@script@", "\"\\\n\x01"})
    all.push_back(fuzz::text(text));
  // Calls in each other, of which one does not return.
  all.push_back({12, 1, 5, 0, 16, 1, 5, 0, 15, 1, 5, 0, 14, 1, 6, 0, 0, 1, 6, 0, 0, 1, 4, 0, 0});
  return all;
}
