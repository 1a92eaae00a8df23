// The part of a session's memory that stays mapped after its probes are out, because a thread may
// reach it later. It is rewritten so that it needs nothing else of ours. From then on it belongs to
// no session, and no file describes it:
//
//   - **Slots of calls abandoned by longjmp.** The program may put a copy of the stack back, and
//     the call then returns to its slot after all. The slot's code is made to return to the slot's
//     return address without recording anything. It needs only the slot, and nothing else that a
//     session maps.
//   - **Stubs that generated code may know** (plan::with_prefix()). In a process with executable
//     anonymous memory, a code generator may have followed the jump at a function's first byte and
//     kept its target. The stub becomes a jump to the function's first byte, which is the program's
//     own again. That jump has a prefix, so that no code generator follows it in turn. What a pun
//     leads to is its island, which becomes the same jump.
//
// Both are written while all threads are stopped, none of them is in our code, and the text is the
// program's own again. Each is one write within one page. So a thread that gets there afterwards
// finds either the old code, which works as long as the session is mapped, or the new code, which
// leads back to the program.
//
// Kept code starts with a mark. By it a later session knows that the process has generated none of
// it, or else stubs would have to stay for ever, session by session.
//
// A later session makes the jumps at such functions lead through the kept stubs, as through any
// trampoline; a pun is planned with the kept stub for its island. So the kept memory grows with the
// number of functions that were ever probed, not with the number of sessions.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "engine/calls/slot_use.h"
#include "image/maps.h"
#include "layout/session_file.h"
#include "target/memory.h"

namespace pinprick::engine {

struct KeptMemory {
  std::vector<Range> ranges;  // whole pages, by address
  std::vector<Range> unused;  // parts of `ranges` whose contents are not needed
  std::vector<Range> stubs;   // parts of `ranges` that hold stubs
  std::vector<Range> code;    // other parts of `ranges` that are executable
  uint64_t stub_bytes = 0;
  uint64_t slot_bytes = 0;
};

// Rewrites the memory to keep, as above; unmaps nothing. All threads must be stopped and outside
// our code. An arena that is not whole is left alone: an earlier attempt has rewritten it before it
// unmapped a part.
struct SessionCode {
  const std::vector<Range>& own;  // of this session, as far as it is there as it was mapped
  const std::vector<Range>& all;  // of all sessions in the process
};
Result<KeptMemory, SystemError> keep_what_is_needed(const target::Memory& memory,
                                                    const layout::Session& journal,
                                                    const SlotUse& use,
                                                    const std::vector<image::Mapping>& maps,
                                                    const SessionCode& code);

// Marks the kept stubs so that later sessions find them, and all kept code so that none of it is
// taken for generated code. To be called after the rest is unmapped.
void mark_kept(const target::Memory& memory, const KeptMemory& kept);

// Has the process executable memory that has no file, and is neither in `ours` nor kept?
bool has_generated_code(const target::Memory& memory, const std::vector<image::Mapping>& maps,
                        std::span<const Range> ours);

// The parts of a range that are not kept.
std::vector<Range> not_kept(Range whole, const KeptMemory& kept);

// The length of the jump that replaces a kept stub.
inline constexpr uint8_t kKeptJumpLength = layout::kLongSiteLength + 1;

// The stubs that earlier sessions left in the process, by the function that they lead to. The
// process may have overwritten them: only jumps to exactly that function are returned.
std::map<Address, Address> kept_stubs(pid_t pid, const target::Memory& memory,
                                      const std::vector<image::Mapping>& maps);

}  // namespace pinprick::engine
