#include "stats/typical.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

namespace pinprick::stats {
namespace {

// The values of a slot, and how many of them are among the middle ones.
struct Part {
  double mean = 0, variance = 0, kept = 0;
};

double mean_of(const Cell& cell, uint32_t slot, unsigned bits) {
  const double sum =
      std::ldexp(static_cast<double>(cell.sum), static_cast<int>(sum_shift(slot, bits)));
  const auto low = static_cast<double>(slot_floor(slot, bits));
  const auto next = static_cast<double>(slot_floor(slot + 1, bits));
  return std::clamp(sum / static_cast<double>(cell.count), low, std::max(low, next - 1));
}

double largest_variance(double mean, uint32_t slot, unsigned bits) {
  const auto low = static_cast<double>(slot_floor(slot, bits));
  const double high = std::max(low, static_cast<double>(slot_floor(slot + 1, bits)) - 1);
  return (mean - low) * (high - mean);
}

std::vector<Part> parts_of(const Histogram& histogram, double first, double last) {
  std::vector<Part> parts;
  double below = 0;
  for (uint32_t slot = 0; slot < histogram.cells().size(); ++slot) {
    const Cell& cell = histogram.cells()[slot];
    if (cell.count == 0) continue;
    const double above = below + static_cast<double>(cell.count);
    const double kept = std::min(above, last) - std::max(below, first);
    const double mean = mean_of(cell, slot, histogram.bits());
    if (kept > 0) parts.push_back({mean, largest_variance(mean, slot, histogram.bits()), kept});
    below = above;
  }
  return parts;
}

}  // namespace

// The winsorized variance has each value that is left out moved to the nearest one that is kept.
std::optional<Estimate> typical(const Histogram& histogram) {
  const auto count = static_cast<double>(histogram.count());
  const double cut = kTrimmed * count, kept = count - 2 * cut;
  if (count < 2) return std::nullopt;
  const std::vector<Part> parts = parts_of(histogram, cut, count - cut);
  if (parts.empty()) return std::nullopt;
  double sum = 0;
  for (const Part& part : parts) sum += part.mean * part.kept;
  const double winsorized_mean = (sum + cut * (parts.front().mean + parts.back().mean)) / count;
  const auto square = [&](const Part& part) {
    return (part.mean - winsorized_mean) * (part.mean - winsorized_mean) + part.variance;
  };
  double squares = cut * (square(parts.front()) + square(parts.back()));
  for (const Part& part : parts) squares += part.kept * square(part);
  const double degrees = std::max(kept - 1, 0.5);
  return Estimate{sum / kept, squares / degrees, kept, degrees};
}

Histogram coarser(const Histogram& histogram, unsigned bits) {
  assert(bits <= histogram.bits());
  if (bits == histogram.bits()) return histogram;
  Histogram result(bits);
  for (uint32_t slot = 0; slot < histogram.cells().size(); ++slot) {
    const Cell& cell = histogram.cells()[slot];
    if (cell.count == 0) continue;
    const uint32_t wider = slot_of(slot_floor(slot, histogram.bits()), bits);
    const auto shift = static_cast<int>(sum_shift(slot, histogram.bits())) -
                       static_cast<int>(sum_shift(wider, bits));
    result.add(wider, {cell.count, shift >= 0 ? cell.sum << shift : cell.sum >> -shift});
  }
  return result;
}

double count_from(const Histogram& histogram, uint32_t slot) {
  double count = 0;
  for (size_t i = slot; i < histogram.cells().size(); ++i)
    count += static_cast<double>(histogram.cells()[i].count);
  return count;
}

}  // namespace pinprick::stats
