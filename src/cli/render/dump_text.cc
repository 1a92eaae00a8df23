#include "cli/render/dump_text.h"

#include <fmt/format.h>

#include "cli/render/event_text.h"
#include "cli/render/units.h"

namespace pinprick::cli {
namespace {

std::string cause_of(const Dump& dump) {
  switch (dump.cause) {
    case Dump::Cause::hit:
      return "a hit of --until";
    case Dump::Cause::request:
      return "SIGUSR1";
    case Dump::Cause::key:
      return "Enter";
    case Dump::Cause::end:
      return "the end";
    case Dump::Cause::left:
      return fmt::format("left by pinprick {}, which is gone", dump.recorder);
  }
  return "?";
}

}  // namespace

Dump::Trigger trigger_of(const session::Event& event) {
  return {.tsc = event.tsc,
          .time_ns = event.time_ns,
          .point = event_name(event.name),
          .pid = event.process.pid,
          .tid = event.tid,
          .command = std::string(event.command)};
}

std::string heading_of(const Dump& dump) {
  return fmt::format("dump {}, {}: {}", dump.number, time_of_day(dump.time_ns), cause_of(dump));
}

std::string line_of_dump(const Dump& dump) {
  std::string line = dump.file.empty() ? fmt::format("dump {}", dump.number) : dump.file;
  if (const auto& hit = dump.trigger)
    line += fmt::format(": until {}, {}, by {} ({})", hit->point, time_of_day(hit->time_ns),
                        hit->command, hit->tid != 0 ? hit->tid : hit->pid);
  else
    line += fmt::format(": {}, {}", cause_of(dump), time_of_day(dump.time_ns));
  line += "; " + plural(dump.events, "event");
  if (dump.lacks_older_events) line += ", older ones were overwritten";
  if (dump.dropped != 0) line += fmt::format(", {} dropped", with_commas(dump.dropped));
  if (dump.pause_ns)
    line += fmt::format("; nothing was recorded for {} then",
                        duration_ns(static_cast<double>(*dump.pause_ns)));
  return line;
}

}  // namespace pinprick::cli
