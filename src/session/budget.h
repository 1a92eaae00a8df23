// Decides which probes of a process have to go, so that what they add stays below a share of the
// process's own CPU time, and when they may come back. docs/budget.md explains the rules.
//
// It is told what the probes have cost and how much CPU time the process has used, and knows
// neither processes nor probes: what comes and goes together is a unit, with a number. Pure; for
// one thread. Times are nanoseconds of any monotonic clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pinprick::session {

struct BudgetRule {
  double share = 0;   // 0.02: the probes may add 2% of the CPU time that the process itself uses
  bool once = false;  // what was taken out stays out
};

class Budget {
 public:
  Budget(BudgetRule rule, uint64_t now_ns) : rule_(rule), now_ns_(now_ns), busy_until_ns_(now_ns) {
    balance_ns_ = rule_.share * kWindowNs;
    look_closely();
  }

  // Adds a unit whose probes are in. What is recent begins anew, so call pass() first. `failures`
  // says how often its probes had to go before: the next pause is longer. Returns its number, which
  // is the next one.
  uint32_t add(uint32_t failures = 0);

  struct Decision {
    // These have to go now, and count as out; the costliest comes first. Call still_in() for those
    // that could not be taken out now, and keep_in() for those that never can.
    std::vector<uint32_t> out;
    // These may come back. Call forget() for each whose probes are in again, as a unit that is
    // added, and try_later() for the others.
    std::vector<uint32_t> back;
    double share = 0;  // the recent cost, as a share of the process's own CPU time
  };
  // Takes what happened since the last call: `cpu_ns` is all CPU time that the process has used,
  // and `cost_ns` the part of it that each unit's probes have used.
  Decision feed(uint64_t now_ns, uint64_t cpu_ns, std::span<const double> cost_ns);
  // The same, without a decision.
  void pass(uint64_t now_ns, uint64_t cpu_ns, std::span<const double> cost_ns);
  // When feed() should be called next.
  uint64_t next_ns() const { return now_ns_ + (now_ns_ < busy_until_ns_ ? kCloseNs : kUsualNs); }

  // Takes what a change of the probes has cost the process.
  void charge(uint64_t ns);
  void still_in(uint32_t unit) { units_[unit].state = State::in; }
  void keep_in(uint32_t unit) { units_[unit].state = State::stays; }
  void forget(uint32_t unit) { units_[unit].state = State::gone; }
  void try_later(uint32_t unit);

  static constexpr uint32_t kNoUnit = UINT32_MAX;
  // Drops the units that were forgotten, if there are many. Returns the new number of each unit,
  // and kNoUnit for those that were dropped; empty if none was, and the numbers stay.
  std::vector<uint32_t> drop_forgotten();

  bool is_out(uint32_t unit) const { return units_[unit].state == State::out; }
  uint32_t failures(uint32_t unit) const { return units_[unit].failures; }
  size_t units() const { return units_.size(); }
  // What all probes have added so far, and the CPU time that was the process's own.
  double spent_ns() const { return spent_ns_; }
  double own_ns() const { return own_ns_; }

  // How much CPU time the account covers: what was not spent in longer than that is lost.
  static constexpr double kWindowNs = 50e6;
  // A change of the load is seen within this time.
  static constexpr uint64_t kUsualNs = 20'000'000;
  static constexpr uint64_t kCloseNs = 5'000'000;  // after probes have come
  static constexpr uint64_t kFirstPauseNs = 1'000'000'000;
  static constexpr uint64_t kLongestPauseNs = 60'000'000'000;

 private:
  enum class State : uint8_t { in, stays, out, gone };
  struct Unit {
    State state = State::in;
    uint32_t failures = 0;
    uint64_t since_ns = 0;  // in its state
    uint64_t retry_ns = 0;
    double recent_ns = 0;  // cost, older ones weighted less
  };

  void look_closely() { busy_until_ns_ = now_ns_ + kCloselyForNs; }
  void begin_anew();
  void settle(uint64_t passed_ns, double own_ns, double cost_ns);
  std::vector<uint32_t> choose();
  void take_out(Unit& unit);

  static constexpr uint64_t kCloselyForNs = 100'000'000;
  static constexpr double kHalfLifeNs = 25e6;
  // What stays may use this part of the budget: some is left to pay debts, and to try again.
  static constexpr double kGoal = 0.6;
  // A debt of a process that hardly runs is forgiven as if it used this part of a processor.
  static constexpr double kLeastUse = 0.05;
  // At least this part of the CPU time counts as the process's own: costs are estimates on the safe
  // side, and may exceed what was used. Times below kLeastMeasured say too little of that, as hits
  // and the clock are not read at one moment.
  static constexpr double kLeastOwn = 0.25;
  static constexpr double kLeastMeasuredNs = 1e6;
  static constexpr size_t kManyForgotten = 1000;
  // A unit that has been in for this long was not brought back in vain.
  static constexpr uint64_t kSettledNs = 10'000'000'000;

  BudgetRule rule_;
  std::vector<Unit> units_;
  uint64_t now_ns_ = 0;
  uint64_t busy_until_ns_ = 0;
  double balance_ns_ = 0;  // what may be spent now; below 0: a debt
  double recent_own_ns_ = 0, recent_cost_ns_ = 0;
  double spent_ns_ = 0, own_ns_ = 0;
};

}  // namespace pinprick::session
