// Who changes the text of a process: an attached session, or libpinprick in the process itself.
// Only one of the two at a time, as neither knows what the other has written, or would put back.
//
// They meet in the memory of the process, which both see whatever user, folder or namespace they
// run in. A session maps its file there before it writes text, and the file says whether text is
// changed. The library maps a page that says that it changes text.
//
//     library                                session
//       map the page, write into it            map the file
//       look for a session's file:             look for the page:
//         unmap the page, refuse if it is        unmap the file, refuse if it is there
//         there                                write stubs; stop; write text
//       write text
//
// Both announce first and look after, so nobody has to stand still: at least one of the two sees
// the other. Say that the session does not see the page. Then it had not come to the place where
// the page was looked for when that was done, or said nothing yet; so the library's look, which
// comes after its page is there and says what it is, comes after the session's look as well, and so
// after the session's file was mapped, which it sees. The other way round it is the same. What is
// looked at are all mappings, one after the other; that some come and go meanwhile hides none that
// stays. If both see the other, both refuse, and whoever tries again comes in.
//
// Each looks once before it announces as well, so that who is there already is not disturbed.
//
// The page stays for the life of the process, whatever becomes of the library's probes: a thread
// may have been preempted in a stub for as long as it likes, and would return to an instruction
// that a session's jump may have displaced. The other way round the library may begin when a
// session has put back the text: each instruction under its own jumps is a breakpoint, wherever a
// thread comes from (patch/live_edit.h). Forked children inherit both mappings, with the text.
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

// Is the page in the process whose memory and mappings these are?
bool library_changes_text(const target::Memory& memory, const std::vector<image::Mapping>& maps);

// The header of the session's file that is mapped there; of another version only `magic`, `version`
// and `header_size` mean anything.
std::optional<layout::FileHeader> mapped_session(const target::Memory& memory,
                                                 const image::Mapping& mapping);

struct AttachedSession {
  pid_t controller = 0;  // in its own namespace; 0: unknown; it may have ended
};

// A session that may change the text of the process, or has left it changed.
std::optional<AttachedSession> session_changes_text(const target::Memory& memory,
                                                    const std::vector<image::Mapping>& maps);

// The library's part, in this process, whose own `memory` is. One thread at a time.
//
// A session that is there; looks no more once the text has been claimed, as none can come then.
Result<std::optional<AttachedSession>, SystemError> session_in_own_text(
    const target::Memory& memory);
// From now on the text is the library's, unless a session is there, which is what this returns.
Result<std::optional<AttachedSession>, SystemError> claim_own_text(const target::Memory& memory);

}  // namespace pinprick::patch
