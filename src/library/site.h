// An instruction of one's own process that was probed once, and the ways to put it into the text.
//
// The sites belong to Sites. They change with the registry's lock held; hits read only the lists in
// `before` and `behind`. Nothing can go wrong here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/stub.h"
#include "library/attachment.h"
#include "library/stub_shape.h"
#include "library/stub_space.h"
#include "plan/planner.h"
#include "runtime/handlers.h"

namespace pinprick::library {

// One of the two ways in which a site can be in the text.
struct Form {
  plan::Patch patch;  // site and interior as in the process
  struct Stub {
    Shape shape;
    arch::Stub stub;
  };
  std::vector<Stub> stubs;
  size_t in_use = 0;  // of the stubs
  std::optional<StubSpace::Trampoline> trampoline;

  bool is_breakpoint() const { return patch.written == 1; }
  std::vector<uint8_t> written() const;  // into the text, when in place
  Range touched() const { return patch.touched(); }
};

// An instruction that was probed once. Stays, with its stubs; see StubSpace.
//
// It is a jump where one fits, and a breakpoint otherwise. A jump becomes a breakpoint when a probe
// comes to be between the instructions that it displaces, and a jump again when that one has gone;
// and all do while jumps are switched off (optimise()).
struct Site {
  Address address = 0;
  Range object;
  std::string name, object_name;
  arch::StackUse stack = arch::StackUse::at_entry;
  std::optional<Form> jump;             // none: none fits, ever
  Form breakpoint;                      // of the first instruction
  std::optional<plan::Reason> no_jump;  // why it is not to be the jump

  runtime::HitPoint before{}, behind{};
  std::optional<uint32_t> cell;
  std::optional<uint32_t> histogram;
  std::optional<arch::Metric> metric;  // with the histogram
  Form* in_place = nullptr;            // of the two; null: the text is the program's own
  bool gone = false;

  std::vector<Attachment*> attachments;  // in the order in which they run
  Shape needed() const;                  // by what is attached and enabled
  bool allows_breakpoint() const;        // all that is attached does
  // What it takes of the text, or is to take.
  Range touched() const { return jump && !no_jump ? jump->touched() : breakpoint.touched(); }
};

}  // namespace pinprick::library
