// Draws the model as the lines of a screen. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/top/model.h"

namespace pinprick::cli::top {

enum class Style : uint8_t { plain, bold, faint, bar, heading, sorted, selected, warning };

// Text in one style.
struct Piece {
  std::string text;
  Style style = Style::plain;

  bool operator==(const Piece&) const = default;
};

using Line = std::vector<Piece>;

// The text of a line, without the spaces at its end.
std::string text_of(const Line& line);

struct ScreenSize {
  size_t width = 80;
  size_t height = 24;
};
inline constexpr ScreenSize kSmallestScreen = {80, 24};

// Returns exactly size.height lines of at most size.width columns. On a screen that is smaller than
// kSmallestScreen, one line says so.
std::vector<Line> draw(const Model& model, ScreenSize size, bool unicode);

// Returns how many rows of the table a screen shows.
size_t rows_on(const Model& model, ScreenSize size);

}  // namespace pinprick::cli::top
