// `count`, `latency`, `hist` and `measure` with `-o FILE.html`: their tables, and with `--by stack`
// a flame graph, as a page.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/render/html.h"

namespace pinprick::cli {

class HtmlFiguresRenderer : public HtmlRenderer {
 public:
  using HtmlRenderer::HtmlRenderer;

 private:
  // Of one measure, in all processes.
  struct Measure {
    std::string title;
    placement::Kind kind = placement::Kind::count;
    bool has_key = false, has_stack = false, has_sum = false;
    std::string key, sum;
    std::vector<exports::Table> tables = {};  // one
    exports::FlameGraph stacks = exports::FlameGraph();
  };
  void add(const Report& report) override;
  void fill_page() override;
  static exports::Table table_of(const Measure& measure);
  static void add_row(const Measure& measure, const Report& report, const Row& row,
                      exports::Table& table);
  uint32_t number_of(std::string_view name, std::string_view object);
  void add_stack(const Row& row, exports::FlameGraph& stacks);

  std::map<uint32_t, Measure> measures_;                             // by number
  std::map<std::pair<std::string, std::string>, uint32_t> numbers_;  // by name and object
};

}  // namespace pinprick::cli
