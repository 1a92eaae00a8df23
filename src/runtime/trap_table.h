// Maps a breakpoint's address to the continuation of a thread that hits it.
//
// A hash table with open addressing, at most half full: a lookup reads one or two cache lines. One
// thread at a time may change it, while any number of threads read it, also in signal handlers.
// Nothing is removed: key 0 marks a free slot, continuation 0 a forgotten key. docs/library.md says
// what it was measured against.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/address.h"

namespace pinprick::runtime {

class TrapTable {
 public:
  explicit TrapTable(size_t log2) : log2_(log2), slots_(size_t{1} << log2) {}

  bool is_full() const { return 2 * used_ >= slots_.size(); }

  void set(Address key, Address continuation) {
    Slot& slot = find(key);
    slot.continuation.store(continuation, std::memory_order_relaxed);
    if (slot.key.load(std::memory_order_relaxed) == 0) ++used_;
    slot.key.store(key, std::memory_order_release);
  }

  Address get(Address key) const {
    const Slot& slot = const_cast<TrapTable*>(this)->find(key);
    // A slot that was free may be another key's by now.
    return slot.key.load(std::memory_order_acquire) == key
               ? slot.continuation.load(std::memory_order_relaxed)
               : 0;
  }

  // Was it ever set? Also true if its continuation was forgotten.
  bool has(Address key) const {
    return const_cast<TrapTable*>(this)->find(key).key.load(std::memory_order_acquire) == key;
  }

  template <class F>
  void for_each(F&& f) {
    for (Slot& slot : slots_)
      if (const Address key = slot.key.load(std::memory_order_relaxed)) f(key, slot.continuation);
  }

 private:
  struct Slot {
    std::atomic<Address> key{0};
    std::atomic<Address> continuation{0};
  };

  // The slot of this key, or the one in which it would be put.
  Slot& find(Address key) {
    constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;
    for (size_t i = (key * kGoldenRatio) >> (64 - log2_);; ++i) {
      Slot& slot = slots_[i & (slots_.size() - 1)];
      const Address there = slot.key.load(std::memory_order_acquire);
      if (there == key || there == 0) return slot;
    }
  }

  size_t log2_;
  size_t used_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace pinprick::runtime
