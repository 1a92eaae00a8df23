#include "stats/kstats_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <iterator>
#include <vector>

namespace pinprick::stats {
namespace {

// Sums of 64-bit counts over slots and CPUs do not overflow in it, nor does a million times that.
__extension__ using Wide = unsigned __int128;

// One CPU's cells, or those of all CPUs, slot by slot.
struct Column {
  explicit Column(const Histogram& of) : histogram(&of) {
    for (const Cell& cell : of.cells()) total += cell.count;
  }
  Column() = default;

  const Histogram* histogram = nullptr;
  int cpu = 0;
  Wide total = 0;
  Wide so_far = 0;  // in the slots that are printed
};

struct WideCell {
  Wide count = 0, sum = 0;
};

uint64_t average(const WideCell& cell, unsigned shift) {
  const Wide shifted = cell.sum / cell.count;
  return shifted > UINT64_MAX >> shift ? UINT64_MAX : static_cast<uint64_t>(shifted) << shift;
}

void print(std::string& text, uint32_t slot, unsigned bits, char of_all, int number,
           const WideCell& cell, const Column& column) {
  constexpr unsigned kMillion = 1'000'000;
  const auto millionths = static_cast<uint64_t>(column.so_far * kMillion / column.total);
  fmt::format_to(std::back_inserter(text),
                 "slot {:<3} CPU{} {:<4} count {:8} avg {:8} p {}.{:06}\n", slot, of_all, number,
                 cell.count, average(cell, sum_shift(slot, bits)), millionths / kMillion,
                 millionths % kMillion);
}

}  // namespace

std::string kstats_text(std::span<const CpuHistogram> histograms, int cpus) {
  std::vector<Column> columns;
  Column all;
  for (const CpuHistogram& one : histograms) {
    assert(one.histogram.bits() == histograms.front().histogram.bits());
    if (one.histogram.cells().empty()) continue;
    columns.emplace_back(one.histogram).cpu = one.cpu;
    all.total += columns.back().total;
  }
  std::string text;
  if (columns.empty()) return text;
  std::sort(columns.begin(), columns.end(),
            [](const Column& a, const Column& b) { return a.cpu < b.cpu; });

  const unsigned bits = columns.front().histogram->bits();
  for (uint32_t slot = 0; slot < slot_count(bits); ++slot) {
    WideCell sum;
    for (Column& column : columns) {
      const Cell& cell = column.histogram->cells()[slot];
      if (cell.count == 0) continue;
      column.so_far += cell.count;
      sum.count += cell.count;
      sum.sum += cell.sum;
      print(text, slot, bits, ' ', column.cpu, {cell.count, cell.sum}, column);
    }
    if (sum.count == 0) continue;
    all.so_far += sum.count;
    print(text, slot, bits, 'S', cpus, sum, all);
  }
  return text;
}

}  // namespace pinprick::stats
