// For a thread in emitted code: which instruction of the program it is at. This is what an unwinder
// has to know at every instruction. It is recorded while the code is emitted; unwind_tables.h makes
// tables of it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/address.h"

// CodeRow: the same for code that stubs share, described by what its registers and stack hold.
#if defined(__x86_64__)
#include "arch/x86_64/unwind/code_row.h"
#endif

namespace pinprick::arch {

// A row for the stub of a site: valid from an address up to that of the next row.
struct StubRow {
  static constexpr uint8_t kNowhere = 0xff;  // unknown
  // In code that shared code calls: `words` are those from the return address of that call on.
  static constexpr uint8_t kCalled = 0xfe;
  Address from = 0;
  uint8_t offset = 0;  // of the program's next instruction, from the site
  int8_t words = 0;    // by which the stack pointer is below its value at that instruction
  uint8_t length = 1;  // of that instruction, if known
};

struct StubFrames {
  std::vector<StubRow> rows;  // ascending
  // The address of a 4-byte distance, which counts from its own end to the end of the displaced
  // instructions; 0: none.
  Address continuation = 0;
  uint8_t displaced = 0;  // bytes of displaced instructions

  // Records what holds from `at` on. Addresses must not descend.
  void note(Address at, uint8_t offset, int8_t words, uint8_t length = 1) {
    constexpr size_t kUsual = 24;
    if (rows.empty()) rows.reserve(kUsual);
    if (!rows.empty() && rows.back().from == at) rows.pop_back();
    if (!rows.empty() && rows.back().offset == offset && rows.back().words == words &&
        rows.back().length == length)
      return;
    rows.push_back({at, offset, words, length});
  }
};

}  // namespace pinprick::arch
