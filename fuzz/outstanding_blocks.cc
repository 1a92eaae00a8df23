// Allocations and frees as any process may record them, in any order. Input: eight bytes for each
// event: what it is, its thread, its time and its start, and its pointers.
#include "cli/measure/outstanding_blocks.h"

#include "fuzzer.h"

namespace {

using pinprick::cli::AllocationEvent;
using pinprick::cli::OutstandingBlocks;

constexpr size_t kEventSize = 8, kMost = 20;

AllocationEvent event_of(std::span<const uint8_t> bytes) {
  AllocationEvent event;
  event.kind = static_cast<AllocationEvent::Kind>(bytes[0] % 4);
  event.has_failed = (bytes[0] & 0x80) != 0;
  event.process = 1 + (bytes[1] >> 7);
  event.thread = bytes[1] % 4;
  event.tsc = bytes[2] == UINT8_MAX ? UINT64_MAX : uint64_t{bytes[2]} << 16 | bytes[3];
  event.start_tsc = event.tsc - (uint64_t{bytes[4]} << (bytes[4] % 64));
  event.freed = bytes[5] % 32;
  event.allocated = bytes[6] % 32;
  event.size = uint64_t{bytes[7]} << (bytes[7] % 64);
  return event;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  OutstandingBlocks blocks(kMost);
  std::span<const uint8_t> rest(data, size);
  for (; rest.size() >= kEventSize; rest = rest.subspan(kEventSize)) {
    if (rest[0] == UINT8_MAX)
      blocks.forget(1);
    else
      blocks.apply(event_of(rest));
    const OutstandingBlocks::Figures& figures = blocks.figures();
    CHECK(figures.allocations == figures.freed + figures.reused + figures.no_room + blocks.size());
    // A reallocation that fails puts its block back; eight of each of six threads are known.
    CHECK(blocks.size() <= kMost + 6 * 8);
    size_t counted = 0;
    blocks.for_each([&](const OutstandingBlocks::Block&) { ++counted; });
    CHECK(counted == blocks.size());
  }
  return 0;
}

std::vector<Input> seeds() {
  return {{1, 1, 10, 0, 3, 0, 1, 9, 1, 1, 20, 0, 15, 0, 2, 9, 0, 2, 30, 0, 0, 1, 0, 0},
          {1, 1, 10, 0, 3, 0, 1, 9, 2, 1, 20, 0, 0, 1, 0, 0, 3, 1, 30, 0, 9, 1, 2, 7},
          {1, 1, 10, 0, 3, 0, 1, 9, 2, 1, 20, 0, 0, 1, 0, 0, 0x83, 1, 30, 0, 9, 1, 0, 7}};
}
