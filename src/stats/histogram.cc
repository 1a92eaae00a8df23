#include "stats/histogram.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

namespace pinprick::stats {

void Histogram::merge(const Histogram& other) {
  assert(bits_ == other.bits_);
  if (cells_.empty()) {
    cells_ = other.cells_;
    return;
  }
  for (uint32_t i = 0; i < other.cells_.size(); ++i) {
    cells_[i].count += other.cells_[i].count;
    cells_[i].sum += other.cells_[i].sum;
  }
}

Histogram Histogram::since(const Histogram& earlier) const {
  assert(bits_ == earlier.bits_);
  if (earlier.cells_.empty()) return *this;
  Histogram difference(bits_);
  for (uint32_t i = 0; i < earlier.cells_.size(); ++i) {
    const Cell now = cells_.empty() ? Cell{} : cells_[i];
    const Cell before = earlier.cells_[i];
    difference.add(i, {now.count - std::min(now.count, before.count),
                       now.sum - std::min(now.sum, before.sum)});
  }
  return difference;
}

uint64_t Histogram::take_negative() {
  uint64_t negative = 0;
  for (size_t i = slot_of(uint64_t{1} << 63, bits_); i < cells_.size(); ++i)
    negative += std::exchange(cells_[i], {}).count;
  return negative;
}

uint64_t Histogram::count() const {
  uint64_t total = 0;
  for (const Cell& cell : cells_) total += cell.count;
  return total;
}

uint64_t Histogram::average(uint32_t slot) const {
  if (cells_.empty()) return 0;
  const Cell& cell = cells_[slot];
  return cell.count == 0 ? 0 : (cell.sum / cell.count) << sum_shift(slot, bits_);
}

double Histogram::sum() const {
  double total = 0;
  for (uint32_t i = 0; i < cells_.size(); ++i)
    total += std::ldexp(static_cast<double>(cells_[i].sum), static_cast<int>(sum_shift(i, bits_)));
  return total;
}

uint64_t Histogram::quantile(double p) const {
  const uint64_t total = count();
  if (total == 0) return 0;
  const double rank = std::clamp(p, 0.0, 1.0) * static_cast<double>(total);
  double below = 0;
  for (uint32_t i = 0; i < cells_.size(); ++i) {
    const auto here = static_cast<double>(cells_[i].count);
    if (here == 0) continue;
    if (below + here >= rank) {
      const auto low = static_cast<double>(slot_floor(i, bits_));
      const auto high = static_cast<double>(ceiling(i)) + 1;
      const double value = low + (high - low) * (rank - below) / here;
      // The floor after the last slot is 2^64 as a double, which is not a uint64_t.
      return value < 0x1p64 ? std::min(static_cast<uint64_t>(value), maximum()) : maximum();
    }
    below += here;
  }
  return maximum();
}

uint64_t Histogram::maximum() const {
  for (auto i = static_cast<uint32_t>(cells_.size()); i-- > 0;) {
    if (cells_[i].count != 0) return ceiling(i);
  }
  return 0;
}

// All values of a slot are at least its floor, so the largest is at most what the sum leaves for
// it. A reader may see the count of a value before its sum: then the sum says nothing.
uint64_t Histogram::ceiling(uint32_t slot) const {
  const uint64_t last =
      slot < slot_of(UINT64_MAX, bits_) ? slot_floor(slot + 1, bits_) - 1 : UINT64_MAX;
  const Cell& cell = cells_[slot];
  const uint64_t floor = slot_floor(slot, bits_);
  if (sum_shift(slot, bits_) != 0 || cell.sum / cell.count < floor) return last;
  return std::min(last, cell.sum - (cell.count - 1) * floor);
}

}  // namespace pinprick::stats
