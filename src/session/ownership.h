// What in a target is ours, by looking: the journal says what a controller was about to do, and it
// may have died before, or after; and the target goes on in the meantime, and may put something of
// its own where ours was, or was to be.
//
// Memory: a mapping of the session file is known by the file, anonymous memory by a mark in it. All
// threads stand still from before a mapping is journaled as begun until it is marked, so the one
// moment in which the two cannot be told apart is between a controller's death and a target's
// mapping of untouched memory at exactly our address.
//
// Descriptors: the file by the file, the two ends of the socket pair by being such a pair.
#pragma once

#include <vector>

#include "image/maps.h"
#include "layout/session_file.h"
#include "session/session_file.h"
#include "target/memory.h"
#include "target/remote_target.h"

namespace pinprick::session {

// Puts the mark into memory that was just mapped. False: it cannot be written.
bool mark(const target::Memory& memory, const layout::MappingEntry& entry);

bool is_ours(const target::Memory& memory, const layout::MappingEntry& entry,
             const std::vector<image::Mapping>& maps, const SessionFile& file);

// Those of the target that were opened to hand the file over, and are still open.
std::vector<int> our_descriptors(const target::RemoteTarget& target, const layout::Session& journal,
                                 const std::vector<image::Mapping>& maps, const SessionFile& file);

}  // namespace pinprick::session
