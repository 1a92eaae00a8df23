// What in a target is ours, by looking: the journal says what a controller was about to do, and it
// may have died before, or after; and the target goes on in the meantime, and may put something of
// its own where ours was, or was to be.
//
// Memory: a mapping of the session file is known by the file, anonymous memory by a mark in it. It
// is mapped where nothing is (MAP_FIXED_NOREPLACE), and if something is there by then the journal
// says so at once. Where the controller died before it could say so, the script that maps memory
// says what came of each of its calls (note_results_of_script). So ours and the target's cannot be
// told apart in one case alone: what was being mapped just then, and the scratch page, if what lies
// at exactly that address is memory that the target has mapped there and never touched.
//
// Descriptors: the file by the file, the two ends of the socket pair by being such a pair.
#pragma once

#include <vector>

#include "image/maps.h"
#include "layout/session_file.h"
#include "ledger/session_file.h"
#include "target/handover.h"
#include "target/memory.h"
#include "target/remote_target.h"

namespace pinprick::engine {

// Puts the mark into memory that was just mapped. False: it cannot be written.
bool mark(const target::Memory& memory, const layout::MappingEntry& entry);

bool is_ours(const target::Memory& memory, const layout::MappingEntry& entry,
             const std::vector<image::Mapping>& maps, const ledger::SessionFile& file);

// Where the script of calls that map memory begins in the scratch page: first the address of the
// call that comes next, then the calls.
inline constexpr uint64_t kScript = target::Handover::kScratchSize;

// Takes back from the journal of a controller that is gone what its script did not map: another
// mapping was there, or the call was not made.
void note_results_of_script(const target::Memory& memory, layout::Session& journal,
                            const std::vector<image::Mapping>& maps,
                            const ledger::SessionFile& file);

// Those of the target that were opened to hand the file over, and are still open.
std::vector<int> our_descriptors(const target::RemoteTarget& target, const layout::Session& journal,
                                 const std::vector<image::Mapping>& maps,
                                 const ledger::SessionFile& file);

}  // namespace pinprick::engine
