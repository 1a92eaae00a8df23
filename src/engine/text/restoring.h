// Puts the program's own text back where a session has written its jumps: all of it when the
// session ends (disarm.h), or some (removal.h).
#pragma once

#include <span>
#include <vector>

#include "engine/disarm.h"
#include "engine/owners/shared_sites.h"
#include "image/maps.h"
#include "image/process.h"
#include "layout/session_file.h"
#include "patch/text_edit.h"
#include "target/remote_target.h"
#include "target/stop.h"

namespace pinprick::engine {

// Takes the jumps of one session out of the program's text, and leads around its stubs where other
// sessions share the site. For the thread that holds the process's turn.
class Restoring {
 public:
  // Of all sites in the text, or of those for which `chosen` has true, by number.
  Restoring(const target::RemoteTarget& target, const image::ProcessImage& image,
            const layout::Session& journal, const OtherSites& others, Armed armed,
            const std::vector<bool>* chosen = nullptr);

  // Is all text restored but for the hooks in unwinders?
  bool probes_done() const { return left_.empty(); }
  bool hooks_done() const { return hooks_.empty(); }
  bool done() const { return left_.empty() && hooks_.empty() && !may_lead_to_us_; }
  // Restores the text of probes, as far as it can be done now.
  Result<void, SystemError> restore(target::Stop& stop, DisarmReport& report);
  // Leads the stubs of other sessions around ours where they are in no list any more, whatever is
  // in the text: a thread may still be in one (OtherSites::leading_around).
  Result<void, SystemError> lead_around(target::Stop& stop);
  // The sites whose text was restored so far.
  const std::vector<const layout::SiteEntry*>& restored() const { return restored_; }
  // Takes out the hooks in unwinders. To be called when no thread is in our code and no stack leads
  // there: without the hooks, no thread could unwind from there. A hook that was overwritten by
  // others stays, and done() is false then.
  Result<void, SystemError> restore_hooks(target::Stop& stop, DisarmReport& report);

 private:
  struct Site {
    const layout::SiteEntry* entry;
    bool is_shared = false;
  };
  std::vector<bool> in_use(target::Stop& stop, std::span<const patch::TextEdit> edits);
  // Edits and their order, prepared before the process stops, as far as possible.
  struct Edits {
    Edits() = default;
    explicit Edits(std::vector<patch::TextEdit> all)
        : edits(std::move(all)), order(edits, patch::PhaseOrder::downward) {}
    std::vector<patch::TextEdit> edits;
    patch::WritingOrder order{{}, patch::PhaseOrder::downward};
  };
  std::vector<Address> foreign_breakpoints(const image::ProcessImage& image,
                                           const std::vector<patch::TextEdit>& probes) const;
  Result<std::vector<patch::EditOutcome>, SystemError> apply(target::Stop& stop, const Edits& all,
                                                             DisarmReport& report);
  void count(const patch::TextEdit& edit, patch::EditOutcome outcome, DisarmReport& report);

  const target::RemoteTarget& target_;
  const target::Memory& memory_;
  image::MappingLookup mappings_;
  const Armed armed_;
  bool may_lead_to_us_ = false;  // a jump of ours was overwritten by bytes that may lead to it
  std::vector<Site> left_;
  std::vector<const layout::SiteEntry*> restored_;
  Edits probes_;  // that take the stubs of left_ out, in that order
  std::vector<patch::TextEdit> hooks_;
  Edits around_;
  std::vector<Address> foreign_;  // breakpoints
};

}  // namespace pinprick::engine
