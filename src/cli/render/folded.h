// Stacks as flame graphs want them: `-o FILE.folded`. A line for each stack, the outermost frame
// first and the probed function last, with semicolons between them, and then a number: hits, or
// what was added up, or nanoseconds of calls. All else is for people, as in text.h.
#pragma once

#include <string>

#include "cli/render/export.h"

namespace pinprick::cli {

class FoldedRenderer : public ExportRenderer {
 public:
  using ExportRenderer::ExportRenderer;
  // Bytes that were not freed.
  void leaks(const LeakReport& report) override;
  // The time that is not of calls within, or calls if none has a time.
  void call_paths(const RecordedPaths& recorded) override;

  // Each line has two numbers, before and after, as those of difffolded.pl, which flamegraph.pl
  // reads.
  void comparison(const compare::Comparison& comparison) override;

 private:
  // Of the whole time alone. Frames of one function are one, wherever in it they are.
  void add(const Report& report) override;
};

}  // namespace pinprick::cli
