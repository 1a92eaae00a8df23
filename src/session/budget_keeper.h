// Holds what the probes of one process add to it below a budget (budget.h): samples hits and CPU
// time, takes the costliest probes out of the text, and says which may come back. docs/budget.md
// explains why they are taken out, and not only switched off.
//
// For the thread that uses the measurement. A process that cannot be stopped keeps its probes, and
// the next sample tries again.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "engine/engine.h"
#include "session/budget.h"
#include "session/report.h"

namespace pinprick::session {

// What a hit of each kind of probe is taken to cost, in nanoseconds: on the safe side
// (runtime/probe_cost.h).
struct HitCosts {
  double count = 0;
  double locked = 0;  // more for each hit in a process without restartable sequences
  double value = 0;
  double call = 0;  // entry and return
  double span = 0;  // start and end
};

struct BudgetSpec {
  BudgetRule rule;
  HitCosts costs;
};

// The probes of some functions were taken out, or are in again.
struct BudgetEvent {
  struct Function {
    std::string object;
    std::string name;  // with the offset of an instruction, and the value that is recorded
    Address address = 0;
    std::string file;
  };
  double seconds = 0;  // since the process was armed
  bool is_out = false;
  double share = 0;  // what all probes had cost lately, as a share of the process's own CPU time
  double limit = 0;
  std::vector<Function> functions;  // those that go, the costliest first
};

// What identifies a match in a process, to find it again.
struct MatchKey {
  uint32_t pattern = 0;
  std::string path;
  uint64_t bias = 0;
  Address site = 0;
  friend auto operator<=>(const MatchKey&, const MatchKey&) = default;
};

class BudgetKeeper {
 public:
  // Of a process that was armed at `begin_ns`, from which times are counted, or was taken over from
  // the one that had forked it, with the figures that the probes had then.
  enum class Origin : uint8_t { armed, forked };
  BudgetKeeper(const BudgetSpec& spec, pid_t pid, uint64_t begin_ns, Origin origin = Origin::armed);

  bool is_due(uint64_t now_ns) const { return now_ns >= next_ns_; }

  struct Change {
    std::optional<BudgetEvent> back;  // probes that a library brought back when it was loaded again
    std::optional<BudgetEvent> out;   // what was taken out
    std::set<MatchKey> may_come_back;  // empty: nothing may
  };
  // Samples what the batches have recorded, and takes out what has to go.
  Change keep(engine::Engine& engine, uint64_t now_ns);
  // What may come back was tried, and is in a batch of the engine now if that went well.
  // `cost_ns` is the time that it has cost the process. Returns what is back; nullopt if nothing
  // is.
  std::optional<BudgetEvent> note_back(const engine::Engine& engine,
                                       const std::set<MatchKey>& wanted, uint64_t cost_ns,
                                       uint64_t now_ns);
  // How many batches of what has come back there are.
  size_t batches_brought_back() const;
  // The process runs another program, in which nothing is out.
  void forget_program(uint64_t now_ns);

  // Notes in the rows when their probes were out, as far as that was from `from_ns` to `until_ns`.
  void note_absences(std::vector<Row>& rows, uint64_t from_ns, uint64_t until_ns) const;
  BudgetFigures figures() const;

 private:
  // The row that a probe belongs to.
  using RowKey = std::tuple<uint32_t, std::string, uint64_t, std::string>;
  struct Out {
    uint64_t from_ns = 0;
    uint64_t until_ns = UINT64_MAX;
  };
  struct Absences {
    std::vector<Out> times;
    size_t sites_out = 0;  // of an SDT point there may be several; of others, one
  };
  struct Watched {
    engine::BatchId batch = {};
    std::vector<uint32_t> unit_of;  // by position in Session::probes(); kNoUnit: it was forgotten
    std::vector<uint64_t> hits;     // at the last sample
    std::vector<float> cost_ns;     // of a hit
    bool is_back = false;           // some of it had been out before
  };
  static RowKey key_of(uint32_t measure, const engine::ProbeName& name);
  static MatchKey key_of(const engine::Session& session, const engine::ArmedProbe& probe);
  float cost_of(const engine::Session& session, const engine::ArmedProbe& probe) const;
  // Brings watched_ up to date, and returns which functions are in again.
  std::vector<BudgetEvent::Function> follow(const engine::Engine& engine);
  void watch(const engine::Batch& batch, const std::set<MatchKey>& in_place,
             std::vector<BudgetEvent::Function>& back);
  void take_over_removed(const engine::Session& session, const Watched& watched,
                         const std::set<MatchKey>& in_place);
  std::set<MatchKey> in_place(const engine::Engine& engine) const;
  bool can_come_back(uint32_t unit) const;
  void forget_out(const MatchKey& key);
  void renumber(const std::vector<uint32_t>& numbers);
  void note_in(const engine::Session& session, const engine::ArmedProbe& probe,
               std::vector<BudgetEvent::Function>& back);
  static std::vector<uint32_t> units_of(const engine::Session& session);
  uint64_t take_cpu_time();
  std::vector<double> sample(const engine::Engine& engine);
  std::optional<BudgetEvent> take_out(engine::Engine& engine, const Budget::Decision& decision);
  void note_out(const engine::Session& session, uint32_t probe, uint32_t unit, uint64_t from_ns);
  BudgetEvent event(bool is_out, double share) const;

  BudgetSpec spec_;
  pid_t pid_ = 0;
  Origin origin_ = Origin::armed;
  Budget budget_;
  uint64_t begin_ns_ = 0, now_ns_ = 0, next_ns_ = 0;
  std::optional<uint64_t> cpu_ns_;  // at the last sample
  double share_ = 0;                // at the last sample
  std::vector<Watched> watched_;
  std::map<MatchKey, uint32_t> out_;    // what is out and can come back, with its unit
  std::map<uint32_t, size_t> keys_of_;  // how many of these each unit has
  std::map<RowKey, Absences> absences_;
};

}  // namespace pinprick::session
