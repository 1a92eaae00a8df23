#include "cli/top/table_renderer.h"

#include <algorithm>

#include "cli/measure/patterns.h"
#include "cli/render/units.h"
#include "cli/top/locale.h"
#include "cli/top/table.h"

namespace pinprick::cli::top {

namespace {

// Without a pattern nothing is timed: the rows are statistics.
RowKind kind_of_rows(const Options& options) {
  return options.patterns.empty() ? RowKind::statistics : RowKind::timed;
}

}  // namespace

TableRenderer::TableRenderer(Output data, Output notes, const Options& options)
    : TextRenderer(data, notes, options.pids.size() > 1, options.all, options.top,
                   means_spans(options) ? "span" : "function"),
      all_(options.all),
      kind_(kind_of_rows(options)),
      unicode_(locale_is_utf8()) {}

void TableRenderer::print(const Model& model, bool with_history) {
  TableLayout layout = layout_of(model, std::nullopt, unicode_);
  if (!with_history) layout.history = 0;
  data().print("{}\n", text_of(top::heading(model, layout)));
  size_t printed = 0;
  for (const size_t row : model.shown()) {
    if (!all_ && model.figures(row).calls == 0) continue;
    if (most() != 0 && printed == most()) break;
    ++printed;
    data().print("{}\n", text_of(cells_of(model, row, layout)));
  }
}

// A final report covers the whole time, of which there is no history.
void TableRenderer::report(const Report& report) {
  TextRenderer::heading(report.process, report.seconds, report.is_final);
  if (report.is_final) {
    Model whole(all_, kind_);
    whole.update(report, report.seconds);
    whole.settle();
    print(whole, false);
    data().print("missed {}\n", with_commas(whole.total_missed()));
    partial_rows(report);
  } else {
    Model& model = models_.try_emplace(report.process.pid, all_, kind_).first->second;
    model.update(report, model.now_s() + report.seconds);
    model.settle();
    print(model, true);
  }
  data().flush();
}

}  // namespace pinprick::cli::top
