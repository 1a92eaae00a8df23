// What becomes of the text at single sites, and writing many such changes while all threads run.
//
// patch/live_edit.h has the steps of one change, and why every thread is safe at each. Changes are
// written in pieces of a few hundred, with a look before each whether breakpoints work
// (text_access.h): a site is a breakpoint for the time of its piece only, in which no thread should
// come to block SIGTRAP.
//
// The registry's lock is held. Stubs, and where breakpoints go on, are written before. A thread may
// block SIGTRAP, or a debugger come; memory may be unwritable. Then the changes of earlier pieces
// are done, each site says what is in its place, and the text is a correct program.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "base/result.h"
#include "library/site.h"
#include "patch/live_edit.h"
#include "pinprick/error.h"
#include "target/self_target.h"

namespace pinprick::library {

struct TextChange {
  Site* site;
  Form* to;  // null: the program's own text
  patch::LiveEdit edit;
};

// Takes out the jump or breakpoint that is in place. `to` is null, or the breakpoint that is to be
// left, to whose stub the site leads already.
TextChange removal(Site& site, Form* to);
// Writes the form, to whose stub the site leads already.
TextChange placement(Site& site, Form& form);

// Where breakpoints do not work nothing can be taken out safely. Such jumps stay, and this fails
// only if one of them was to become a breakpoint.
Result<void, Error> take_out(const target::SelfTarget& self, std::span<const TextChange> changes);
// Fails where breakpoints do not work.
Result<void, Error> put_in(const target::SelfTarget& self, std::span<const TextChange> changes);

// Calls f with each piece, in order, as long as it succeeds.
inline constexpr size_t kMostInPiece = 512;
template <class F>
Result<void, Error> in_pieces(std::span<const TextChange> changes, F&& f) {
  while (!changes.empty()) {
    const auto piece = changes.first(std::min(kMostInPiece, changes.size()));
    if (auto done = f(piece); !done) return done;
    changes = changes.subspan(piece.size());
  }
  return {};
}

}  // namespace pinprick::library
