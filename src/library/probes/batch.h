// Brings several sites into their wanted state: stubs, lists of handlers, text.
//
// For the registry, which has changed the wanted state (attachments, modes, `no_jump`) and calls
// this with its lock held. prepare() changes nothing of the program but its SIGTRAP handler. If it
// fails, the registry restores the former wanted state, and nothing has happened. commit() then
// works in this order:
//
//     1  write the stubs; nothing leads there yet
//     2  publish the lists of handlers, and remove the text of sites that take less of it now
//     3  set the continuations of breakpoints (runtime/traps.h), and write the text of the others
//
// Removing comes first, as one site may be in the way of another. If commit() fails, a part of it
// is done, and the text is a correct program; then call put_back().
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "library/probes/handler_lists.h"
#include "library/probes/modes.h"
#include "library/probes/site.h"
#include "library/probes/sites.h"
#include "library/probes/stub_space.h"
#include "library/probes/text_access.h"
#include "library/probes/text_change.h"
#include "library/process/own_image.h"
#include "library/statistics/histogram_store.h"
#include "pinprick/error.h"
#include "target/self_target.h"

namespace pinprick::library {

class Batch {
 public:
  struct Parts {
    const Sites& sites;
    OwnImage& image;
    StubSpace& stubs;
    const HistogramStore& histograms;
    const Modes& modes;
  };
  // All of these must outlive the batch. What hits may still be using is added to `retired`.
  Batch(const Parts& parts, const target::SelfTarget& self, Retired& retired)
      : parts_(parts), self_(self), retired_(retired) {}

  // Makes the stubs that are missing, and checks that the text is as it was planned for. If no stub
  // can be made for a jump, the site becomes a breakpoint, where that is allowed. Fails at the
  // first site that is refused; with `refused`, after all of them, which are added there.
  Result<void, Error> prepare(std::span<Site* const> sites, SiteErrors* refused = nullptr);
  Result<void, Error> commit(std::span<Site* const> sites);
  // Must be called after a failed commit(), once the former wanted state is restored.
  void put_back(std::span<Site* const> sites);

  // Adds sites that were breakpoints for lack of room and can become jumps now. Must be called
  // before commit() if probes of some `sites` were removed.
  void add_those_with_room_now(std::vector<Site*>& sites);

 private:
  // Does the text hold the bytes that the site was planned for? Those of its jump, as others are
  // told of them, even if it becomes a breakpoint.
  bool is_as_planned(const Site& site) const;
  std::vector<TextChange> publish_and_find_removals(std::span<Site* const> sites);
  Result<std::vector<TextChange>, Error> lead_and_find_placements(std::span<Site* const> sites);

  const Parts parts_;
  const target::SelfTarget& self_;
  Retired& retired_;
};

}  // namespace pinprick::library
