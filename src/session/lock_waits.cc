#include "session/lock_waits.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "session/code_names.h"
#include "session/thread_stacks.h"
#include "session/wait_rings.h"
#include "target/memory.h"
#include "target/procfs.h"

namespace pinprick::session {
namespace {

constexpr size_t kMostFrames = 20;

// A thread that waits for a word of memory to change, and what it waits for.
struct Waiting {
  LockWait::Kind kind = LockWait::Kind::mutex;
  pid_t thread = 0;
  Address lock = 0;
  pid_t owner = 0;  // as the program sees it
  bool gives_up = false;
  target::ThreadPosition position;
  // How often the thread had been switched before this look at it, and after.
  uint64_t switches_before = 0, switches_after = 0;

  // Has the thread waited without a break since the earlier look?
  bool has_lasted_since(const Waiting& earlier) const {
    return kind == earlier.kind && thread == earlier.thread && lock == earlier.lock &&
           owner == earlier.owner && switches_after == earlier.switches_before;
  }
};

// The parts that glibc's locks have on x86-64, since version 2.25.
struct GlibcMutex {
  uint32_t lock = 0, count = 0;
  int32_t owner = 0;
  uint32_t users = 0;
  uint32_t kind = 0;
};
struct GlibcRwlock {
  uint32_t readers = 0, writers = 0, phase_futex = 0, writers_futex = 0, none[2] = {};
  int32_t writer = 0;
  uint32_t is_shared = 0;
};

bool is_mutex(const GlibcMutex& mutex) {
  constexpr uint32_t kKinds = 0x400, kMostUsers = 1 << 22;
  return mutex.lock != 0 && mutex.owner > 0 && mutex.users != 0 && mutex.users <= kMostUsers &&
         mutex.kind < kKinds;
}

// Rejects a lock that no thread holds, as no thread waits for one.
bool is_rwlock(const GlibcRwlock& rwlock) {
  constexpr unsigned kReadersShift = 3;
  if (rwlock.writer <= 0 && rwlock.readers >> kReadersShift == 0) return false;
  return rwlock.none[0] == 0 && rwlock.none[1] == 0 && rwlock.is_shared <= 1 &&
         rwlock.phase_futex <= 3 && rwlock.writers_futex <= 3;
}

// Finds out what a thread waits for, from the word and the memory around it. Does not check the
// owner.
std::optional<Waiting> waiting_of(const target::Memory& memory, const target::BlockedCall& call) {
  constexpr uint64_t kOwner = FUTEX_TID_MASK, kContended = 2;
  if (call.number != SYS_futex) return std::nullopt;
  const Address word = call.arguments[0];
  const uint64_t operation = call.arguments[1] & FUTEX_CMD_MASK;
  const uint64_t value = call.arguments[2] & UINT32_MAX;
  Waiting waiting = {.lock = word, .gives_up = call.arguments[3] != 0, .position = call.position};
  uint32_t now = 0;
  if (!memory.read_value(word, now)) return std::nullopt;
  constexpr uint64_t kLockPi2 = 13;
  if (operation == FUTEX_LOCK_PI || operation == kLockPi2) {
    waiting.owner = static_cast<pid_t>(now & kOwner);
    return waiting;
  }
  if (operation != FUTEX_WAIT && operation != FUTEX_WAIT_BITSET) return std::nullopt;
  // The word of a robust mutex has the TID of its owner. The value in the call is as old as the
  // wait: the mutex may have got another owner since, so this is read from the mutex itself.
  const bool is_robust = (value & FUTEX_WAITERS) != 0 && (value & kOwner) != 0;
  GlibcMutex mutex;
  if ((value == kContended || is_robust) && memory.read_value(word, mutex) && is_mutex(mutex)) {
    waiting.owner = mutex.owner;
    return waiting;
  }
  // A thread waits for the third or the fourth word of a rwlock. glibc does not keep who reads.
  const Address start = word - (word % sizeof(Address) == 0 ? offsetof(GlibcRwlock, phase_futex)
                                                            : offsetof(GlibcRwlock, writers_futex));
  GlibcRwlock rwlock;
  if (value <= 3 && memory.read_value(start, rwlock) && is_rwlock(rwlock)) {
    waiting.kind = LockWait::Kind::readers_writer;
    waiting.lock = start;
    waiting.owner = std::max(rwlock.writer, 0);
    return waiting;
  }
  // pthread_join waits until the kernel writes 0 over the TID, by a futex that processes may share.
  // Other futexes may have a value that looks like a TID, but nearly all of them are private.
  const bool is_private = (call.arguments[1] & FUTEX_PRIVATE_FLAG) != 0;
  if (!is_private && value == now && value > 3) {
    waiting.kind = LockWait::Kind::end_of_thread;
    waiting.owner = static_cast<pid_t>(value);
    return waiting;
  }
  return std::nullopt;
}

// One look at a process.
class Look {
 public:
  Look(const ProcessName& process, target::Memory memory, image::ObjectStore& store)
      : process_(process), memory_(std::move(memory)), store_(store) {}

  // Finds the threads that wait. A mutex may name an owner that has ended, so any TID is accepted.
  void see() {
    waiting_.clear();
    threads_ = target::list_threads(process_.pid);
    for (const pid_t thread : threads_) {
      const auto switches = target::switches_of(process_.pid, thread);
      const auto call = target::blocked_call_of(process_.pid, thread);
      if (!switches || !call) continue;
      auto waiting = waiting_of(memory_, *call);
      if (!waiting) continue;
      waiting->thread = thread;
      waiting->switches_before = *switches;
      waiting_.push_back(*waiting);
    }
    if (!waiting_.empty()) find_numbers();
    std::erase_if(waiting_, [&](Waiting& one) {
      one.switches_after = target::switches_of(process_.pid, one.thread).value_or(UINT64_MAX);
      if (one.owner == 0) return one.kind != LockWait::Kind::readers_writer;
      const auto outside = outside_.find(one.owner);
      if (outside != outside_.end()) one.owner = outside->second;
      const bool lives = outside != outside_.end();
      return !lives && one.kind != LockWait::Kind::mutex;
    });
  }

  // Removes the threads that have run since the earlier look.
  void keep_lasting(const std::vector<Waiting>& earlier) {
    std::erase_if(waiting_, [&](const Waiting& one) { return !has_lasted(one, earlier); });
  }

  std::vector<std::vector<size_t>> rings() const {
    std::vector<WaitsFor> all;
    for (const Waiting& one : waiting_) all.push_back({one.thread, one.gives_up ? 0 : one.owner});
    return wait_rings(all);
  }

  // Returns the rings whose threads have all waited since the earlier look. So they all waited at
  // one time, and as the lock of each named its owner while that one waited, none will go on.
  std::vector<std::vector<size_t>> rings_since(const std::vector<Waiting>& earlier) const {
    auto all = rings();
    std::erase_if(all, [&](const std::vector<size_t>& ring) {
      return std::ranges::any_of(ring, [&](size_t i) { return !has_lasted(waiting_[i], earlier); });
    });
    return all;
  }

  const std::vector<Waiting>& waiting() const { return waiting_; }

  // Returns what was seen, with names and stacks.
  LockWaits describe(std::vector<std::vector<size_t>> rings) {
    auto loaded = image::load_process(process_.pid, memory_.reader(), &store_);
    image_ = loaded ? *std::move(loaded) : image::ProcessImage();
    ThreadStacks stacks(memory_, image_);
    LockWaits all = {process_, threads_.size(), {}, {}};
    std::vector<size_t> number(waiting_.size(), SIZE_MAX);
    for (size_t i = 0; i < waiting_.size(); ++i) {
      auto wait = describe(waiting_[i], stacks);
      if (!wait) continue;
      number[i] = all.waits.size();
      all.waits.push_back(*std::move(wait));
    }
    for (std::vector<size_t>& ring : rings) {
      for (size_t& i : ring) i = number[i];
      if (std::ranges::count(ring, SIZE_MAX) == 0) all.deadlocks.push_back(std::move(ring));
    }
    return all;
  }

 private:
  static bool has_lasted(const Waiting& one, const std::vector<Waiting>& earlier) {
    return std::ranges::any_of(earlier,
                               [&](const Waiting& before) { return one.has_lasted_since(before); });
  }
  void find_numbers() {
    outside_.clear();
    const bool is_same = target::tid_inside(process_.pid, process_.pid) == process_.pid;
    for (const pid_t thread : threads_)
      outside_[is_same ? thread : target::tid_inside(process_.pid, thread)] = thread;
  }
  bool lives(pid_t thread) const { return std::ranges::count(threads_, thread) != 0; }
  std::string name_of(pid_t thread) const {
    const auto status = target::read_thread_status(process_.pid, thread);
    return status ? status->command : "";
  }
  std::vector<std::string> stack_of(const target::ThreadPosition& position, ThreadStacks& stacks) {
    std::vector<std::string> names;
    for (const Address address : stacks.of(position, kMostFrames))
      names.push_back(name_code(image_, address, address - (names.empty() ? 0 : 1)).text());
    return names;
  }
  static bool has_frame(const LockWait& wait, std::string_view name) {
    return std::ranges::any_of(
        wait.stack, [&](const std::string& frame) { return frame.find(name) != frame.npos; });
  }
  // Returns nullopt if no living thread owns the lock, and the stack does not show that the thread
  // takes such a lock: other memory may look like one.
  std::optional<LockWait> describe(const Waiting& waiting, ThreadStacks& stacks) {
    LockWait wait;
    wait.kind = waiting.kind;
    wait.thread = waiting.thread;
    wait.thread_name = name_of(waiting.thread);
    wait.lock = waiting.lock;
    wait.lock_name = name_code(image_, waiting.lock, waiting.lock).text();
    wait.gives_up = waiting.gives_up;
    wait.stack = stack_of(waiting.position, stacks);
    wait.owner = waiting.owner;
    wait.owner_has_ended = waiting.owner != 0 && !lives(waiting.owner);
    if (waiting.owner == 0 && !has_frame(wait, "pthread_rwlock")) return std::nullopt;
    if (wait.owner_has_ended && !has_frame(wait, "pthread_mutex")) return std::nullopt;
    if (waiting.owner == 0 || wait.owner_has_ended) return wait;
    wait.owner_name = name_of(waiting.owner);
    const bool owner_waits = std::ranges::any_of(
        waiting_, [&](const Waiting& other) { return other.thread == waiting.owner; });
    if (owner_waits) return wait;
    if (const auto position = target::position_of(process_.pid, waiting.owner))
      wait.owner_stack = stack_of(*position, stacks);
    return wait;
  }

  ProcessName process_;
  target::Memory memory_;
  image::ObjectStore& store_;
  image::ProcessImage image_;
  std::vector<pid_t> threads_;
  std::map<pid_t, pid_t> outside_;  // by the TID that the program sees
  std::vector<Waiting> waiting_;
};

Result<Look, SystemError> first_look(const ProcessName& process, image::ObjectStore& store) {
  auto memory = target::Memory::open(process.pid);
  if (!memory) return fail(memory.error());
  Look look(process, *std::move(memory), store);
  look.see();
  return look;
}

// Looks again a moment later. Returns the waits of the look before.
std::vector<Waiting> look_again(Look& look) {
  std::vector<Waiting> earlier = look.waiting();
  constexpr uint64_t kMomentNs = 10'000'000;
  sleep_ns(kMomentNs);
  look.see();
  return earlier;
}

// Returns the rings that will stay for ever.
std::vector<std::vector<size_t>> lasting_rings(Look& look) {
  if (look.rings().empty()) return {};
  const std::vector<Waiting> earlier = look_again(look);
  return look.rings_since(earlier);
}

}  // namespace

std::string_view word_of(LockWait::Kind kind) {
  switch (kind) {
    case LockWait::Kind::mutex:
      return "mutex";
    case LockWait::Kind::readers_writer:
      return "rwlock";
    case LockWait::Kind::end_of_thread:
      return "thread";
  }
  return "";
}

Result<LockWaits, SystemError> lock_waits(const ProcessName& process, image::ObjectStore& store) {
  auto look = first_look(process, store);
  if (!look) return fail(look.error());
  auto rings = lasting_rings(*look);
  return look->describe(std::move(rings));
}

Result<LockWaits, SystemError> lasting_lock_waits(const ProcessName& process,
                                                  image::ObjectStore& store) {
  auto look = first_look(process, store);
  if (!look) return fail(look.error());
  if (look->waiting().empty()) return LockWaits{process, 0, {}, {}};
  const std::vector<Waiting> earlier = look_again(*look);
  look->keep_lasting(earlier);
  return look->describe(look->rings());
}

Result<LockWaits, SystemError> deadlocks(const ProcessName& process, image::ObjectStore& store) {
  auto look = first_look(process, store);
  if (!look) return fail(look.error());
  auto rings = lasting_rings(*look);
  if (rings.empty()) return LockWaits{process, 0, {}, {}};
  return look->describe(std::move(rings));
}

}  // namespace pinprick::session
