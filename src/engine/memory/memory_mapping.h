// Maps a session's memory in the process, by one hijacked thread, while the others run on.
//
// The journal has each mapping before it is made, and its result afterwards. The steps:
//
//     1  the scratch page is mapped, for what is handed over and for the script
//     2  the session file's descriptor is sent; a script of calls receives it, and maps all else
//     3  the result of each call is noted; the scratch page is unmapped
//
// A program that has run no instruction yet since it was executed needs less. It has nothing below
// its stack pointer, and no other thread has its memory. So the script lies there, and what was
// there is restored afterwards. If the process sees the same files as we do, the script opens the
// session file by its path, and closes it again:
//
//     1  a script of calls opens the file, maps all, and closes the file
//     2  the result of each call is noted; the stack's bytes are restored
//
// If we die meanwhile, the thread makes all calls of the script, waits for a second, and starts the
// program; what the script has left below the stack pointer stays there. If it cannot open the
// file, it has done nothing, and is given the descriptor as above.
//
// Arming calls it, with the process's turn held, before there is any stub. It fails if the kernel
// refuses a call, or if the process ends. The journal then has what was mapped, and a disarm
// removes it.
#pragma once

#include <string>

#include "base/result.h"
#include "engine/memory/mapping_script.h"
#include "layout/session_file.h"
#include "ledger/session_error.h"
#include "ledger/session_file.h"
#include "target/handover.h"
#include "target/hijacked_thread.h"
#include "target/remote_target.h"

namespace pinprick::engine {

class MemoryMapping {
 public:
  struct Parts {
    const target::RemoteTarget& target;
    ledger::SessionFile& file;
    layout::Session& journal;
    target::HijackedThread& thread;
  };
  MemoryMapping(const Parts& parts, Children children) : parts_(parts), children_(children) {}

  // All that the journal has.
  Result<void, ledger::SessionError> map_all();
  // The session's file, in place of another one with the same contents: a forked child has that of
  // its parent. Each of the two mappings changes at once, by one call.
  Result<void, ledger::SessionError> replace_file();
  // Has the last attempt failed as the program has taken an address since it was chosen? Another
  // one, with other addresses, may not.
  bool is_address_taken() const { return is_address_taken_; }
  // What was mapped by an attempt goes again.
  void unmap_all();

 private:
  Result<void, ledger::SessionError> map_scratch(size_t index);
  enum class Memory : bool { none_yet, of_another_file };
  Result<void, ledger::SessionError> map(Memory memory);
  bool can_open_file() const;
  // Returns false if the file has to be handed over.
  Result<bool, ledger::SessionError> map_by_opening();
  Result<bool, ledger::SessionError> open_and_map(MappingScript& script, Address told,
                                                  Address table);
  Result<void, ledger::SessionError> map_by_script(Address scratch, Memory memory);
  Result<void, ledger::SessionError> unmap_scratch(size_t index);
  // Where its parts lie in the process.
  struct Place {
    Address told = 0;
    Address table = 0;
    Address descriptor = 0;
  };
  Result<void, ledger::SessionError> run_script(MappingScript& script, const Place& place);
  Result<void, ledger::SessionError> note_results(const MappingScript& script, bool has_descriptor);
  Result<void, ledger::SessionError> note_result(const arch::ScriptedCall& call,
                                                 bool has_descriptor) const;
  Result<void, ledger::SessionError> note_mapped(layout::MappingEntry& entry, uint64_t result);
  Result<void, ledger::SessionError> note_refused(layout::MappingEntry& entry, uint64_t result);
  Failure<ledger::SessionError> failed(target::AttachCause cause, int error = 0,
                                       std::string detail = {}) const;

  const Parts parts_;
  const Children children_;
  bool is_address_taken_ = false;
};

}  // namespace pinprick::engine
