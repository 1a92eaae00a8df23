#include "cli/measure/leak_reports.h"

#include "cli/messages/warnings.h"

namespace pinprick::cli {

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
  LeakReport leaks = log_.report(least_age_ns);
  leaks.seconds = sums_.end_turn();
  leaks.is_final = rest_ != Rest::more;
  leaks.dropped = sums_.dropped();
  scale(leaks);
  renderer_.leaks(leaks);
  for (const session::Report& report : sums_.final_reports()) renderer_.report(report);
  if (leaks.is_final) warn_of(leaks);
}

void LeakReports::warn_of(const LeakReport& leaks) {
  if (leaks.dropped != 0) renderer_.warning(warning::frees_dropped(leaks.dropped, leaks.sample));
  if (!sums_.has_entries() && leaks.allocated != 0) renderer_.warning(warning::nothing_frees());
  if (leaks.no_room != 0) renderer_.warning(warning::no_room_for_blocks(leaks.no_room));
  if (leaks.reused != 0 && leaks.dropped == 0)
    renderer_.warning(warning::blocks_reused(leaks.reused));
}

}  // namespace pinprick::cli
