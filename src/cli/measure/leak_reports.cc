#include "cli/measure/leak_reports.h"

#include <algorithm>
#include <utility>

#include "cli/messages/warnings.h"

namespace pinprick::cli {

void LeakReports::report(const session::Report& report) {
  const uint64_t dropped = session::losses_of(report.rows)[layout::Loss::dropped];
  if (report.is_final && final_.empty()) seconds_ = interval_s_ = 0, dropped_ = 0;
  // Those of several processes are of the same time.
  if (report.is_final)
    seconds_ = std::max(seconds_, report.seconds);
  else
    interval_s_ = std::max(interval_s_, report.seconds);
  dropped_ += dropped;
  has_release_ = has_release_ || std::any_of(report.rows.begin(), report.rows.end(),
                                             [](const auto& row) { return !row.name.at_return; });
  if (report.is_final) final_.push_back(report);
}

// Each block that is followed stands for as many others.
static void scale(LeakReport& leaks) {
  for (LeakRow& row : leaks.rows)
    for (uint64_t* const number : {&row.bytes, &row.blocks}) *number *= leaks.sample;
  for (uint64_t* const number :
       {&leaks.bytes, &leaks.blocks, &leaks.young_bytes, &leaks.young_blocks, &leaks.allocated,
        &leaks.freed, &leaks.unknown_freed, &leaks.reused, &leaks.no_room})
    *number *= leaks.sample;
}

// When a program ends, what it has not freed is not going to be freed, however young it is.
void LeakReports::show() {
  constexpr uint64_t kUsualAgeNs = 500'000'000;
  const uint64_t least_age_ns =
      options_.names_older ? options_.older_ns : (rest_ == Rest::ended ? 0 : kUsualAgeNs);
  seconds_ += std::exchange(interval_s_, 0);
  LeakReport leaks = log_.report(least_age_ns);
  leaks.seconds = seconds_;
  leaks.is_final = rest_ != Rest::more;
  leaks.dropped = dropped_;
  scale(leaks);
  renderer_.leaks(leaks);
  for (const session::Report& report : final_) renderer_.report(report);
  if (leaks.is_final) warn_of(leaks);
}

void LeakReports::warn_of(const LeakReport& leaks) {
  if (leaks.dropped != 0) renderer_.warning(warning::frees_dropped(leaks.dropped, leaks.sample));
  if (!has_release_ && leaks.allocated != 0) renderer_.warning(warning::nothing_frees());
  if (leaks.no_room != 0) renderer_.warning(warning::no_room_for_blocks(leaks.no_room));
  if (leaks.reused != 0 && leaks.dropped == 0)
    renderer_.warning(warning::blocks_reused(leaks.reused));
}

}  // namespace pinprick::cli
