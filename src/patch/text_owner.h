// Decides who changes the text of a process: attached sessions, or libpinprick in the process
// itself. Not both at a time, as neither knows what the other has written, or would put back.
//
// Each announces itself in the memory of the process, which both see in whatever user, folder or
// namespace they run. A session maps its file there before it writes text, and the file says
// whether text is changed. The library maps a page that says that it changes text.
//
//     library                                session
//       map the page, write into it            map the file
//       look for a session's file:             look for the page:
//         unmap the page, refuse if it is        unmap the file, refuse if it is there
//         there                                write stubs; stop; write text
//       write text
//
// Both announce first and look afterwards, so no thread has to be stopped: at least one of the two
// sees the other. Suppose that the session does not see the page. Then the page was not mapped, or
// not filled in, when the session looked there. The library looks after its page is mapped and
// filled in, so after the session has looked, and so after the session's file was mapped: the
// library sees the file. The same holds the other way round. A look goes through all mappings, one
// after the other; if some come and go meanwhile, that hides none that stays. If each sees the
// other, both refuse, and the next one to try succeeds.
//
// Each also looks once before it announces itself, so as not to disturb one that is there already.
//
// The page stays for the life of the process, even without probes of the library: a thread may have
// been preempted in a stub for any length of time, and would return to an instruction that a
// session's jump may have displaced. The library, however, may start as soon as a session has put
// the text back: each instruction boundary under the library's own jumps is a breakpoint, wherever
// a thread comes from (patch/live_edit.h). Forked children inherit both mappings, with the text.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "image/maps.h"
#include "layout/session_file.h"
#include "target/memory.h"

namespace pinprick::patch {

// Is the library's page in the process that has this memory and these mappings?
bool library_changes_text(const target::Memory& memory, const std::vector<image::Mapping>& maps);

// The header of the session file that is mapped there, if one is. If it is of another version, only
// `magic`, `version` and `header_size` mean anything.
std::optional<layout::FileHeader> mapped_session(const target::Memory& memory,
                                                 const image::Mapping& mapping);

struct AttachedSession {
  pid_t controller = 0;  // in its own namespace; 0 if unknown. It may have ended
};

// Returns a session that may change the text of the process, or has left it changed.
std::optional<AttachedSession> session_changes_text(const target::Memory& memory,
                                                    const std::vector<image::Mapping>& maps);

// The library's part, for this process; `memory` is its own. One thread at a time.
//
// Returns a session that is there. Does not look once the text is claimed, as none can come then.
Result<std::optional<AttachedSession>, SystemError> session_in_own_text(
    const target::Memory& memory);
// Claims the text for the library, unless a session is there, which it returns.
Result<std::optional<AttachedSession>, SystemError> claim_own_text(const target::Memory& memory);

}  // namespace pinprick::patch
