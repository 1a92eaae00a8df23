// What hits may read without asking the kernel (runtime/regions.inc), and when they may start to.
//
// A page may be read as long as it is mapped, readable, and filled by the kernel alone. That is
// memory without a file, and what the loader has mapped of programs and libraries. The rest is left
// to the kernel: other files, which can be cut off; devices; what a userfaultfd serves; memory with
// a protection key; large pages, of which there may be none left; guard pages; and memory of ours,
// which a detach unmaps without passing a hook.
//
// **All threads stand still when regions are admitted,** and none is on its way to unmap something:
// neither in a hook in front of such a system call, nor in the call, nor in a signal handler that
// interrupted either. What smaps said before is taken only where maps still say the same. A guard
// page that was made in between has passed a hook, which counted it.
//
// Nothing is admitted where code may unmap memory without passing a hook: if the hooks are not all
// there, or code was generated, or mapped from a file that was not searched for such calls. A hook
// that comes before new code takes all regions away: we may be dead when it is there. Nor where a
// filter of system calls minds those of the hooks.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "arch/stub.h"
#include "base/address.h"
#include "image/process.h"
#include "layout/session_file.h"
#include "target/remote_target.h"

namespace pinprick::engine {

// A hook in front of what may unmap memory.
struct UnmapHook {
  Range code;              // of ours: the check, and what follows up to the program's own code
  Range original;          // of the program's: from where the hook leads back to, up to the call
  Address after_call = 0;  // in `code`, if the call is made there
};

// Of a session whose hits follow pointers, and whose hooks are all there.
struct DirectReads {
  Address regions = 0;  // layout::Regions
  Address first_reading = 0, last_reading = 0;
  Address reads = 0;  // RuntimeContext::reads
  arch::RseqArea rseq;
  Address calls = 0;  // code of the runtime's, for filters of system calls
  std::vector<UnmapHook> hooks;
  std::set<image::FileNumber> watched;  // files with code, all of whose calls have hooks
  std::vector<Range> own_code;          // all of the session's, with these hooks
};

enum class Admission : uint8_t {
  done,
  later,            // a thread was on its way, or memory changed: it may succeed the next time
  no_rseq,          // this and the rest are for good
  code_generated,   // there may be system calls in it
  calls_refused,    // those of the hooks
  reads_forbidden,  // all reading
};

// With the process's turn held. Adds to `stopped_ns` how long the process has stood still.
Admission admit_regions(const target::RemoteTarget& target, const DirectReads& to,
                        uint64_t& stopped_ns);

// Where a session has its table, in the mapping of its runtime's data.
Address regions_in(const layout::MappingEntry& runtime_data);
// Ends all such reading, for good. The threads must stand still.
void forbid_regions(const target::Memory& memory, Address regions);

}  // namespace pinprick::engine
