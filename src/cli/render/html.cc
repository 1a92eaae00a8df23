#include "cli/render/html.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <iterator>

#include "cli/render/units.h"
#include "cli/version.h"
#include "recording/header.h"

namespace pinprick::cli {
namespace {

// As many processes stand at the top of a page: those with the smallest PIDs.
constexpr size_t kMostNamed = 8;

std::string name_of_machine() {
  utsname names = {};
  if (uname(&names) != 0) return "";
  return fmt::format("{} ({} {}, {})", names.nodename, names.sysname, names.release, names.machine);
}

}  // namespace

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

// The first process that is armed is where it begins.
void HtmlRenderer::began_now() {
  if (has_start_) return;
  has_start_ = true;
  machine_ = name_of_machine();
  page_->set_start(recording::Clocks::now().realtime_ns);
}

void HtmlRenderer::armed(const ProcessName& process, const engine::ArmReport& report,
                         uint64_t elapsed_ns, bool until_interrupt) {
  began_now();
  ExportRenderer::armed(process, report, elapsed_ns, until_interrupt);
}

void HtmlRenderer::files_armed(const FilesFigures& figures, bool until_interrupt) {
  began_now();
  ExportRenderer::files_armed(figures, until_interrupt);
}

void HtmlRenderer::replays(const recording::Header& header) {
  has_start_ = true;
  command_line_ = header.command_line;
  page_->set_start(header.clocks.realtime_ns);
  ExportRenderer::replays(header);
}

void HtmlRenderer::add_facts_of(const Report& report) {
  processes_.insert(report.process.pid);
  names_[report.process.pid] = name_of_process(report.process);
  if (names_.size() > kMostNamed) names_.erase(std::prev(names_.end()));
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
  page_->add_fact("Command", command_line_);
  if (!machine_.empty()) page_->add_fact("Machine", machine_);
  std::string names;
  for (const auto& [pid, name] : names_) names += (names.empty() ? "" : ", ") + name;
  if (processes_.size() > names_.size())
    names += fmt::format(" and {} others", with_commas(processes_.size() - names_.size()));
  if (!names.empty()) page_->add_fact(processes_.size() == 1 ? "Process" : "Processes", names);
  constexpr double kMsPerSecond = 1000;
  if (seconds_ != 0)
    page_->add_fact("Measured", seconds_ < 1 ? fmt::format("{:.3g} ms", seconds_ * kMsPerSecond)
                                             : fmt::format("{:.2f} s", seconds_));
  fill_page();
  page_->add_fact("Made by", version_text());
  tell_losses();
  page_->write([this](std::string_view text) { data().write(text); });
}

}  // namespace pinprick::cli
