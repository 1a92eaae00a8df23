#include "target_records.h"

#include <algorithm>
#include <sstream>

#include "child.h"

namespace pinprick::bench {

Result<void, cli::Message> read_records(const std::vector<std::string>& command,
                                        const Interrupts& interrupts, Results& results) {
  auto child = Child::start(command, std::nullopt, interrupts);
  if (!child) return fail(child.error());
  for (;;) {
    const auto line = child->read_line_with("");
    if (!line) return fail(line.error());
    if (*line == "done") return {};
    Record record;
    std::string engine;
    std::istringstream values(*line);
    values >> record.name >> engine >> record.threads >> record.rounds >> record.unit;
    if (record.unit == "ns") record.unit.clear();
    const bool has_base = record.rounds != "-";
    double base = 0, with = 0;
    while (values >> base >> with) {
      if (has_base) record.samples.base.push_back(base);
      record.samples.with.push_back(with);
    }
    if (record.samples.with.empty())
      return fail(cli::Message{"no_samples", "a line without samples: " + *line, cli::kFailed});
    for (const std::string_view known : {kPinprick, kSignal, kLttng})
      if (engine == known) record.engine = known;
    results.add(std::move(record));
  }
}

}  // namespace pinprick::bench
