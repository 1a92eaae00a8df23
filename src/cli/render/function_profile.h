// `ftrace --profile`: how often functions were called, and how long they took, as the kernel prints
// its function profile (trace_stat/function0). What is said to people is that of text.h.
#pragma once

#include "cli/render/text.h"

namespace pinprick::cli {

// Returns the sample variance of the times in ns^2; 0 for fewer than two times. Each time counts as
// the average of its slot in the histogram.
double variance_of(const stats::Histogram& times);

class FunctionProfile : public TextRenderer {
 public:
  explicit FunctionProfile(const TextRenderer& text) : TextRenderer(text) {}

  void report(const Report& report) override;
};

}  // namespace pinprick::cli
