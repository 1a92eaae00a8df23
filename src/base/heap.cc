#include "base/heap.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <climits>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "base/address.h"

namespace pinprick {
namespace {

constexpr size_t kReserve = 16 << 20;
void* reserve = MAP_FAILED;

// Called by operator new. Several threads may fail at once: one gives it up, and all throw.
void give_up_reserve() {
  if (std::set_new_handler(nullptr) != nullptr) ::munmap(reserve, kReserve);
  throw std::bad_alloc();
}

}  // namespace

void prepare_heap() {
  constexpr int kLargestThreshold = 32 << 20;  // the largest that malloc accepts
  constexpr int kRoom = 256 << 20;
  constexpr uint64_t kLargePage = 2 << 20;
  // A small task gets small pages: on virtual machines, clearing the first large page may take
  // milliseconds.
  constexpr uint64_t kSmallTask = 16 << 20;
  constexpr uint64_t kSmallestTask = 4 << 20;
  reserve = ::mmap(nullptr, kReserve, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reserve != MAP_FAILED) std::set_new_handler(give_up_reserve);
  ::mallopt(M_MMAP_THRESHOLD, kLargestThreshold);
  ::mallopt(M_TRIM_THRESHOLD, INT_MAX);
  ::mallopt(M_TOP_PAD, kRoom);
  // An arena of a thread's own would be fresh memory, faulted in page by page.
  ::mallopt(M_ARENA_MAX, 1);
  const auto end = [] { return reinterpret_cast<uint64_t>(::sbrk(0)); };
  // From what is in use on, as the first heap has pages that nothing has touched.
  void* volatile next = ::malloc(1);
  const uint64_t begin = align_up(reinterpret_cast<uint64_t>(next), kPageSize);
  ::free(next);
  const uint64_t first = align_up(begin + kSmallTask, kLargePage);
  void* volatile grown = ::malloc(kLargePage);  // grows the heap by this and kRoom
  ::free(grown);
  const uint64_t last = end() / kLargePage * kLargePage;
  ::mallopt(M_TOP_PAD, kLargePage);
  if (first >= last) return;  // it could not grow
  // Hundreds of page faults cost more than this one call.
  static_cast<void>(::madvise(reinterpret_cast<void*>(begin), kSmallestTask, MADV_POPULATE_WRITE));
  static_cast<void>(::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE));
}

}  // namespace pinprick
