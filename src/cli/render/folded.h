// Stacks as flame graphs want them: `-o FILE.folded`. A line for each stack, the outermost frame
// first and the probed function last, with semicolons between them, and then a number: hits, or
// what was added up, or nanoseconds of calls. All else is for people, as in text.h.
#pragma once

#include <string_view>

#include "cli/render/text.h"

namespace pinprick::cli {

class FoldedRenderer : public TextRenderer {
 public:
  using TextRenderer::TextRenderer;

  // Of the whole time alone. Frames of one function are one, wherever in it they are.
  void report(const Report& report) override;
};

// Is it the name of a file of that kind?
bool is_folded(std::string_view path);

}  // namespace pinprick::cli
