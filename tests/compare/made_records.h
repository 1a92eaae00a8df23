// Records as `--json` writes them, made from values that a test chooses.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "compare/read_run.h"
#include "stats/histogram.h"

namespace pinprick::compare {

struct MadeRow {
  std::string function = "f";
  int pid = 4242;
  double seconds = 1;
  bool is_final = true;
  std::string more = {};  // further fields, each with a comma after it
};

inline std::string head_of(const char* type, const MadeRow& row) {
  return fmt::format(
      R"({{"type":"{}","pid":{},"seconds":{},"final":{},"object":"server","function":"{}",{})",
      type, row.pid, row.seconds, row.is_final, row.function, row.more);
}

inline std::string count_record(const MadeRow& row, uint64_t hits) {
  return head_of("count", row) + fmt::format("\"hits\":{},\"version\":1}}\n", hits);
}

inline std::string slots_of(const stats::Histogram& histogram) {
  std::string slots;
  for (uint32_t i = 0; i < histogram.cells().size(); ++i)
    if (const uint64_t count = histogram.cells()[i].count; count != 0)
      slots += fmt::format("{}[{},{},{}]", slots.empty() ? "" : ",",
                           stats::slot_floor(i, histogram.bits()), count, histogram.average(i));
  return slots;
}

inline std::string latency_record(const MadeRow& row, const stats::Histogram& times) {
  return head_of("latency", row) +
         fmt::format("\"count\":{},\"sum_ns\":{:.1f},\"bits\":{},\"slots\":[{}],\"version\":1}}\n",
                     times.count(), times.sum(), times.bits(), slots_of(times));
}

inline std::string hist_record(const MadeRow& row, const stats::Histogram& values,
                               uint64_t negative) {
  return head_of("hist", row) +
         fmt::format(
             "\"value\":\"$arg1\",\"count\":{},\"negative\":{},\"sum\":{:.1f},\"bits\":{},"
             "\"slots\":[{}],\"version\":1}}\n",
             values.count() + negative, negative, values.sum(), values.bits(), slots_of(values));
}

// With -- COMMAND, and a command that has ended.
inline std::string program_records(const std::string& figures) {
  return R"({"type":"armed","pid":4242,"command":"server","armed":1,"started":true,"version":1})"
         "\n" +
         figures +
         R"({"type":"detached","pid":4242,"target_gone":true,"replaced":false,"version":1})"
         "\n";
}

inline Result<Run, ReadError> read_text(std::string_view text) {
  RunText reader;
  if (auto added = reader.add(text); !added) return fail(added.error());
  return reader.finish();
}

inline Run run_from(std::string_view text) {
  auto run = read_text(text);
  return run ? *run : Run();
}

}  // namespace pinprick::compare
