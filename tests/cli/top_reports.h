// Makes reports as a measurement makes them, for the tests of `top`.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "cli/top/model.h"

namespace pinprick::cli::top {

// `calls` calls of a function that took `ns` each.
inline session::Row calls_of(std::string_view function, uint64_t calls, uint64_t ns,
                             std::string_view object = "server") {
  stats::Histogram recorded;
  for (uint64_t i = 0; i < calls; ++i) recorded.record(ns);
  return session::Row::of_times({object, function}, placement::Kind::latency, std::move(recorded),
                                {});
}

inline Model::Report report_of(std::vector<session::Row> rows, double seconds = 1, pid_t pid = 42) {
  Model::Report report;
  report.kind = placement::Kind::latency;
  report.process = {pid, "server"};
  report.seconds = seconds;
  report.rows = std::move(rows);
  return report;
}

inline Key key_of(char32_t character) {
  return {Key::Kind::character, character};
}

inline void type(Model& model, std::string_view text) {
  for (const char c : text) model.press(key_of(static_cast<char32_t>(c)));
}

inline std::vector<std::string> names_in(const Model& model) {
  std::vector<std::string> names;
  for (const size_t index : model.shown()) names.push_back(model.row(index).name);
  return names;
}

}  // namespace pinprick::cli::top
