#include "cli/render/density.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace pinprick::cli {
namespace {

// Slots from `first` up to `end`.
struct SlotRange {
  uint32_t first = 0;
  uint32_t end = 0;
};

SlotRange slots_in_use(const stats::Histogram& h) {
  SlotRange used;
  for (uint32_t slot = 0; slot < h.cells().size(); ++slot) {
    if (h.cells()[slot].count == 0) continue;
    if (used.end == 0) used.first = slot;
    used.end = slot + 1;
  }
  return used;
}

// Where nearly all values are: half a percent may be below, and as much above.
SlotRange core_of(const stats::Histogram& h) {
  constexpr double kTail = 0.005;
  return {stats::slot_of(h.quantile(kTail), h.bits()),
          stats::slot_of(h.quantile(1 - kTail), h.bits()) + 1};
}

uint32_t divide_up(size_t a, size_t b) {
  return static_cast<uint32_t>((a + b - 1) / b);
}

// Returns the first slot of each line.
std::vector<uint32_t> line_starts(const stats::Histogram& h, SlotRange used, size_t lines) {
  SlotRange shown = used;
  if (used.end - used.first > lines) {
    const SlotRange core = core_of(h);
    shown = {std::max(used.first, core.first), std::min(used.end, core.end)};
  }
  const size_t tails = (shown.first > used.first ? 1u : 0u) + (shown.end < used.end ? 1u : 0u);
  const uint32_t step = std::max(divide_up(shown.end - shown.first, lines - tails), 1u);
  std::vector<uint32_t> starts;
  if (shown.first > used.first) starts.push_back(used.first);
  for (uint32_t slot = shown.first; slot < shown.end; slot += step) starts.push_back(slot);
  if (starts.back() + step < used.end && shown.end < used.end)
    starts.push_back(starts.back() + step);
  return starts;
}

// The width of the last line ends at the largest value.
DensityLine line_of(const stats::Histogram& h, SlotRange slots, uint64_t total) {
  DensityLine line;
  line.floor = static_cast<double>(stats::slot_floor(slots.first, h.bits()));
  const auto ceiling = std::min(static_cast<double>(stats::slot_floor(slots.end, h.bits())),
                                static_cast<double>(h.maximum()) + 1);
  double count = 0;
  for (uint32_t slot = slots.first; slot < slots.end; ++slot)
    count += static_cast<double>(h.cells()[slot].count);
  line.density = count / std::max(ceiling - line.floor, 1.0);
  line.fraction = count / static_cast<double>(total);
  return line;
}

// Draws `length` of 0 to 1; a length above 0 shows.
void draw_bar(DensityLine& line, double length, const DensityStyle& style) {
  const unsigned parts = style.unicode ? 8 : 1;
  auto units = static_cast<size_t>(std::lround(length * static_cast<double>(style.width * parts)));
  if (length > 0) units = std::max<size_t>(units, 1);
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  for (size_t i = 0; i < units / parts; ++i) line.bar += style.unicode ? "█" : "#";
  if (style.unicode) line.bar += kEighths[units % parts];
  line.bar_width = divide_up(units, parts);
}

}  // namespace

std::vector<DensityLine> density_lines(const stats::Histogram& histogram,
                                       const DensityStyle& style) {
  const uint64_t total = histogram.count();
  if (total == 0) return {};
  const SlotRange used = slots_in_use(histogram);
  constexpr size_t kFewestLines = 3;  // the tails, and a line between them
  const auto starts = line_starts(histogram, used, std::max(style.lines, kFewestLines));
  std::vector<DensityLine> lines;
  double most = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    const uint32_t end = i + 1 < starts.size() ? starts[i + 1] : used.end;
    lines.push_back(line_of(histogram, {starts[i], end}, total));
    most = std::max(most, lines.back().density);
  }
  for (DensityLine& line : lines) {
    line.label = style.show(line.floor);
    line.percentage = percentage(line.fraction);
    draw_bar(line, line.density / most, style);
  }
  return lines;
}

std::string text_of(const DensityLine& line, const DensityStyle& style) {
  return fmt::format("{:>10} |{}{:{}}{:>8}", line.label, line.bar, "",
                     style.width - std::min(style.width, line.bar_width), line.percentage);
}

}  // namespace pinprick::cli
