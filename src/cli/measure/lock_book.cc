#include "cli/measure/lock_book.h"

#include <algorithm>
#include <deque>
#include <set>

namespace pinprick::cli {
namespace {

constexpr size_t kMostThreads = 1 << 16;
constexpr size_t kMostHeld = 64;  // by one thread, of which the order is noted
// By so much the start of a call may be known too late.
constexpr uint64_t kSoon = 1 << 16;  // ticks

size_t index_of_hold(const LockBook::Lock& lock, pid_t thread) {
  const auto found = std::ranges::find(lock.holds, thread, &LockBook::Hold::thread);
  return static_cast<size_t>(found - lock.holds.begin());
}

uint64_t start_of(const LockEvent& event) {
  return event.tsc - std::min(event.tsc, event.latency);
}

// Is the call whose hold this is part of the call that has this event?
bool is_part_of(const LockBook::Hold& hold, const LockEvent& event) {
  if (hold.depth != 1 || hold.is_shared != event.is_shared) return false;
  const uint64_t start = start_of(event);
  return hold.tsc > start || (!event.is_recursive && !event.is_shared && hold.tsc + kSoon > start);
}

}  // namespace

void LockBook::Use::add(const Use& other) {
  taken += other.taken;
  not_taken += other.not_taken;
  waits += other.waits;
  waited += other.waited;
  longest_wait = std::max(longest_wait, other.longest_wait);
  holds += other.holds;
  held += other.held;
  longest_hold = std::max(longest_hold, other.longest_hold);
}

size_t LockBook::Hash::operator()(const Key& key) const {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;  // 2^64 divided by the golden ratio
  constexpr unsigned kHalf = 32;
  const uint64_t mixed = (key.address ^ static_cast<uint64_t>(key.process) << kHalf) * kOdd;
  return mixed ^ mixed >> kHalf;
}

std::optional<LockBook::Number> LockBook::find(pid_t process, uint64_t address) const {
  const auto found = numbers_.find({process, address});
  if (found == numbers_.end()) return std::nullopt;
  return found->second;
}

std::optional<LockBook::Number> LockBook::number_of(const LockEvent& event, uint64_t address,
                                                    LockType type) {
  if (const auto known = find(event.process, address)) return known;
  if (locks_.size() >= limits_.locks) {
    ++figures_.no_room;
    return std::nullopt;
  }
  const auto number = static_cast<Number>(locks_.size());
  numbers_.emplace(Key{event.process, address}, number);
  locks_.push_back({event.process, address, type, LockEvent::kNoOrigin, 0, {}, {}});
  return number;
}

// Threads that have ended are forgotten with all others, once there are very many.
LockBook::Thread* LockBook::thread_of(pid_t process, pid_t thread) {
  if (thread == 0) return nullptr;
  if (threads_.size() >= kMostThreads) threads_.clear();
  return &threads_[{process, static_cast<uint64_t>(thread)}];
}

LockBook::Use& LockBook::use_of(Lock& lock, uint32_t origin) {
  if (const auto known = lock.uses.find(origin); known != lock.uses.end()) return known->second;
  if (uses_ >= limits_.uses) {
    ++figures_.no_room_for_uses;
    return lock.uses[LockEvent::kNoOrigin];
  }
  ++uses_;
  return lock.uses[origin];
}

void LockBook::count(const LockEvent& event, Lock& lock) {
  if (lock.first_origin == LockEvent::kNoOrigin) lock.first_origin = event.origin;
  Use& use = use_of(lock, event.origin);
  if (event.kind == LockEvent::Kind::taken) ++use.taken;
  if (event.kind == LockEvent::Kind::not_taken) ++use.not_taken;
  const bool has_waited = event.kind == LockEvent::Kind::waited ||
                          (event.may_wait && event.latency >= limits_.least_wait);
  if (!has_waited) return;
  ++use.waits;
  use.waited += event.latency;
  use.longest_wait = std::max(use.longest_wait, event.latency);
}

// It is in no figure any more.
void LockBook::drop_hold(Number number, size_t hold) {
  Lock& lock = locks_[number];
  if (Thread* const thread = thread_of(lock.process, lock.holds[hold].thread))
    std::erase(thread->held, number);
  lock.holds.erase(lock.holds.begin() + static_cast<ptrdiff_t>(hold));
}

void LockBook::end_hold(Number number, size_t hold, uint64_t tsc) {
  Lock& lock = locks_[number];
  const Hold& one = lock.holds[hold];
  const uint64_t time = tsc - std::min(tsc, one.tsc);
  use_of(lock, one.origin).add({.holds = 1, .held = time, .longest_hold = time});
  drop_hold(number, hold);
}

void LockBook::begin_hold(const LockEvent& event, Number number, uint32_t origin) {
  if (!limits_.knows_releases) return;
  Lock& lock = locks_[number];
  for (size_t i = lock.holds.size(); i-- > 0;) {
    const bool may_stay = event.is_shared && lock.holds[i].is_shared;
    if (may_stay || lock.holds[i].thread == event.thread) continue;
    drop_hold(number, i);
    ++figures_.unseen_releases;
  }
  const bool has_waited = event.may_wait && event.latency >= limits_.least_wait;
  const Hold begun = {event.thread, event.is_shared, 1,
                      origin,       event.tsc,       has_waited ? event.latency : 0};
  const size_t own = index_of_hold(lock, event.thread);
  if (own == lock.holds.size()) {
    if (lock.holds.size() >= kMostThreads) return;
    lock.holds.push_back(begun);
    if (Thread* const thread = thread_of(event.process, event.thread))
      if (thread->held.size() < kMostHeld) thread->held.push_back(number);
    return;
  }
  Hold& hold = lock.holds[own];
  const bool goes_deeper = event.is_recursive || (event.is_shared && hold.is_shared);
  if (goes_deeper && hold.depth != UINT32_MAX) {
    ++hold.depth;
    return;
  }
  hold = begun;
  ++figures_.unseen_releases;
}

void LockBook::take(const LockEvent& event) {
  const auto number = number_of(event, event.lock, event.type);
  if (!number) return;
  Lock& lock = locks_[*number];
  if (Thread* const thread = thread_of(event.process, event.thread))
    if (thread->wait && thread->wait->lock == *number) thread->wait.reset();
  const size_t own = event.thread == 0 ? lock.holds.size() : index_of_hold(lock, event.thread);
  if (own != lock.holds.size() && is_part_of(lock.holds[own], event)) {
    const Hold& inner = lock.holds[own];
    Use& use = use_of(lock, inner.origin);
    use.taken -= std::min<uint64_t>(use.taken, 1);
    if (inner.counted_wait != 0) {
      use.waits -= std::min<uint64_t>(use.waits, 1);
      use.waited -= std::min(use.waited, inner.counted_wait);
    }
    drop_hold(*number, own);
  }
  count(event, lock);
  note_orders(event, *number);
  begin_hold(event, *number, event.origin);
}

// It may be released by another thread than the one that has taken it.
void LockBook::release(const LockEvent& event) {
  const auto number = find(event.process, event.lock);
  Lock* const lock = number ? &locks_[*number] : nullptr;
  if (lock == nullptr || lock->holds.empty()) {
    const Thread* const thread = thread_of(event.process, event.thread);
    const bool waits = number && thread != nullptr && thread->wait && thread->wait->lock == *number;
    if (!waits) ++figures_.unknown_releases;
    return;
  }
  size_t hold = index_of_hold(*lock, event.thread);
  if (hold == lock->holds.size()) {
    if (hold != 1) {
      ++figures_.unknown_releases;
      return;
    }
    hold = 0;
  }
  if (lock->holds[hold].depth > 1)
    --lock->holds[hold].depth;
  else
    end_hold(*number, hold, event.tsc);
}

void LockBook::begin_wait(const LockEvent& event) {
  const auto number = find(event.process, event.lock);
  Thread* const thread = thread_of(event.process, event.thread);
  if (thread == nullptr) return;
  thread->is_nested =
      thread->last_condition == event.condition && event.tsc < thread->last_begin + kSoon;
  thread->last_condition = event.condition;
  thread->last_begin = event.tsc;
  if (!number) return;
  const size_t hold = index_of_hold(locks_[*number], event.thread);
  if (hold == locks_[*number].holds.size()) return;
  thread->wait = {*number, locks_[*number].holds[hold].origin};
  end_hold(*number, hold, event.tsc);
}

void LockBook::end_wait(const LockEvent& event) {
  Thread* const thread = thread_of(event.process, event.thread);
  if (thread != nullptr && std::exchange(thread->last_condition, 0) == event.condition &&
      thread->is_nested)
    return;
  if (const auto number = number_of(event, event.condition, LockType::condition))
    count(event, locks_[*number]);
  const auto mutex = find(event.process, event.lock);
  if (!mutex || thread == nullptr || !thread->wait || thread->wait->lock != *mutex) return;
  const uint32_t origin = std::exchange(thread->wait, std::nullopt)->origin;
  LockEvent again = event;
  again.may_wait = false;
  begin_hold(again, *mutex, origin);
}

// What only tries does not wait, so its order does no harm. Nor do readers disturb one another.
void LockBook::note_orders(const LockEvent& event, Number taken) {
  const Thread* const thread = thread_of(event.process, event.thread);
  if (thread == nullptr || !event.may_wait || event.type == LockType::condition) return;
  for (const Number held : thread->held) {
    if (held == taken) continue;
    const Lock& other = locks_[held];
    const size_t hold = index_of_hold(other, event.thread);
    if (hold == other.holds.size() || (event.is_shared && other.holds[hold].is_shared)) continue;
    const auto known = orders_.find({held, taken});
    if (known != orders_.end()) {
      known->second.by_several = known->second.by_several || known->second.thread != event.thread;
      continue;
    }
    if (orders_.size() >= limits_.orders) {
      ++figures_.no_room_for_orders;
      continue;
    }
    orders_.emplace(std::pair(held, taken), Order{held, taken, other.holds[hold].origin,
                                                  event.origin, event.process, event.thread});
  }
}

void LockBook::apply(const LockEvent& event) {
  using Kind = LockEvent::Kind;
  switch (event.kind) {
    case Kind::taken:
      take(event);
      break;
    case Kind::not_taken:
      if (const auto number = number_of(event, event.lock, event.type))
        count(event, locks_[*number]);
      break;
    case Kind::released:
      release(event);
      break;
    case Kind::wait_begins:
      begin_wait(event);
      break;
    case Kind::waited:
      end_wait(event);
      break;
    case Kind::signalled:
      if (const auto number = number_of(event, event.condition, LockType::condition))
        ++locks_[*number].signals;
      break;
  }
}

void LockBook::forget(pid_t process) {
  std::erase_if(numbers_, [&](const auto& one) { return one.first.process == process; });
  std::erase_if(threads_, [&](const auto& one) { return one.first.process == process; });
  for (Lock& lock : locks_)
    if (lock.process == process) lock.holds.clear();
}

// Returns the shortest way from what the order takes back to what it holds, after the order itself.
std::vector<LockBook::Order> LockBook::ring_from(const Order& first,
                                                 const std::vector<uint32_t>& knot) const {
  std::map<Number, const Order*> by_taken = {{first.taken, &first}};
  std::deque<Number> next = {first.taken};
  while (!next.empty() && !by_taken.contains(first.held)) {
    const Number lock = next.front();
    next.pop_front();
    for (auto one = orders_.lower_bound({lock, 0});
         one != orders_.end() && one->first.first == lock; ++one)
      if (knot[one->second.taken] == knot[first.taken] &&
          by_taken.try_emplace(one->second.taken, &one->second).second)
        next.push_back(one->second.taken);
  }
  std::vector<Order> ring;
  if (!by_taken.contains(first.held)) return ring;
  for (Number lock = first.held; lock != first.taken; lock = by_taken[lock]->held)
    ring.push_back(*by_taken[lock]);
  ring.push_back(first);
  std::reverse(ring.begin(), ring.end());
  return ring;
}

// Returns the knot of each lock: a number that two locks have in common if orders lead from each to
// the other (Tarjan 1972, without recursion). Orders between knots are in no ring, so that the
// search for rings is only where there are some.
std::vector<uint32_t> LockBook::knots() const {
  constexpr uint32_t kNone = UINT32_MAX;
  using Orders = std::map<std::pair<Number, Number>, Order>;
  struct Step {
    Number lock;
    Orders::const_iterator next;
  };
  std::vector<uint32_t> visit(locks_.size(), kNone), low(locks_.size()), knot(locks_.size(), kNone);
  std::vector<Number> open;
  std::vector<Step> path;
  uint32_t visits = 0;
  const auto enter = [&](Number lock) {
    visit[lock] = low[lock] = visits++;
    open.push_back(lock);
    path.push_back({lock, orders_.lower_bound({lock, 0})});
  };
  for (const auto& [locks, order] : orders_) {
    if (visit[order.held] == kNone) enter(order.held);
    while (!path.empty()) {
      Step& step = path.back();
      const Number lock = step.lock;
      if (step.next != orders_.end() && step.next->first.first == lock) {
        const Number taken = step.next++->first.second;
        if (visit[taken] == kNone)
          enter(taken);
        else if (knot[taken] == kNone)
          low[lock] = std::min(low[lock], visit[taken]);
        continue;
      }
      path.pop_back();
      if (!path.empty()) low[path.back().lock] = std::min(low[path.back().lock], low[lock]);
      if (low[lock] != visit[lock]) continue;
      Number member = 0;
      do {
        member = open.back();
        open.pop_back();
        knot[member] = lock;
      } while (member != lock);
    }
  }
  return knot;
}

// A thread alone cannot wait for itself by taking two locks in either order.
std::vector<std::vector<LockBook::Order>> LockBook::contradictions(size_t most) const {
  constexpr size_t kMostSearches = 200;
  std::vector<std::vector<Order>> all;
  std::set<std::set<Number>> seen;
  const std::vector<uint32_t> knot = knots();
  size_t searches = 0;
  for (const auto& [locks, order] : orders_) {
    if (all.size() >= most || searches >= kMostSearches) break;
    if (knot[order.held] != knot[order.taken]) continue;
    ++searches;
    const std::vector<Order> ring = ring_from(order, knot);
    if (ring.empty()) continue;
    const bool is_of_several = std::ranges::any_of(ring, [&](const Order& one) {
      return one.by_several || one.thread != ring.front().thread;
    });
    std::set<Number> own;
    for (const Order& one : ring) own.insert(one.taken);
    if (is_of_several && seen.insert(std::move(own)).second) all.push_back(ring);
  }
  return all;
}

}  // namespace pinprick::cli
