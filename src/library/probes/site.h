// An instruction of our own process that was probed once, and the two ways to patch it.
//
// Sites owns all of them. They are changed with the registry's lock held; hits read only the lists
// in `before` and `after`. Nothing here can fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/stub.h"
#include "layout/own_probes.h"
#include "library/probes/attachment.h"
#include "library/probes/stub_features.h"
#include "library/probes/stub_space.h"
#include "plan/planner.h"
#include "runtime/handlers.h"

namespace pinprick::library {

// One of the two encodings of a site in the text: a jump or a breakpoint.
struct Encoding {
  plan::Patch patch;  // in the process's addresses
  struct Stub {
    StubFeatures features;
    arch::Stub stub;
  };
  std::vector<Stub> stubs;
  size_t in_use = 0;  // index of the stub in use
  std::optional<StubSpace::Trampoline> trampoline;

  bool is_breakpoint() const { return patch.written == 1; }
  std::vector<uint8_t> written() const;  // the bytes in the text when it is in place
  Range touched() const { return patch.touched(); }
};

// A site and its stubs are never freed; see StubSpace.
//
// It is a jump where one fits, and a breakpoint otherwise. A jump becomes a breakpoint while there
// is a probe between the instructions that it displaces, and while jumps are switched off
// (optimise()).
struct Site {
  Address address = 0;
  Range object;
  std::string name, object_name;
  std::string build_id;  // of the object; empty: it has none
  arch::StackUse stack = arch::StackUse::at_entry;
  std::optional<Encoding> jump;         // nullopt if none can ever fit
  Encoding breakpoint;                  // displaces the first instruction only
  std::optional<plan::Reason> no_jump;  // why the site is not, or not currently, a jump

  runtime::HitPoint before{}, after{};
  std::optional<uint32_t> counter;
  std::optional<uint32_t> histogram;
  std::optional<arch::Metric> metric;  // set with the histogram
  Encoding* in_place = nullptr;        // one of the two; nullptr if the text is the program's own
  bool gone = false;
  layout::OwnSite* entry = nullptr;  // what others are told of it (own_ledger.h); nullptr: nothing

  std::vector<Attachment*> attachments;  // in the order in which they run
  StubFeatures needed() const;           // by the attachments that are enabled
  bool allows_breakpoint() const;        // all attachments do
  // The bytes of text that it takes at most.
  Range widest() const { return (jump ? *jump : breakpoint).touched(); }
  // The bytes of text that it takes, or is to take.
  Range touched() const { return jump && !no_jump ? jump->touched() : breakpoint.touched(); }
};

}  // namespace pinprick::library
