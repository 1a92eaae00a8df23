// Changes the text at many sites while all threads run.
//
// patch/live_edit.h has the steps of one change, and why every thread is safe at each. Changes are
// written in pieces of a few hundred. Before each piece this checks how it can be written
// (text_access.h): a site is a breakpoint only while its piece is written, and during that time no
// thread should start to block SIGTRAP. Where a debugger is, only what needs no breakpoint is
// written, and only by a thread that is alone.
//
// The caller holds the registry's lock, and has written the stubs and the continuations of
// breakpoints. Fails if a thread blocks SIGTRAP, a debugger is in the way, or memory cannot be
// written. Then the changes of earlier pieces are made, each site's `in_place` is right, and the
// text is a correct program.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"
#include "library/probes/site.h"
#include "patch/live_edit.h"
#include "pinprick/error.h"
#include "target/self_target.h"

namespace pinprick::library {

struct TextChange {
  Site* site;
  Encoding* to;  // nullptr for the program's own text
  patch::LiveEdit edit;
  size_t former_stub = 0;  // of `to`: in use until the text is written
};

// The change that removes the jump or breakpoint in place. `to` is nullptr, or the breakpoint that
// is to remain, to whose stub the site leads already.
TextChange removal(Site& site, Encoding* to);
// The change that writes the encoding, to whose stub the site leads already.
TextChange placement(Site& site, Encoding& encoding, size_t former_stub);

// For changes that are not made after all: the sites lead to their former stubs, and the encodings
// say so.
void keep_former_stubs(std::span<const TextChange> changes);

// Could these encodings be written now? Changes nothing but the SIGTRAP handler.
Result<void, Error> can_write(const target::SelfTarget& self,
                              std::span<const Encoding* const> placed);

// Returns the indices of those that a debugger, as long as it is there, keeps from being written by
// the only thread.
std::vector<size_t> needing_breakpoints(const target::SelfTarget& self,
                                        std::span<const Encoding* const> placed);

// Makes removals. While breakpoints are needed and do not work, no jump can be removed safely: then
// jumps stay, and this fails only if one of them was to become a breakpoint. Breakpoints go in any
// case: that takes one byte. Where others have written since, nothing is written.
Result<void, Error> take_out(const target::SelfTarget& self, std::span<const TextChange> changes);
// Makes placements. Fails if breakpoints do not work. A jump that could not be changed then leads
// to its former stub, and its encoding says so.
Result<void, Error> put_in(const target::SelfTarget& self, std::span<const TextChange> changes);

// Calls f with each piece, in order, until it fails.
inline constexpr size_t kMostInPiece = 512;
template <class Changes, class F>
Result<void, Error> in_pieces(const Changes& all, F&& f) {
  std::span changes(all);
  while (!changes.empty()) {
    const auto piece = changes.first(std::min(kMostInPiece, changes.size()));
    if (auto done = f(piece); !done) return done;
    changes = changes.subspan(piece.size());
  }
  return {};
}

}  // namespace pinprick::library
