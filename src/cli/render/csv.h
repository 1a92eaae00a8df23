// `-o FILE.csv`: figures as a table, and events as one line each (export/csv.h).
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/render/export.h"
#include "export/csv.h"

namespace pinprick::cli {

// The reports of the whole time: a line for each of their rows.
class FiguresCsvRenderer : public ExportRenderer {
 public:
  FiguresCsvRenderer(TextRenderer text, const Options& options);

 private:
  struct Column {
    std::string name;  // with the unit
    exports::CsvCell (*cell)(const Report&, const Row&);
  };
  void add(const Report& report) override;
  void finish() override { write_heading(); }
  void write_heading();

  std::vector<Column> columns_;
  bool has_heading_ = false;
};

class EventsCsvRenderer : public ExportRenderer {
 public:
  EventsCsvRenderer(TextRenderer text, const Options& options);

  std::string line_of(const session::Event& event) const override;
  EventSpans::Event part_of_span(const session::Event& event) const override;
  std::string line_of_span(const EventSpans::Ended& span) const override;
  void event_lines(const std::string& lines) override;

 private:
  using Cells = std::vector<exports::CsvCell>;
  void finish() override { write_heading(); }
  void write_heading();
  // Returns the cells that follow those which each event has.
  Cells value_cells(const session::Event& event) const;

  std::vector<std::string> values_;  // names of values that have columns
  bool has_heading_ = false;
};

}  // namespace pinprick::cli
