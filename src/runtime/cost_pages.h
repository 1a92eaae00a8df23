// Memory in which the costs of probes are measured: code of our own, in this process. For
// probe_cost.cc and crowded_cost.cc; nothing can go wrong but that memory is refused.
#pragma once

#include <sys/mman.h>
#include <sys/rseq.h>

#include <cstddef>
#include <cstdint>

#include "base/address.h"

namespace pinprick::runtime {

class Pages {
 public:
  explicit Pages(uint64_t size) : size_(size) {
    memory_ = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() {
    if (ok()) ::munmap(memory_, size_);
  }
  bool ok() const { return memory_ != MAP_FAILED; }
  uint8_t* bytes() const { return static_cast<uint8_t*>(memory_); }
  Address address() const { return reinterpret_cast<Address>(memory_); }
  bool make_executable(uint64_t from) const {
    return ::mprotect(bytes() + from, size_ - from, PROT_READ | PROT_EXEC) == 0;
  }

 private:
  void* memory_;
  uint64_t size_;
};

// The kernel must not look at a descriptor in pages that are unmapped.
inline void forget_sequence() {
  if (__rseq_size == 0) return;
  auto* self = static_cast<char*>(__builtin_thread_pointer());
  auto* area = reinterpret_cast<struct rseq*>(self + __rseq_offset);
  __atomic_store_n(&area->rseq_cs, uint64_t{0}, __ATOMIC_RELAXED);
}

}  // namespace pinprick::runtime
