#include "cli/render/html.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/render/units.h"
#include "cli/version.h"

namespace pinprick::cli {

std::string name_of_process(const session::ProcessName& process) {
  // A sum of many processes has no number.
  return process.pid == 0 ? process.command : fmt::format("{} ({})", process.command, process.pid);
}

void HtmlRenderer::warning(const std::string& text) {
  page_->add_warning(text);
  ExportRenderer::warning(text);
}

void HtmlRenderer::error(const Message& message) {
  page_->add_warning(message.text);
  ExportRenderer::error(message);
}

void HtmlRenderer::add_facts_of(const Report& report) {
  processes_[report.process.pid] = name_of_process(report.process);
  seconds_ = std::max(seconds_, report.seconds);
  if (report.budget) partial_ += report.budget->partial;
  losses_ += session::losses_of(report.rows);
  for (const Row& row : report.rows) {
    lacks_older_events_ = lacks_older_events_ || row.lacks_older_events;
    if (row.sample) every_ = std::max(every_, row.sample->every);
  }
}

void HtmlRenderer::tell_losses() {
  std::string causes;
  losses_.for_each([&](const layout::LossWords& words, uint64_t count) {
    if (count != 0)
      causes += fmt::format("{}{} {}", causes.empty() ? "" : ", ", words.text, with_commas(count));
  });
  if (!causes.empty()) page_->add_warning("not recorded: " + causes);
  if (lacks_older_events_)
    page_->add_warning("older events are missing: newer ones have overwritten them");
  if (every_ > 1)
    page_->add_warning(fmt::format("a sample: one of {} hits was recorded", with_commas(every_)));
  if (partial_ != 0)
    page_->add_warning(fmt::format("probes of {} were out for a time, to stay within the budget",
                                   plural(partial_, "row")));
}

void HtmlRenderer::finish() {
  constexpr size_t kMostNamed = 8;
  page_->add_fact("Command", command_line_);
  std::string names;
  size_t named = 0;
  for (const auto& [pid, name] : processes_)
    if (named++ < kMostNamed) names += (names.empty() ? "" : ", ") + name;
  if (processes_.size() > kMostNamed)
    names += fmt::format(" and {} others", with_commas(processes_.size() - kMostNamed));
  if (!names.empty()) page_->add_fact(processes_.size() == 1 ? "Process" : "Processes", names);
  if (seconds_ != 0) page_->add_fact("Measured", fmt::format("{:.2f} s", seconds_));
  fill_page();
  page_->add_fact("Made by", version_text());
  tell_losses();
  page_->write([this](std::string_view text) { data().write(text); });
}

}  // namespace pinprick::cli
