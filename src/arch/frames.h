// Where in the program a thread stands that is in emitted code: what an unwinder has to know at
// every instruction of it. Noted while the code is emitted; unwind_tables.h makes tables of it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/address.h"

// CodeRow: the same for code that stubs share, by what its registers hold.
#if defined(__x86_64__)
#include "arch/x86_64/unwind/code_row.h"
#endif

namespace pinprick::arch {

// In the stub of a site: from an address on, up to the next row's.
struct StubRow {
  static constexpr uint8_t kNowhere = 0xff;  // nothing is known
  Address from = 0;
  uint8_t offset = 0;  // from the site, of the program's instruction that is yet to run
  int8_t words = 0;    // that the stack pointer is below where it is at that instruction
  uint8_t length = 1;  // of that instruction, where it is known
};

struct StubFrames {
  std::vector<StubRow> rows;  // ascending
  // Of a distance, 4 bytes, from its end to behind the displaced instructions; 0: there is none.
  Address continuation = 0;
  uint8_t displaced = 0;  // bytes of the site

  // From `at` on.
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
