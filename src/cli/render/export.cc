#include "cli/render/export.h"

#include <utility>

namespace pinprick::cli {

void ExportRenderer::armed(const ProcessName& process, const engine::ArmReport& report,
                           uint64_t elapsed_ns, bool until_interrupt) {
  has_begun_ = true;
  TextRenderer::armed(process, report, elapsed_ns, until_interrupt);
}

void ExportRenderer::files_armed(const FilesFigures& figures, bool until_interrupt) {
  has_begun_ = true;
  TextRenderer::files_armed(figures, until_interrupt);
}

void ExportRenderer::report(const Report& report) {
  has_begun_ = true;
  if (report.is_final)
    add(report);
  else
    add_interval(report);
  // Its last line says how many events there were, and how many were lost.
  if (report.kind == placement::Kind::event) TextRenderer::report(report);
}

void ExportRenderer::conclude() {
  if (!std::exchange(has_begun_, false)) return;  // nothing has come, or it was called before
  finish();
  flush();
  if (!is_broken()) notes().print("{}\n", exports::how_to_open(format_, path_));
}

std::string point_text(ProbeName name) {
  name.value = {};
  return label_of(name);
}

}  // namespace pinprick::cli
