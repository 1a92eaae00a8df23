// A page with tables, flame graphs and a timeline, which a browser shows without anything else: one
// HTML file with its styles, its script and its data. Pure.
//
// page.html, page.css and page.js are its fixed parts. The data are JSON, which the script shows as
// text and as drawings, and never as HTML.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "export/html/flame_graph.h"
#include "export/html/table.h"
#include "export/html/timeline.h"

namespace pinprick::exports {

class Page {
 public:
  // Adds a line to the top of the page, such as the command line.
  void add_fact(std::string_view name, std::string_view text);
  // Adds a line that says what is missing.
  void add_warning(std::string_view text);
  // Says when the measurement began, by CLOCK_REALTIME. With a timeline, that is its first call.
  void set_start(uint64_t realtime_ns) { start_ns_ = realtime_ns; }
  // Returns the number of a new function, for paths and slices.
  uint32_t add_function(std::string_view name, std::string_view object);
  // Returns false if a browser could not show many more. Then the caller gives all others one
  // number.
  bool has_room_for_functions() const {
    return functions_ < kMostFunctions && names_.size() + objects_.size() < kMostBytesOfNames;
  }
  void add(const Table& table);
  // `unit`: `ns`, or what is counted. `note` is shown above it, and may be empty.
  void add(const FlameGraph& paths, std::string_view title, std::string_view unit,
           std::string_view note);
  void add(Timeline& timeline);

  // Hands over the file, part by part.
  void write(const std::function<void(std::string_view)>& write) const;

 private:
  static constexpr size_t kMostFunctions = 1 << 16, kMostBytesOfNames = 32 << 20;

  uint64_t start_ns_ = 0;
  std::string facts_, warnings_, names_, objects_, tables_, flames_, timeline_;
  uint32_t functions_ = 0;
};

}  // namespace pinprick::exports
