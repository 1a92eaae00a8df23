// A process under observation, and what its probes have recorded.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/render/renderer.h"
#include "engine/session.h"
#include "image/process.h"
#include "placement/probe_set.h"
#include "target/remote_target.h"

namespace pinprick::cli {

// By return probes, in all.
struct Recorded {
  std::vector<stats::Histogram> histograms = {};
  std::vector<ledger::Unrecorded> unrecorded = {};
};

// What was armed at one time: all that was there at first, then what was loaded.
struct Generation {
  std::unique_ptr<image::ProcessImage> image;
  engine::Session session;
  std::vector<uint64_t> last_counters = {};  // at the last report
  Recorded last = {};                        // the same of return probes
};

// What generations that are no more have recorded.
template <class Row>
struct Past {
  std::vector<Row> all;
  std::vector<Row> since_report;
  std::set<std::string, std::less<>> names;  // those of the rows
};

// Where an object was loaded.
using Place = std::pair<std::string, uint64_t>;
std::set<Place> places(const image::ProcessImage& image);

class Watched {
 public:
  Watched(ProcessName process, target::RemoteTarget running, placement::Kind kind)
      : name(std::move(process)), target(std::move(running)), kind_(kind) {}

  ProcessName name;
  target::RemoteTarget target;        // the program that it runs
  std::list<Generation> generations;  // the first one has the hook in the loader
  std::set<Place> known;              // objects that were looked at, and are still there
  std::optional<engine::DisarmReport> disarmed;
  std::vector<Range> object_code;  // where they hold code
  uint64_t looked_ns = 0;          // when it was last looked at for calls from elsewhere
  std::set<Address> strange;       // mappings of files that were looked at for that
  bool has_left = false;  // something could not be armed, and may not have been taken out again
  uint64_t armed_ns = 0;
  uint64_t ended_ns = 0;  // 0: still there
  uint64_t last_ns = 0;

  engine::LoaderWatch* loader() const {
    return generations.empty() ? nullptr : generations.front().session.loader();
  }
  // That generations of ours have in it.
  std::vector<Range> our_code() const;
  // To be called when `object_code` or `generations` have changed: calls from there are timed.
  void admit_callers();

  // Readable when something happens.
  std::vector<int> descriptors() const;
  bool has_loaded() const;
  // The process, or the program in it.
  bool has_ended() const { return target.has_exited() || !target.same_image(); }

  // How many slots to begin with, where calls found none.
  uint64_t slots_to_ask_for() const;

  // What the generation has recorded stays; it goes, with all that it holds.
  void retire(std::list<Generation>::iterator generation);

  // Of counting probes, of return probes, and of those that record values: since the last report,
  // or of all times. What was unloaded and loaded again is one row. `shows_idle`: of a number of
  // functions, are rows without a hit wanted? The report's names are the sessions'.
  using ShowsIdle = std::function<bool(size_t)>;
  Report<CountRow> counts(bool is_final, const ShowsIdle& shows_idle);
  Report<LatencyRow> latencies(bool is_final, const ShowsIdle& shows_idle);
  Report<ValueRow> values(bool is_final, const ShowsIdle& shows_idle);

 private:
  template <class Row>
  Report<Row> report(bool is_final, Past<Row>& past, const ShowsIdle& shows_idle);

  placement::Kind kind_;
  Past<CountRow> past_counts_;
  Past<LatencyRow> past_latencies_;
  Past<ValueRow> past_values_;
};

}  // namespace pinprick::cli
