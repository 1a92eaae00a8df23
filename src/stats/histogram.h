// Log-linear histograms by the kstats formula (Rizzo, 2020): 2^bits slots per power of two.
//
// Values are nanoseconds. Pure; merging is addition. The `measure` macro of runtime/leave.inc has
// the same formula in assembly; tests/stats and tests/runtime check both against the same values.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace pinprick::stats {

inline constexpr unsigned kMinFractionBits = 0;
inline constexpr unsigned kMaxFractionBits = 5;
inline constexpr unsigned kDefaultFractionBits = 3;

// fls64: the number of the highest set bit, counted from 1; 0 for 0.
constexpr unsigned find_last_set(uint64_t v) {
  return static_cast<unsigned>(std::bit_width(v));
}

constexpr uint32_t slot_count(unsigned bits) {
  return ((64 - bits + 1) << bits) + 1;
}

constexpr uint32_t slot_of(uint64_t value, unsigned bits) {
  const unsigned bucket = find_last_set(value >> bits);
  const uint64_t fraction_mask = (uint64_t{1} << bits) - 1;
  const uint64_t slot =
      bucket == 0 ? value : (uint64_t{bucket} << bits) | ((value >> (bucket - 1)) & fraction_mask);
  const uint32_t last = slot_count(bits) - 1;
  return slot > last - 1 ? last : static_cast<uint32_t>(slot);
}

// Sums of large values are stored shifted, so that they do not overflow.
constexpr unsigned sum_shift(uint32_t slot, unsigned bits) {
  const unsigned bucket = slot >> bits;
  return bucket < 20 ? 0 : bucket - 20;
}

// Returns the smallest value that falls into the slot; slot_floor(slot + 1) is the first above it.
constexpr uint64_t slot_floor(uint32_t slot, unsigned bits) {
  const unsigned bucket = slot >> bits;
  if (bucket == 0) return slot;
  const uint64_t fraction = slot & ((1u << bits) - 1);
  if (bucket + bits - 1 > 63) return UINT64_MAX;
  return (uint64_t{1} << (bucket + bits - 1)) + (fraction << (bucket - 1));
}

struct Cell {
  uint64_t count = 0;
  uint64_t sum = 0;  // of value >> sum_shift(slot)
};

// Without values it has no cells, and no memory for them: most functions of a program are never
// called.
class Histogram {
 public:
  explicit Histogram(unsigned bits = kDefaultFractionBits) : bits_(bits) {}

  unsigned bits() const { return bits_; }
  // By slot: slot_count() of them, or none.
  const std::vector<Cell>& cells() const { return cells_; }

  void add(uint32_t slot, Cell cell) {
    if (cells_.empty()) {
      if (cell.count == 0 && cell.sum == 0) return;
      cells_.resize(slot_count(bits_));
    }
    cells_[slot].count += cell.count;
    cells_[slot].sum += cell.sum;
  }
  void record(uint64_t value) {
    const uint32_t slot = slot_of(value, bits_);
    add(slot, {1, value >> sum_shift(slot, bits_)});
  }
  // Adds `other`, which has the same number of fraction bits.
  void merge(const Histogram& other);
  // Returns what was recorded after `earlier`, an older state of the same histogram. A slot in
  // which that has more, as if the program had written there, is empty.
  Histogram since(const Histogram& earlier) const;
  // Takes the values from 2^63 on out, and returns their number: as numbers with a sign, they are
  // negative. How far below 0 they are is not known: they all lie in the last slots.
  uint64_t take_negative();

  uint64_t count() const;
  uint64_t average(uint32_t slot) const;
  // Returns the sum of all values, as exact as the shifted sums allow.
  double sum() const;
  // Returns the value below which the fraction p (0..1) of all values lies; 0 if empty.
  // Interpolates linearly within a slot, up to the largest value that can be in it.
  uint64_t quantile(double p) const;
  // Returns an upper bound of the largest value. It is exact if the sums of the top slot are not
  // shifted, and all its values but one are the slot's smallest.
  uint64_t maximum() const;

 private:
  // Returns an upper bound of the values in a slot that is not empty.
  uint64_t ceiling(uint32_t slot) const;

  unsigned bits_;
  std::vector<Cell> cells_;
};

}  // namespace pinprick::stats
