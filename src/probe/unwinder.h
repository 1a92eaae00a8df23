// Unwinders that a process has, to be told of slots: while a call is measured, its return address
// on the stack is that of a slot, for which no unwind table exists in any object.
#pragma once

#include <vector>

#include "image/match.h"
#include "image/process.h"
#include "layout/runtime_data.h"

namespace pinprick::probe {

struct Unwinder {
  image::Match find_fde;            // _Unwind_Find_FDE, where it looks for tables
  layout::UnwinderTable functions;  // in the process's addresses; no landing yet
};

// Those of libgcc_s and of the program itself, if linked to it statically, as far as their symbols
// say where they are.
std::vector<Unwinder> find_unwinders(const image::ProcessImage& image);

// Where the functions of those unwinders lie that a program calls: while one runs, its thread may
// hold what it has learned of slots.
std::vector<Range> unwinder_code(const image::ProcessImage& image);

}  // namespace pinprick::probe
