#include "engine/inherited_journal.h"

#include <vector>

#include "patch/text_edit.h"

namespace pinprick::engine {

using layout::SemaphoreEntry;
using layout::SessionState;
using layout::SiteEntry;

layout::Session inherited(layout::Session journal, const target::Memory& memory) {
  // Before it was armed, there was nothing to inherit.
  if (journal.header.state == SessionState::disarmed) journal.header.state = SessionState::armed;
  std::vector<SiteEntry*> left;
  std::vector<patch::TextEdit> jumps;
  for (SiteEntry& site : journal.sites) {
    if (site.phase != SiteEntry::Phase::gone && site.phase != SiteEntry::Phase::removed) continue;
    left.push_back(&site);
    jumps.push_back(patch::arming(site));
  }
  const auto held = patch::examine(memory, jumps);
  // Other bytes than ours may be another owner's jump, or a breakpoint in ours.
  for (size_t i = 0; i < left.size(); ++i)
    if (held[i] == patch::EditOutcome::already || held[i] == patch::EditOutcome::different)
      left[i]->return_to_text();
  for (SemaphoreEntry& semaphore : journal.semaphores)
    if (semaphore.progress == SemaphoreEntry::Progress::lowered)
      semaphore.progress = SemaphoreEntry::Progress::raised;
  return journal;
}

}  // namespace pinprick::engine
