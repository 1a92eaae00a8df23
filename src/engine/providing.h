// What a session needs of a controller while its probes are in place, and nothing else does for it:
// more slots for calls in flight, and more blocks for histograms, before those that there are have
// run out. All that has to be known is in the process and in the session's file, so it need not be
// the controller that armed it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "layout/session_file.h"
#include "ledger/session_file.h"
#include "target/memory.h"

namespace pinprick::engine {

// Writes more slots when more than half of those that there are were needed; who needed all of them
// gets four times as many. The target goes on meanwhile: it sees what is new when the last word is
// written. Of one caller at a time.
struct Provided {
  uint64_t slots = 0;  // that there are now; 0: it cannot be known
  bool soon = false;   // it should be looked at again soon: a quarter was needed, and more can come
};
Provided provide_slots(const target::Memory& memory, const layout::Session& journal);

// A session whose controller is gone, taken over by this one: it is the owner from now on, until
// this is destroyed. The probes stay where they are either way.
class Adopted {
 public:
  // Those of a process that lives; without what cannot be had, as somebody else was faster.
  static std::vector<Adopted> all_of(pid_t pid);

  const layout::Session& journal() const { return journal_; }
  // To be called now and then. Returns true if that should be soon.
  bool provide(const target::Memory& memory);

 private:
  Adopted(ledger::SessionFile file, layout::Session journal)
      : file_(std::move(file)), journal_(std::move(journal)) {}
  ledger::SessionFile file_;
  layout::Session journal_;
};

}  // namespace pinprick::engine
