#include "cli/measure/lock_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/measure/lock_patterns.h"

namespace pinprick::cli {
namespace {

using LockKind = LockEvent::Kind;
__extension__ using WideTicks = unsigned __int128;

constexpr size_t kMostLocks = 1 << 16, kMostUses = 1 << 19, kMostOrders = 1 << 16;
// A call of a lock that is free takes some ten nanoseconds, and the kernel microseconds.
constexpr uint64_t kLeastWaitNs = 1000;

struct Meaning {
  std::string_view value;
  LockKind kind;
  LockType type;
  bool is_shared = false;
  bool may_wait = true;
};
constexpr Meaning kMeanings[] = {
    {kTakenMutex, LockKind::taken, LockType::mutex},
    {kTriedMutex, LockKind::taken, LockType::mutex, false, false},
    {kTakenByReader, LockKind::taken, LockType::readers_writer, true},
    {kTriedByReader, LockKind::taken, LockType::readers_writer, true, false},
    {kTakenByWriter, LockKind::taken, LockType::readers_writer},
    {kTriedByWriter, LockKind::taken, LockType::readers_writer, false, false},
    {kTakenOwn, LockKind::taken, LockType::own},
    {kReleased, LockKind::released, LockType::mutex},
    {kSignalled, LockKind::signalled, LockType::condition},
    {kWaitBegins, LockKind::wait_begins, LockType::mutex},
    {kWaited, LockKind::waited, LockType::mutex},
};

std::string_view word_of_type(LockType type) {
  constexpr std::string_view kWords[] = {"mutex", "rwlock", "condition", "lock"};
  return kWords[static_cast<size_t>(type)];
}

const session::EventValue* value_named(const session::Event& event, std::string_view name) {
  const auto found = std::ranges::find(event.values, name, &session::EventValue::name);
  return found == event.values.end() ? nullptr : &*found;
}

uint64_t number_in(const session::EventValue* value) {
  const bool is_known = value != nullptr && value->kind != session::EventValue::Kind::unread;
  return is_known ? value->number : 0;
}

// Functions of a C library call one another, as musl's do. What the program has called counts.
bool is_within_another(const session::EventValue* stack) {
  if (stack == nullptr) return false;
  constexpr std::string_view kFamilies[] = {"pthread_mutex_", "pthread_rwlock_", "pthread_cond_"};
  return std::ranges::any_of(kFamilies, [&](std::string_view family) {
    return std::string_view(stack->words).starts_with(family);
  });
}

LockBook::Limits book_limits(const Options& options, uint64_t ns_multiplier) {
  const uint64_t least_ns = options.limits.slower_ns.value_or(kLeastWaitNs);
  return {kMostLocks, kMostUses, kMostOrders, ticks_in(least_ns, ns_multiplier),
          !options.limits.slower_ns};
}

}  // namespace

LockLog::LockLog(const Options& options)
    : options_(options),
      ns_multiplier_(ns_multiplier()),
      book_(book_limits(options, ns_multiplier_)) {}

uint64_t LockLog::ns_of(uint64_t ticks) const {
  return static_cast<uint64_t>(WideTicks{ticks} * ns_multiplier_ >> 32);
}

void LockLog::note_name(pid_t process, uint64_t address, std::string_view words) {
  if (words.starts_with("0x") || names_.size() >= kMostLocks) return;
  names_.try_emplace(Key{process, address}, words);
}

// A value that could not be read is told as 0: there is no such lock.
void LockLog::event(const session::Event& event) {
  Kept kept;
  const session::EventValue* lock = nullptr;
  for (const Meaning& meaning : kMeanings) {
    lock = value_named(event, meaning.value);
    if (lock == nullptr) continue;
    kept.kind = meaning.kind;
    kept.type = meaning.type;
    kept.is_shared = meaning.is_shared;
    kept.may_wait = meaning.may_wait;
    break;
  }
  if (lock == nullptr) return;
  const uint64_t address = number_in(lock);
  const bool is_of_condition = kept.kind == LockKind::signalled || kept.kind == LockKind::waited ||
                               kept.kind == LockKind::wait_begins;
  const session::EventValue* const mutex = value_named(event, kMutexOfWait);
  (is_of_condition ? kept.condition : kept.lock) = address;
  if (is_of_condition) kept.lock = number_in(mutex);
  const session::EventValue* const stack = value_named(event, kLockStack);
  if (address == 0 || is_within_another(stack)) return;
  kept.process = event.process.pid;
  kept.thread = event.tid;
  kept.tsc = event.tsc;
  if (event.latency_ns) kept.latency = ticks_in(*event.latency_ns, ns_multiplier_);
  if (const auto* const result = value_named(event, kLockResult);
      result != nullptr && kept.kind == LockKind::taken && !has_taken(result->number))
    kept.kind = LockKind::not_taken;
  if (event.name.at_return) {
    kept.origin = origins_.number_of(event.name.function, stack);
    kept.is_recursive = is_recursive(number_in(value_named(event, kMutexKind)));
    note_name(kept.process, address, lock->words);
  }
  processes_.try_emplace(kept.process, event.process.command);
  order_.add(kept);
}

// The locks of the old program are gone, and the new one has not run yet.
void LockLog::executed(const session::ProcessName& process) {
  Kept kept;
  kept.process = process.pid;
  kept.tsc = read_tsc();
  kept.is_exec = true;
  order_.add(kept);
}

void LockLog::apply(const Kept& event) {
  if (!event.is_exec) {
    book_.apply(event);
    return;
  }
  book_.forget(event.process);
}

void LockLog::go_on() {
  order_.take_due([this](const Kept& event) {
    apply(event);
    return true;
  });
}

void LockLog::finish() {
  order_.take_all([this](const Kept& event) {
    apply(event);
    return true;
  });
}

std::vector<session::ProcessName> LockLog::processes() const {
  std::vector<session::ProcessName> all;
  for (const auto& [pid, command] : processes_) all.push_back({pid, command});
  return all;
}

LockUse LockLog::use_of(const LockBook::Use& use) const {
  return {use.taken,         use.not_taken,           use.waits,
          ns_of(use.waited), ns_of(use.longest_wait), use.holds,
          ns_of(use.held),   ns_of(use.longest_hold)};
}

std::string LockLog::name_of(const LockBook::Lock& lock) const {
  const auto found = names_.find({lock.process, lock.address});
  if (found != names_.end()) return found->second;
  return fmt::format("{:#x}", lock.address);
}

// What is held still counts as far as it is over.
LockRow LockLog::row_of(const LockBook::Lock& lock, uint64_t now) const {
  LockRow row = {.pid = lock.process,
                 .process = {},
                 .type = std::string(word_of_type(lock.type)),
                 .address = lock.address,
                 .name = {},
                 .first = {},
                 .signals = lock.signals,
                 .use = {},
                 .by_stack = {}};
  if (const auto process = processes_.find(lock.process); process != processes_.end())
    row.process = process->second;
  if (const auto name = names_.find({lock.process, lock.address}); name != names_.end())
    row.name = name->second;
  if (lock.first_origin < origins_.size()) {
    const std::string& stack = origins_[lock.first_origin].stack;
    row.first = stack.substr(0, stack.find('\n'));
  }
  std::map<uint32_t, LockBook::Use> uses = lock.uses;
  for (const LockBook::Hold& hold : lock.holds)
    if (const auto use = uses.find(hold.origin); use != uses.end()) {
      const uint64_t time = now - std::min(now, hold.tsc);
      use->second.add({.holds = 1, .held = time, .longest_hold = time});
    }
  LockBook::Use all;
  for (const auto& [origin, use] : uses) {
    if (use.is_empty()) continue;
    all.add(use);
    const bool is_known = origin < origins_.size();
    row.by_stack.push_back({is_known ? origins_[origin].function : "(other)",
                            is_known ? origins_[origin].stack : "", use_of(use)});
  }
  row.use = use_of(all);
  return row;
}

void LockLog::add_orders(LockReport& report) const {
  constexpr size_t kMostShown = 10;
  for (const auto& ring : book_.contradictions(kMostShown)) {
    LockOrder order = {ring.front().process, {}};
    for (const LockBook::Order& one : ring)
      order.steps.push_back({name_of(book_.locks()[one.held]), name_of(book_.locks()[one.taken]),
                             origins_[one.held_origin].stack, origins_[one.taken_origin].stack,
                             one.thread});
    report.orders.push_back(std::move(order));
  }
}

LockReport LockLog::report() const {
  LockReport report;
  report.by_holding = options_.by_holding;
  report.tells_holding = !options_.limits.slower_ns;
  report.least_wait_ns = options_.limits.slower_ns.value_or(kLeastWaitNs);
  const uint64_t now = read_tsc();
  const auto is_worse = [&](const auto& a, const auto& b) {
    const auto key = [&](const LockUse& use) {
      return options_.by_holding ? std::pair(use.held_ns, use.waited_ns)
                                 : std::pair(use.waited_ns, use.held_ns);
    };
    return key(a.use) > key(b.use);
  };
  for (const LockBook::Lock& lock : book_.locks()) {
    LockRow row = row_of(lock, now);
    std::ranges::stable_sort(row.by_stack, is_worse);
    auto& rows = lock.type == LockType::condition ? report.conditions : report.locks;
    if (!row.by_stack.empty() || row.signals != 0) rows.push_back(std::move(row));
  }
  std::ranges::stable_sort(report.locks, is_worse);
  std::ranges::stable_sort(report.conditions, is_worse);
  add_orders(report);
  report.unknown_releases = book_.figures().unknown_releases;
  report.unseen_releases = book_.figures().unseen_releases;
  report.no_room = book_.figures().no_room;
  report.no_room_for_stacks = book_.figures().no_room_for_uses;
  report.no_room_for_orders = book_.figures().no_room_for_orders;
  return report;
}

}  // namespace pinprick::cli
