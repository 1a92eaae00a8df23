// Turns the lines of a screen into what a terminal understands, as far as they have changed. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/top/screen.h"

namespace pinprick::cli::top {

class Painter {
 public:
  // Without `colored`, styles differ in weight and by reversed colours only.
  explicit Painter(bool colored) : colored_(colored) {}

  // Returns the bytes that make a terminal show `lines`, given what it shows since the last call.
  std::string paint(const std::vector<Line>& lines);
  // The terminal shows something unknown: the next call clears it, and draws all lines.
  void forget() { is_known_ = false; }

 private:
  std::string text_of(const Line& line) const;

  bool colored_;
  bool is_known_ = false;
  std::vector<Line> shown_;
};

}  // namespace pinprick::cli::top
