// --dry-run, for people.
#include "cli/messages/warnings.h"
#include "cli/render/text.h"
#include "cli/render/units.h"

namespace pinprick::cli {
// Prints "would arm 3 of 4 functions", and what that would cost if it is known.
void TextRenderer::dry_run(const DryRunRow& row) {
  const session::DryRun& run = row.run;
  const size_t wanted = run.functions + run.skipped.size();
  std::string ways;
  for (const auto& [tactic, sites] : run.by_tactic)
    ways +=
        fmt::format("{} {} {}", ways.empty() ? ":" : ",", with_commas(sites), plan::name(tactic));
  data().print("would arm {} of {} ({}){}\n",
               run.skipped.empty()
                   ? plural(run.functions, probed_)
                   : fmt::format("{} of {}", with_commas(run.functions), plural(wanted, probed_)),
               run.process.pid, run.process.command, ways);
  print_skipped(run.skipped, false);
  if (run.may_unwind_elsewhere) warning(cli::warning::may_unwind_elsewhere(run.process.command));
  constexpr double kPercent = 100;
  if (!row.rate) return;
  data().print("{} hits/s in {}: about {:.2g}% of a CPU, at {:.0f} ns a hit\n",
               magnitude(row.rate->hits_per_second()), duration_ns(row.rate->seconds * 1e9),
               kPercent * row.rate->share_of_cpu(), row.rate->ns_per_hit);
  for (const auto& [function, hits] : row.rate->most)
    data().print("{:>12} hits/s  {}\n", magnitude(static_cast<double>(hits) / row.rate->seconds),
                 data().bold(function));
}

}  // namespace pinprick::cli
