// What processes do with their locks: who takes each, how long it waits and holds, and in which
// order threads take several. Made of events in the order of time. Pure; not thread-safe.
//
// All tables are bounded, and what finds no room is counted.
//
// Four rules keep a lost event from spoiling what comes after it:
//
// 1. A thread that takes a lock has it alone. What others seem to hold was released unseen: their
//    holding ends without being counted.
// 2. A thread that takes a lock again that it seems to hold has released it unseen, unless the lock
//    is recursive.
// 3. A call within a call, as of functions of the C library that call one another, is part of it:
//    it has returned the same lock to the same thread meanwhile, and nothing has released it.
// 4. A wait for a condition releases the mutex when it begins, and has it again when it returns. A
//    wait that begins right after another one of the same thread is part of it.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pinprick::cli {

enum class LockType : uint8_t { mutex, readers_writer, condition, own };

struct LockEvent {
  enum class Kind : uint8_t {
    taken,
    not_taken,  // the lock was not free, or the time was over
    released,
    wait_begins,  // for a condition
    waited,       // likewise: the wait is over
    signalled     // the condition
  } kind = Kind::taken;
  LockType type = LockType::mutex;
  bool is_shared = false;     // others may take it so at the same time
  bool is_recursive = false;  // its thread may take it several times
  bool may_wait = true;       // not of what only tries
  pid_t process = 0;
  pid_t thread = 0;        // 0: it is not known
  uint64_t tsc = 0;        // when the call has returned; of what has no latency, when it was made
  uint64_t latency = 0;    // of the call, in ticks
  uint64_t lock = 0;       // the address of the lock; of waits, of the mutex
  uint64_t condition = 0;  // of waits and signals
  // A number that stands for who called.
  static constexpr uint32_t kNoOrigin = UINT32_MAX;
  uint32_t origin = kNoOrigin;
};

class LockBook {
 public:
  struct Limits {
    size_t locks = 0;  // how many there is room for
    size_t uses = 0;   // likewise for figures of who takes which lock
    size_t orders = 0;
    uint64_t least_wait = 0;     // ticks; a shorter call has not waited
    bool knows_releases = true;  // or nothing is held, as its end is not known
  };
  // All times are in ticks.
  struct Use {
    uint64_t taken = 0, not_taken = 0;
    uint64_t waits = 0, waited = 0, longest_wait = 0;
    uint64_t holds = 0, held = 0, longest_hold = 0;  // those that are over

    void add(const Use& other);
    bool is_empty() const { return taken + not_taken + waits + holds == 0; }
  };
  struct Hold {
    pid_t thread = 0;
    bool is_shared = false;
    uint32_t depth = 1;         // how often its thread has it
    uint32_t origin = 0;        // who has taken it
    uint64_t tsc = 0;           // since when
    uint64_t counted_wait = 0;  // what rule 3 takes back
  };
  struct Lock {
    pid_t process = 0;
    uint64_t address = 0;
    LockType type = LockType::mutex;
    uint32_t first_origin = LockEvent::kNoOrigin;
    uint64_t signals = 0;  // of a condition
    // By origin; those that found no room are together under kNoOrigin.
    std::map<uint32_t, Use> uses;
    std::vector<Hold> holds;
  };
  // A thread has taken one lock while it held another.
  struct Order {
    uint32_t held = 0, taken = 0;  // the numbers of the locks
    uint32_t held_origin = 0, taken_origin = 0;
    pid_t process = 0, thread = 0;
    bool by_several = false;  // other threads have done so as well
  };
  struct Figures {
    uint64_t unknown_releases = 0;  // of locks that were not taken, as far as is known
    uint64_t unseen_releases = 0;   // by rules 1 and 2
    uint64_t no_room = 0;           // events of locks that there was no room for
    uint64_t no_room_for_uses = 0;  // events that count for their lock, but not for who called
    uint64_t no_room_for_orders = 0;
  };

  explicit LockBook(Limits limits) : limits_(limits) {}

  // To be called in the order of `tsc`.
  void apply(const LockEvent& event);
  // The process runs another program: its locks are gone, and their figures stay.
  void forget(pid_t process);

  const std::vector<Lock>& locks() const { return locks_; }  // by their numbers
  const Figures& figures() const { return figures_; }
  // Returns the orders in which locks were taken that contradict one another, as rings: in each,
  // what one order takes is what the next one holds. Each needs two threads at least. Returns the
  // shortest ring of each order, and no more than `most` rings. Of very many, it may miss some.
  std::vector<std::vector<Order>> contradictions(size_t most) const;

 private:
  using Number = uint32_t;
  struct Key {
    pid_t process = 0;
    uint64_t address = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  struct Thread {
    std::vector<Number> held;  // in the order in which it has taken them
    struct Wait {
      Number lock = 0;
      uint32_t origin = 0;  // who has taken the mutex
    };
    std::optional<Wait> wait;
    uint64_t last_condition = 0, last_begin = 0;  // of a wait
    bool is_nested = false;                       // the last wait is part of another one
  };

  std::optional<Number> number_of(const LockEvent& event, uint64_t address, LockType type);
  std::optional<Number> find(pid_t process, uint64_t address) const;
  Thread* thread_of(pid_t process, pid_t thread);
  Use& use_of(Lock& lock, uint32_t origin);
  void count(const LockEvent& event, Lock& lock);
  void take(const LockEvent& event);
  void begin_hold(const LockEvent& event, Number number, uint32_t origin);
  void end_hold(Number number, size_t hold, uint64_t tsc);
  void drop_hold(Number number, size_t hold);
  void release(const LockEvent& event);
  void begin_wait(const LockEvent& event);
  void end_wait(const LockEvent& event);
  void note_orders(const LockEvent& event, Number taken);
  std::vector<Order> ring_from(const Order& first, const std::vector<uint32_t>& knot) const;
  std::vector<uint32_t> knots() const;

  Limits limits_;
  size_t uses_ = 0;  // of all locks
  std::vector<Lock> locks_;
  std::unordered_map<Key, Number, Hash> numbers_;
  std::unordered_map<Key, Thread, Hash> threads_;      // by process and TID
  std::map<std::pair<Number, Number>, Order> orders_;  // by the held and the taken lock
  Figures figures_;
};

}  // namespace pinprick::cli
