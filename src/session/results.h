// Sums up what all batches of one owner have recorded in a process, those in place and those that
// were retired. For the thread that uses the measurement.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "session/code_names.h"
#include "session/report.h"
#include "session/selection.h"
#include "session/thread_commands.h"
#include "stats/histogram.h"

namespace pinprick::session {

// An interval starts at the last report of an interval. The whole time starts when the first batch
// was armed.
enum class Period : uint8_t { interval, whole };

// What all probes of a batch have recorded so far.
struct Recorded {
  std::vector<uint64_t> counters = {};  // of counting probes
  // These two are of all other probes.
  std::vector<stats::Histogram> histograms = {};
  std::vector<layout::Losses> losses = {};
  std::vector<ledger::KeyHits> keys = {};
  std::vector<uint64_t> sums = {};  // by counter, if something is added up
  // Of the interval or of the whole time, whichever is wanted (engine::Session::extremes).
  std::vector<layout::Extremes> extremes = {};
  ledger::SessionFile::Rests rests = {};
  // By probe.
  std::vector<uint64_t> unread = {};
  std::vector<uint64_t> events = {};
  std::vector<uint64_t> dropped = {};
  std::vector<uint64_t> passed = {};
  bool lacks_older_events = false;
};

// Functions without a hit.
enum class Idle : bool { left_out, included };

class Results {
 public:
  using Batches = engine::Engine::Batches;

  // `code` names addresses of code that keys are, and `commands` threads.
  Results(std::shared_ptr<const LoadedCode> code, std::shared_ptr<ThreadCommands> commands)
      : code_(std::move(code)), commands_(std::move(commands)) {}

  // Keeps what the batch has recorded, and destroys the batch.
  void retire(engine::Engine& engine, Batches::iterator batch);

  // Returns a report for each measure of the selection, with rows and the number of functions
  // without one. The names in the rows are owned by the batches and by these results. A function
  // without a hit has a row if the sink wants it, or if there is more than one batch.
  std::vector<Report> reports(Batches& batches, const Selection& selection, Period period,
                              const ReportSink& sink);

 private:
  std::vector<Row> rows_of(engine::Batch& batch, Period period, Idle idle);
  void keep_names(std::vector<Row>& rows);
  std::string_view kept(std::string_view name);
  RowKey named(uint64_t key, const engine::ProbeName& name, const engine::Session& session,
               const std::vector<ledger::ReadText>& texts);

  std::shared_ptr<const LoadedCode> code_;
  std::shared_ptr<ThreadCommands> commands_;
  // Of the batches, at the last report of an interval.
  std::map<engine::BatchId, Recorded> last_;
  // The sums of the retired batches.
  std::vector<Row> whole_;
  std::vector<Row> interval_;
  std::set<std::string, std::less<>> names_;
  // By address, and how far before it the code lies. Valid while rows are made of one batch.
  std::map<std::pair<Address, uint64_t>, std::string> names_of_code_;
};

}  // namespace pinprick::session
