// Rules by which a hit walks the stack without frame pointers (runtime/stacks.inc). The controller
// makes them of unwind tables (image/elf/frame_rows.h), and writes them into the target's private
// memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "layout/runtime_offsets.h"

namespace pinprick::layout {

// A rule holds from `from`, which counts from the start of the object's code, up to the next row.
// It says how a frame's caller is found, from the stack pointer and rbp of the frame. CFA is what
// the stack pointer was before the call, so the return address lies at CFA - 8. By the kind, in the
// lowest 3 bits:
//
//     UNKNOWN  it is not
//     NORMAL   CFA = base + 8 * size. rbp is that of the frame if saved is 0, is lost if it is
//              RBP_LOST, and else lies at CFA - 8 * saved
//     END      there is no caller
//     SIGNAL   a signal's frame: the stack pointer is the address of a ucontext
//     PLT      CFA = rsp + 8 * size, and 8 more where the lowest four bits of the instruction's
//              address are at least `push`. rbp is that of the frame
//     LOADED   CFA = *(base + 8 * at) + 8 * plus. rbp lies where rbp points to with RBP_AT_RBP, at
//              CFA - 8 * saved if that is not 0, and else is that of the frame
//
// base is rbp with BY_RBP, else the stack pointer. Bits of saved: 4 to 10, size: 11 to 31; push: 4
// to 7, size: 11 to 31; at, plus PP_FRAME_AT_BIAS: 5 to 14, plus: 15 to 22, its saved: 23 to 29.
struct FrameRow {
  uint32_t from = 0;
  uint32_t rule = PP_FRAME_UNKNOWN;
  friend bool operator==(const FrameRow&, const FrameRow&) = default;
};

// Code whose rules are known, in the process's addresses. The first row is that of its start.
struct UnwindObject {
  uint64_t begin = 0;
  uint64_t size = 0;
  uint64_t rows = 0;  // address of the first FrameRow
  uint64_t row_count = 0;
};

// The objects follow, by ascending addresses. Once a list is published, neither it nor the rows
// change.
struct UnwindList {
  uint64_t count = 0;
};

static_assert(sizeof(FrameRow) == 8);
static_assert(sizeof(UnwindList) == PP_UNWIND_OBJECTS);
static_assert(sizeof(UnwindObject) == 1 << PP_UNWIND_OBJECT_SIZE_LOG2);
static_assert(offsetof(UnwindObject, begin) == PP_UNWIND_BEGIN);
static_assert(offsetof(UnwindObject, size) == PP_UNWIND_SIZE);
static_assert(offsetof(UnwindObject, rows) == PP_UNWIND_ROWS);
static_assert(offsetof(UnwindObject, row_count) == PP_UNWIND_ROW_COUNT);

}  // namespace pinprick::layout
