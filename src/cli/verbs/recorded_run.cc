#include "cli/verbs/recorded_run.h"

#include <sys/stat.h>

#include <utility>

#include "image/pattern.h"
#include "recording/run_figures.h"

namespace pinprick::cli {
namespace {

using Of = recording::RunFigures::Name::Of;

compare::RowName row_of(const recording::RunFigures::Name& name) {
  compare::RowName row;
  row.kind = name.of == Of::hits ? compare::Kind::count : compare::Kind::latency;
  if (name.of == Of::self) row.measure = "self";
  row.object = image::without_version(name.object);
  row.function = name.function;
  row.condition = name.condition;
  return row;
}

// Makes a run of what a recording has, second by second.
class Reduced {
 public:
  explicit Reduced(const recording::Header& header)
      : figures_(header, [this](const auto& round, double seconds) { end_round(round, seconds); }) {
    run_.command = header.command_line;
  }
  recording::RunFigures& sink() { return figures_; }

  compare::Run finish(const recording::Reader& reader) {
    figures_.finish();
    run_.seconds = figures_.seconds();
    run_.losses = figures_.losses();
    run_.is_program = reader.is_whole_program();
    run_.has_no_end = !reader.is_complete();
    if (!figures_.has_inner_calls())
      std::erase_if(run_.rows, [](const auto& row) { return row.first.measure == "self"; });
    // What a program does from its start to its end is not much the same in each second.
    if (!run_.is_program) return std::move(run_);
    run_.intervals.clear();
    for (auto& [name, row] : run_.rows) row.intervals.clear();
    return std::move(run_);
  }

 private:
  void end_round(const recording::RunFigures::Round& round, double seconds) {
    for (const auto& [name, figures] : round) {
      compare::RowFigures now;
      now.calls = figures.calls;
      now.histogram = figures.times;
      now.total = static_cast<double>(figures.total_ns);
      compare::Observation observation = compare::observation_of(now, seconds);
      observation.round = run_.intervals.size();
      compare::RowFigures& row = run_.rows[row_of(name)];
      row.add(now);
      row.intervals.push_back(observation);
    }
    run_.intervals.push_back(seconds);
  }

  compare::Run run_;
  recording::RunFigures figures_;
};

Result<compare::Run, recording::ReadError> reduced(recording::Reader reader) {
  Reduced run(reader.header());
  for (;;) {
    const auto more = reader.read_chunk(run.sink());
    if (!more) return fail(more.error());
    if (!*more) break;
  }
  return run.finish(reader);
}

}  // namespace

RecordedRun read_recorded_run(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) return std::nullopt;
  auto reader = recording::Reader::open(path);
  if (!reader && reader.error().cause == recording::ReadError::Cause::not_recording)
    return std::nullopt;
  if (!reader) return fail(reader.error());
  auto run = reduced(*std::move(reader));
  if (run) run->path = path;
  return run;
}

}  // namespace pinprick::cli
