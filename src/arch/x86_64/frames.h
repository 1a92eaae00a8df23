// Where in the program a thread stands that is in emitted code: what an unwinder has to know at
// every instruction of it. Noted while the code is emitted; unwind_tables.h makes tables of it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/address.h"

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

// In code that stubs share. The words are those between the stack pointer and the stack of the one
// who comes next.
struct CodeRow {
  enum class Caller : uint8_t {
    nowhere = 0,        // nothing is known
    returned_to = 1,    // a return address lies in the first of the words
    inside_call = 2,    // the same, but the caller's stack is that before the call is over
    record_in_rax = 3,  // a function that is entered by its probe; its ProbeRecord is there
    record_in_rdx = 4,
    record_on_stack = 5,       // at [rsp + argument]
    slot_code_on_stack = 6,    // the record in the slot whose code is at [rsp + argument]
    slot_in_rdx = 7,           // the return address of that slot
    returned_to_with_rbp = 8,  // the words are those from rbp on
  };
  Address from = 0;
  Caller caller = Caller::nowhere;
  int8_t words = 0;
  int8_t argument = 0;
  // Which callee-saved registers lie among the words, and where, from the caller's stack down.
  enum Saved : uint8_t {
    rbx_second = 1,
    rbp_third = 2,
    r12_fourth = 4,
    rbx_third = 8,
    rbp_second = 16,
  };
  uint8_t saved = 0;
};

}  // namespace pinprick::arch
