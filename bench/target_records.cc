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
    std::istringstream(*line) >> record.name >> engine >> record.threads >> record.base_ns >>
        record.ns >> record.unit;
    for (const std::string_view known : {kPinprick, kSignal, kLttng})
      if (engine == known) record.engine = known;
    results.add(std::move(record));
  }
}

}  // namespace pinprick::bench
