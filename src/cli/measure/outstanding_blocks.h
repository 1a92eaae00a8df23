// The blocks of memory that processes have allocated and not freed. Calls that allocate are paired
// with what frees their block, by the pointer. Pure; not thread-safe.
//
// Three rules decide what belongs together:
//
// 1. Of allocations within an allocation on the same thread, only the outermost counts: what a
//    program calls may get its memory from other functions of the allocator, with the same pointer
//    or another one. The outermost returns last, so the blocks go that came during its call.
// 2. A reallocation frees its old block when it begins, as another thread may get the same address
//    before it returns. If it fails, the old block is there again.
// 3. A block that comes again without having been freed was freed unseen. The new one counts.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

namespace pinprick::cli {

// A call that allocates or frees. A reallocation does both, and has two events.
struct AllocationEvent {
  enum class Kind : uint8_t {
    free,
    allocation,
    reallocation_begins,
    reallocation
  } kind = Kind::free;
  bool has_failed = false;  // of a reallocation: the old block stays
  pid_t process = 0;
  pid_t thread = 0;  // 0: it is not known
  uint64_t tsc = 0;  // when it has returned; of a free, and of what begins, when it was called
  uint64_t start_tsc = 0;  // when it was called, or somewhat later
  uint64_t freed = 0;      // the pointer that it is given; 0: none
  uint64_t allocated = 0;  // the pointer that it returns; 0: none, or a block that does not count
  uint64_t size = 0;       // of what is allocated
  uint32_t origin = 0;     // a number that stands for who called
};

class OutstandingBlocks {
 public:
  struct Block {
    uint64_t size = 0;
    uint64_t tsc = 0;  // when its allocation has returned
    uint32_t origin = 0;
  };
  // allocations = freed + reused + no_room + size()
  struct Figures {
    uint64_t allocations = 0;    // the outermost ones
    uint64_t freed = 0;          // blocks whose allocation was seen
    uint64_t unknown_freed = 0;  // frees of other blocks
    uint64_t reused = 0;         // blocks that came again without having been freed
    uint64_t no_room = 0;        // blocks that are not known since there were `most` others
  };

  explicit OutstandingBlocks(size_t most) : most_(most) {}

  // To be called in the order of `tsc`.
  void apply(const AllocationEvent& event);

  // The process runs another program: its blocks are gone, and are in no figure any more.
  void forget(pid_t process);

  size_t size() const { return blocks_.size(); }
  const Figures& figures() const { return figures_; }
  template <class F>
  void for_each(F&& f) const {
    for (const auto& [key, block] : blocks_) f(block);
  }

 private:
  struct Key {
    uint64_t pointer = 0;
    pid_t process = 0;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  // A few of the last ones.
  template <class T>
  class Last {
   public:
    bool empty() const { return count_ == 0; }
    T& back() { return all_[count_ - 1]; }
    void pop_back() { --count_; }
    void push_back(T one) {
      if (count_ == kMost) std::move(all_.begin() + 1, all_.end(), all_.begin());
      count_ = std::min(count_ + 1, kMost);
      all_[count_ - 1] = std::move(one);
    }
    auto begin() const { return all_.begin(); }
    auto end() const { return all_.begin() + static_cast<ptrdiff_t>(count_); }

   private:
    static constexpr size_t kMost = 8;
    std::array<T, kMost> all_ = {};
    size_t count_ = 0;
  };
  struct Thread {
    struct Allocation {
      uint64_t tsc = 0, pointer = 0;
    };
    struct Reallocation {
      uint64_t tsc = 0, pointer = 0;
      std::optional<Block> block = {};
    };
    Last<Allocation> allocations;      // that have returned
    Last<Reallocation> reallocations;  // that have begun, and not returned
    uint64_t last_freed = 0;           // functions that free call one another, too

    bool is_freeing(uint64_t pointer) const;
  };

  std::optional<Block> take(const AllocationEvent& event, Thread* thread);
  void begin_reallocation(const AllocationEvent& event, Thread& thread);
  void end_reallocation(AllocationEvent event, Thread* thread);
  void remove_nested(const AllocationEvent& event, Thread& thread);
  void allocate(const AllocationEvent& event, Thread* thread);
  Thread* thread_of(const AllocationEvent& event);

  size_t most_;
  std::unordered_map<Key, Block, Hash> blocks_;
  std::unordered_map<uint64_t, Thread> threads_;  // by PID and TID
  Figures figures_;
};

}  // namespace pinprick::cli
