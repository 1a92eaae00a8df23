// What of a session's memory stays mapped when its probes are out, because somebody may come there
// later; made into something that needs nothing else of ours. It is nobody's then, and has no file:
//
//   - **Slots of calls that longjmp left.** Nobody can tell whether a copy of the stack is put
//   back,
//     and the call returns to its slot after all. The slot's code then returns to the slot's return
//     address, without recording anything: of all else that a session maps it needs only the slot.
//   - **Stubs that generated code may know** (plan::with_prefix()): those of functions whose first
//     byte our jump made that of a jump, in a process that has executable memory without a file. A
//     jump to the function's own first byte, which is the program's again, lies there instead.
//     Since it has a prefix, nobody follows it in turn.
//
// Both are written while all threads stand still, none of them is in our code, and the text is the
// program's own again; each is one write within one page. So whoever comes there afterwards finds
// either what was there, which works as long as the session is mapped, or what leads home.
//
// A later session has the jumps to such functions lead through the stubs that were kept, as through
// any trampoline. So what is kept grows with the functions that were ever probed, and not with the
// number of sessions.
#pragma once

#include <map>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "engine/slot_use.h"
#include "image/maps.h"
#include "layout/session_file.h"
#include "target/memory.h"

namespace pinprick::engine {

struct KeptMemory {
  std::vector<Range> ranges;  // whole pages, by address
  std::vector<Range> unused;  // of them: pages whose contents nobody needs
  std::vector<Range> stubs;   // of them: those of stubs
  uint64_t stub_bytes = 0;
  uint64_t slot_bytes = 0;
};

// Writes what is said above; nothing is unmapped yet. `code`: what sessions have there
// that is executable.
Result<KeptMemory, SystemError> keep_what_is_needed(const target::Memory& memory,
                                                    const layout::Session& journal,
                                                    const SlotUse& use,
                                                    const std::vector<image::Mapping>& maps,
                                                    const std::vector<Range>& code);

// Once all else is unmapped: later sessions may find the stubs.
void mark_kept(const target::Memory& memory, const KeptMemory& kept);

// The parts of a range that are not kept.
std::vector<Range> not_kept(Range whole, const KeptMemory& kept);

// A jump of this length lies in place of a kept stub.
inline constexpr uint8_t kKeptJumpLength = layout::kLongSiteLength + 1;

// Stubs that earlier sessions left in the process, by the function that they lead to. The process
// may write there what it likes: what is found is a jump to just that address.
std::map<Address, Address> kept_stubs(const target::Memory& memory,
                                      const std::vector<image::Mapping>& maps);

}  // namespace pinprick::engine
