#include "cli/verbs/recorded_run.h"

#include <sys/stat.h>

#include <span>
#include <utility>

#include "image/pattern.h"
#include "recording/run_figures.h"

namespace pinprick::cli {
namespace {

using recording::RunFigures;

constexpr const char* kSelf = "self";

compare::RowName compared_name(const RunFigures::Row& row) {
  compare::RowName name;
  name.kind = row.has_times ? compare::Kind::latency : compare::Kind::count;
  name.object = image::without_version(row.object);
  name.function = row.function;
  name.condition = row.condition;
  return name;
}

// Makes a run of what a recording has, second by second.
class Reduced {
 public:
  explicit Reduced(const recording::Header& header)
      : figures_(header, [this](const auto& rows, double seconds) { end_round(rows, seconds); }) {
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
      std::erase_if(run_.rows, [](const auto& row) { return row.first.measure == kSelf; });
    // Over its whole life, a program does different things in different seconds: no two are
    // repetitions.
    if (!run_.is_program) return std::move(run_);
    run_.intervals.clear();
    for (auto& [name, row] : run_.rows) row.intervals.clear();
    return std::move(run_);
  }

 private:
  // If there are very many seconds and functions, the first ones suffice to show how seconds
  // differ.
  void end_round(std::span<RunFigures::Row* const> rows, double seconds) {
    constexpr size_t kMostObservations = 1 << 21;
    const bool has_room = observations_ < kMostObservations;
    for (RunFigures::Row* const row : rows) {
      compare::RowName name = compared_name(*row);
      add(name, row->count, row->times, seconds, has_room);
      if (!row->has_times) continue;
      name.measure = kSelf;
      add(name, row->count, row->self, seconds, has_room);
    }
    if (has_room) run_.intervals.push_back(seconds);
  }
  void add(const compare::RowName& name, uint64_t count, RunFigures::Times& times, double seconds,
           bool has_room) {
    compare::RowFigures now;
    now.calls = count;
    now.histogram = std::move(times.histogram);
    now.total = static_cast<double>(times.total_ns);
    compare::RowFigures& row = run_.rows[name];
    row.add(now);
    if (!has_room) return;
    row.intervals.push_back(compare::observation_of(now, seconds));
    row.intervals.back().round = run_.intervals.size();
    ++observations_;
  }

  compare::Run run_;
  size_t observations_ = 0;
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
  using Cause = recording::ReadError::Cause;
  struct stat status = {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) return std::nullopt;
  auto reader = recording::Reader::open(path);
  if (!reader &&
      (reader.error().cause == Cause::not_recording || reader.error().cause == Cause::system))
    return std::nullopt;
  if (!reader) return fail(reader.error());
  auto run = reduced(*std::move(reader));
  if (run) run->path = path;
  return run;
}

}  // namespace pinprick::cli
