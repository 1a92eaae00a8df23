// TextRenderer: what was not freed, as a table with stacks.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/render/text.h"
#include "cli/render/text_width.h"
#include "cli/render/units.h"

namespace pinprick::cli {
namespace {

std::string age_text(uint64_t ns) {
  return duration_ns(static_cast<double>(ns));
}

// Estimates have a mark.
std::string estimate_mark(const LeakReport& report) {
  return report.sample > 1 ? "~" : "";
}

std::string blocks_text(uint64_t blocks, const LeakReport& report) {
  return fmt::format("{}{} {}", estimate_mark(report), with_commas(blocks),
                     blocks == 1 ? "block" : "blocks");
}

std::string bytes_text(uint64_t bytes, const LeakReport& report) {
  return fmt::format("{}{} {}", estimate_mark(report), with_commas(bytes),
                     bytes == 1 ? "byte" : "bytes");
}

// Returns the figures that are not in the table, as parts of a line.
std::vector<std::string> remarks(const LeakReport& report) {
  std::vector<std::string> all;
  if (report.young_blocks != 0)
    all.push_back(
        fmt::format("{} younger than {} left out ({})", blocks_text(report.young_blocks, report),
                    age_text(report.least_age_ns), bytes_text(report.young_bytes, report)));
  if (report.unknown_freed != 0 && report.tells_unknown)
    all.push_back(fmt::format("{}{} {} of unknown blocks", estimate_mark(report),
                              with_commas(report.unknown_freed),
                              report.unknown_freed == 1 ? "free" : "frees"));
  if (report.sample > 1)
    all.push_back(
        fmt::format("estimates: 1 of {} blocks was followed", with_commas(report.sample)));
  if (report.dropped != 0)
    all.push_back(fmt::format("unreliable: {} {} dropped", with_commas(report.dropped),
                              report.dropped == 1 ? "event was" : "events were"));
  return all;
}

}  // namespace

void TextRenderer::leaks(const LeakReport& report) {
  if (!report.is_final)
    data_.print("{}\n", data_.faint(fmt::format("after {:.1f} s", report.seconds)));
  const size_t shown = most() == 0 ? report.rows.size() : std::min(most(), report.rows.size());
  const std::string mark = estimate_mark(report);
  const auto line = [&](uint64_t bytes, uint64_t blocks, const std::string& oldest,
                        const Styled& what) {
    data_.print("{:>15} {:>10} {:>8}  {}\n", mark + with_commas(bytes), mark + with_commas(blocks),
                oldest, what);
  };
  if (shown != 0) data_.print("{:>15} {:>10} {:>8}  not freed\n", "bytes", "blocks", "oldest");
  LeakRow others;
  for (size_t i = 0; i < report.rows.size(); ++i) {
    const LeakRow& row = report.rows[i];
    if (i >= shown) {
      others.bytes += row.bytes;
      others.blocks += row.blocks;
      others.oldest_ns = std::max(others.oldest_ns, row.oldest_ns);
      continue;
    }
    line(row.bytes, row.blocks, age_text(row.oldest_ns), data_.bold(row.function));
    for (const std::string_view frame : split_lines(row.stack)) data_.print("{:17}{}\n", "", frame);
  }
  if (const size_t left_out = report.rows.size() - shown; left_out != 0)
    line(others.bytes, others.blocks, age_text(others.oldest_ns),
         data_.faint(fmt::format("{} other {}", with_commas(left_out),
                                 left_out == 1 ? "stack" : "stacks")));
  data_.print("{} in {} not freed; {} allocated and {} freed in {}\n",
              bytes_text(report.bytes, report), blocks_text(report.blocks, report),
              mark + with_commas(report.allocated), mark + with_commas(report.freed),
              duration_ns(report.seconds * 1e9));
  if (const auto more = remarks(report); !more.empty())
    data_.print("{}\n", fmt::format("{}", fmt::join(more, "; ")));
  data_.flush();
}

}  // namespace pinprick::cli
