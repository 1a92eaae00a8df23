#include "session/budget.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pinprick::session {

uint32_t Budget::add(uint32_t failures) {
  units_.push_back({.failures = failures, .since_ns = now_ns_});
  begin_anew();
  return static_cast<uint32_t>(units_.size() - 1);
}

// Of what was recent, the new units had no part.
void Budget::begin_anew() {
  look_closely();
  if (recent_own_ns_ == 0 && recent_cost_ns_ == 0) return;
  recent_own_ns_ = recent_cost_ns_ = 0;
  for (Unit& unit : units_) unit.recent_ns = 0;
}

void Budget::charge(uint64_t ns) {
  balance_ns_ -= static_cast<double>(ns);
  spent_ns_ += static_cast<double>(ns);
}

// The account is a bucket: it fills with the process's own CPU time and is emptied by costs. A full
// one lets a short burst pass, so a process that has run for microseconds is not judged by them.
void Budget::settle(uint64_t passed_ns, double own_ns, double cost_ns) {
  own_ns_ += own_ns;
  spent_ns_ += cost_ns;
  balance_ns_ += rule_.share * own_ns - cost_ns;
  if (balance_ns_ < 0) {
    const double unused = std::max(0.0, kLeastUse * static_cast<double>(passed_ns) - own_ns);
    balance_ns_ = std::min(0.0, balance_ns_ + rule_.share * unused);
  }
  balance_ns_ = std::min(balance_ns_, rule_.share * std::max(kWindowNs, own_ns));
}

// A pause is twice as long as the last one if the probes came back in vain.
void Budget::take_out(Unit& unit) {
  const bool was_settled = unit.failures != 0 && now_ns_ - unit.since_ns >= kSettledNs;
  unit.failures = was_settled ? 1 : unit.failures + 1;
  const uint32_t doublings = std::min<uint32_t>(unit.failures - 1, 16);
  unit.retry_ns = now_ns_ + std::min(kLongestPauseNs, kFirstPauseNs << doublings);
  unit.since_ns = now_ns_;
  unit.state = State::out;
  unit.recent_ns = 0;
}

void Budget::try_later(uint32_t unit) {
  take_out(units_[unit]);
}

std::vector<uint32_t> Budget::drop_forgotten() {
  const auto is_gone = [](const Unit& unit) { return unit.state == State::gone; };
  const auto gone = static_cast<size_t>(std::count_if(units_.begin(), units_.end(), is_gone));
  if (gone < kManyForgotten || gone < units_.size() / 2) return {};
  std::vector<uint32_t> numbers;
  uint32_t next = 0;
  for (const Unit& unit : units_) numbers.push_back(is_gone(unit) ? kNoUnit : next++);
  std::erase_if(units_, is_gone);
  return numbers;
}

std::vector<uint32_t> Budget::choose() {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < units_.size(); ++i)
    if (units_[i].state == State::in && units_[i].recent_ns > 0) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return units_[a].recent_ns > units_[b].recent_ns;
  });
  const double goal = kGoal * rule_.share * recent_own_ns_;
  size_t chosen = 0;
  for (double left = recent_cost_ns_; chosen < order.size() && left > goal; ++chosen)
    left -= units_[order[chosen]].recent_ns;
  order.resize(chosen);
  for (const uint32_t unit : order) take_out(units_[unit]);
  return order;
}

void Budget::pass(uint64_t now_ns, uint64_t cpu_ns, std::span<const double> cost_ns) {
  const uint64_t passed = now_ns - std::min(now_ns, now_ns_);
  now_ns_ = now_ns;
  const double fade = std::exp2(-static_cast<double>(passed) / kHalfLifeNs);
  const auto used = static_cast<double>(cpu_ns);
  double cost = std::accumulate(cost_ns.begin(), cost_ns.end(), 0.0);
  const double most = (1 - kLeastOwn) * used;
  const double scale = used >= kLeastMeasuredNs && cost > most ? most / cost : 1;
  cost *= scale;
  recent_cost_ns_ = 0;
  for (size_t i = 0; i < units_.size(); ++i) {
    Unit& unit = units_[i];
    const double own = i < cost_ns.size() ? scale * cost_ns[i] : 0;
    if (unit.state != State::in && unit.state != State::stays) continue;
    unit.recent_ns = unit.recent_ns * fade + own;
    recent_cost_ns_ += unit.recent_ns;
  }
  const double own = std::max(kLeastOwn * used, used - cost);
  recent_own_ns_ = recent_own_ns_ * fade + own;
  settle(passed, own, cost);
}

Budget::Decision Budget::feed(uint64_t now_ns, uint64_t cpu_ns, std::span<const double> cost_ns) {
  pass(now_ns, cpu_ns, cost_ns);
  Decision decision;
  decision.share = recent_own_ns_ > 0 ? recent_cost_ns_ / recent_own_ns_ : 0;
  if (balance_ns_ < 0) {
    // A debt alone, from a change or a moment ago, is paid by what stays in.
    if (recent_cost_ns_ > rule_.share * recent_own_ns_) decision.out = choose();
    return decision;
  }
  if (rule_.once) return decision;
  for (uint32_t i = 0; i < units_.size(); ++i)
    if (units_[i].state == State::out && now_ns_ >= units_[i].retry_ns) decision.back.push_back(i);
  return decision;
}

}  // namespace pinprick::session
