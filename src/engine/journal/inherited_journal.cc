#include "engine/journal/inherited_journal.h"

#include <algorithm>
#include <span>

#include "patch/text_edit.h"

namespace pinprick::engine {

using layout::MappingEntry;
using layout::SemaphoreEntry;
using layout::SessionState;
using layout::SiteEntry;

namespace {

// Does the site hold our jump? A debugger's breakpoint may lie in it.
bool holds_jump(const target::Memory& memory, const patch::TextEdit& jump) {
  constexpr uint8_t kBreakpoint = 0xcc;
  uint8_t there[sizeof jump.after];
  const auto bytes = std::span(there).first(jump.length);
  if (!memory.read(jump.address, bytes)) return false;
  return (bytes[0] == jump.after[0] || bytes[0] == kBreakpoint) &&
         std::equal(bytes.begin() + 1, bytes.end(), jump.after + 1);
}

}  // namespace

layout::Session inherited(layout::Session journal, const target::Memory& memory) {
  // Before it was armed, there was nothing to inherit.
  if (journal.header.state == SessionState::disarmed) journal.header.state = SessionState::armed;
  for (SiteEntry& site : journal.sites)
    if (has_left(site) && holds_jump(memory, patch::arming(site))) site.return_to_text();
  // What the parent has unmapped, or has to keep, its journal does not have any more.
  for (MappingEntry& entry : journal.mappings)
    if (entry.address != 0 && entry.kind != MappingEntry::Kind::scratch)
      entry.progress = MappingEntry::Progress::mapped;
  for (SemaphoreEntry& semaphore : journal.semaphores)
    if (semaphore.progress == SemaphoreEntry::Progress::lowered)
      semaphore.progress = SemaphoreEntry::Progress::raised;
  return journal;
}

}  // namespace pinprick::engine
