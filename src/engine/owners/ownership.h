// Finds out what in a target is ours, by looking. The journal alone does not say: a controller
// notes what it is about to do, and may have died before doing it, or after. Meanwhile the target
// runs, and may put something of its own where ours was, or was to be.
//
// Memory: a mapping of the session file is recognised by the file, anonymous memory by a mark in
// it. Memory is only mapped where nothing is (MAP_FIXED_NOREPLACE); if that fails, the journal says
// so at once. If the controller died before it could note that, the results that the script of
// mapping calls has left in the target say it (note_results_of_script). So ours and the target's
// cannot be told apart in one case only: the target has mapped memory at exactly the address that
// was being mapped, or at that of the scratch page, and has never touched it. A program that was
// just executed leaves no results. But it makes all calls of its script, unless the kernel has no
// memory for one of them.
//
// Descriptors: the session file is recognised by its inode, an end of the socket pair by its type
// and by the process that made it.
#pragma once

#include <vector>

#include "image/maps.h"
#include "layout/session_file.h"
#include "ledger/session_file.h"
#include "target/handover.h"
#include "target/memory.h"
#include "target/remote_target.h"

namespace pinprick::engine {

// Puts the mark into memory that was just mapped. Returns false if it cannot be written.
bool mark(const target::Memory& memory, const layout::MappingEntry& entry);

// Is the mapping that the journal describes there, and ours?
bool is_ours(const target::Memory& memory, const layout::MappingEntry& entry,
             const std::vector<image::Mapping>& maps, const ledger::SessionFile& file);

// Has the target one of the file's two mappings? All others are made after these, and are gone
// before them. So a program without them has nothing of the session's text, nor of its memory,
// whatever the file says: the program that had it may have written to it, and may then have
// executed this one, which may have more rights. By maps that were read while the target was
// stopped, or after its memory was opened.
bool has_any_of_file(const std::vector<image::Mapping>& maps, const layout::Session& journal,
                     const ledger::SessionFile& file);

// Is the session's memory in the target? After the target has executed another program it is not.
bool is_in_target(const target::Memory& memory, const layout::Session& journal,
                  const std::vector<image::Mapping>& maps, const ledger::SessionFile& file);

// Where the script of mapping calls starts in the scratch page: first the address of the next call,
// then the calls.
inline constexpr uint64_t kScript = target::Handover::kScratchSize;

// Corrects the journal of a controller that is gone: a mapping that its script did not make,
// because something else was there or because the call was not reached, is marked as not there.
void note_results_of_script(const target::Memory& memory, layout::Session& journal,
                            const std::vector<image::Mapping>& maps,
                            const ledger::SessionFile& file);

// The target's descriptors that were opened to hand the file over, and are still open.
std::vector<int> our_descriptors(const target::RemoteTarget& target, const layout::Session& journal,
                                 const std::vector<image::Mapping>& maps,
                                 const ledger::SessionFile& file);

}  // namespace pinprick::engine
