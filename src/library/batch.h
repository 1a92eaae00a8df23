// Brings several sites to what is wanted of them now: stubs, lists of handlers, text.
//
// For the registry, which has changed what is wanted (attachments, modes, `no_jump`) and calls
// this with its lock held. prepare() changes nothing of the program but its SIGTRAP handler; if it
// fails, the registry takes back what was wanted, and nothing has happened. commit() then does, in
// this order:
//
//     1  write the stubs; nothing leads there yet
//     2  publish the lists of handlers, and take out of the text what takes less of it from now on
//     3  say where breakpoints go on (runtime/traps.h), and write what takes more
//
// Text that takes less comes first, as one site may be in the way of another. If commit() fails, a
// part is done, and the text is a correct program; put_back() is for that.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "library/handler_lists.h"
#include "library/modes.h"
#include "library/own_image.h"
#include "library/site.h"
#include "library/sites.h"
#include "library/stub_space.h"
#include "library/text_change.h"
#include "library/timing.h"
#include "pinprick/error.h"
#include "target/self_target.h"

namespace pinprick::library {

class Batch {
 public:
  struct Parts {
    const Sites& sites;
    OwnImage& image;
    StubSpace& stubs;
    const Timing& timing;
    const Modes& modes;
  };
  // All of it outlives the batch. What hits may still be using is added to `retired`.
  Batch(const Parts& parts, const target::SelfTarget& self, Retired& retired)
      : parts_(parts), self_(self), retired_(retired) {}

  // Makes the stubs that are missing, and checks that the text is what was planned for. A jump that
  // no stub can be made for becomes a breakpoint, where that is allowed.
  Result<void, Error> prepare(std::span<Site* const> sites);
  Result<void, Error> commit(std::span<Site* const> sites);
  // After a commit() that has failed, for sites of which the same is wanted again as before it.
  void put_back(std::span<Site* const> sites);

  // Before commit(), for `sites` some of which were removed: adds those that were breakpoints for
  // want of room, and become jumps.
  void add_those_with_room_now(std::vector<Site*>& sites);

 private:
  std::vector<TextChange> publish_and_find_removals(std::span<Site* const> sites);
  Result<std::vector<TextChange>, Error> lead_and_find_placements(std::span<Site* const> sites);

  const Parts parts_;
  const target::SelfTarget& self_;
  Retired& retired_;
};

}  // namespace pinprick::library
