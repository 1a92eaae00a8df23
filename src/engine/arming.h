// The steps of Session::arm, in the order that session.h argues for: each takes what those before
// it have made, and hands on what it makes. What a step does is in a part of its own:
//
//     lay_out       arming_plan.h, known_stubs.h, site_sharing.h, arena_layout.h
//     create_file   journal_tables.h, area_sizes.h, address_choice.h, journal_file.h
//     map_memory    memory_mapping.h, mapping_script.h, rseq_areas.h
//     write_stubs   session_runtime.h, stub_building.h, islands.h, session_unwinding.h
//     write_text    text_writer.h, text_edits.h, dependence.h
//
// One thread, which holds the process's turn from before the image was read. Where a step fails, or
// the task is cancelled, the session is undone by its journal: Session::disarm().
#pragma once

#include <optional>
#include <vector>

#include "engine/memory/address_choice.h"
#include "engine/memory/frame_rules.h"
#include "engine/memory/session_runtime.h"
#include "engine/owners/shared_sites.h"
#include "engine/plan/arming_modes.h"
#include "engine/plan/arming_plan.h"
#include "engine/session.h"
#include "engine/stubs/arena_layout.h"
#include "engine/stubs/session_unwinding.h"
#include "engine/stubs/stub_assembler.h"
#include "engine/stubs/stub_building.h"
#include "engine/text/text_writer.h"
#include "ledger/session_error.h"
#include "placement/probe_set.h"
#include "target/hijacked_thread.h"

namespace pinprick::engine {

class Arming {
 public:
  Arming(Session& session, placement::ProbeSet set, const ArmOptions& options)
      : session_(session),
        options_(options),
        plan_(std::move(set), options.gap),
        stubs_(plan_, session.journal_.header, facts_) {}
  Arming(const Arming&) = delete;
  Arming& operator=(const Arming&) = delete;

  // Once.
  Result<void, ledger::SessionError> run();

 private:
  Result<void, ledger::SessionError> lay_out();
  void lead_through_kept();
  void lay_out_memory();

  Result<void, ledger::SessionError> create_file();
  Result<void, ledger::SessionError> choose(const std::vector<image::Mapping>& maps);
  Result<void, ledger::SessionError> choose_again();

  Result<void, ledger::SessionError> map_memory();
  Result<void, ledger::SessionError> map_somewhere(target::HijackedThread& thread);
  Result<void, ledger::SessionError> check_what_is_mapped();
  // What follows from how threads have their rseq areas.
  void note_rseq();

  Result<void, ledger::SessionError> write_stubs();
  Result<void, ledger::SessionError> write_runtime();
  void arm_what_fits();
  Result<void, ledger::SessionError> build_stubs();
  Result<void, ledger::SessionError> prepare_exec_handshake();
  Result<std::vector<ArenaHead>, ledger::SessionError> write_heads();
  Result<void, ledger::SessionError> write_islands();
  Result<void, ledger::SessionError> write_unwind_tables(const std::vector<ArenaHead>& heads);

  Result<void, ledger::SessionError> write_text();
  Result<void, ledger::SessionError> announce(TextWriter& writer);
  Result<void, ledger::SessionError> build_locked(TextWriter& writer);

  // What outlives arming.
  void hand_over();
  std::optional<DirectReads> direct_reads() const;
  std::vector<ObjectSites> sites_of_objects() const;
  void note_fields();
  void hand_over_probes();

  runtime::RuntimeSpec spec() const {
    return runtime_spec(plan_, session_.journal_, sizes_, facts_.rseq);
  }
  arch::SlotFrames slots() const {
    return {facts_.hook.slot_code, facts_.hook.slots, PP_RECORD_SITE};
  }
  arch::ArenaSpec arena_spec(const Arena& arena, const std::vector<Address>& cpus) const;
  // Calls that begin in a slot or a stub of ours, by a tail call for example, are timed as well.
  std::vector<Range> caller_code() const;
  Children children() const { return options_.count_children ? Children::count : Children::forget; }
  Failure<ledger::SessionError> failed(target::AttachCause cause) const;
  layout::Session& journal() { return session_.journal_; }
  ledger::SessionFile& file() { return *session_.file_; }
  const target::RemoteTarget& target() const { return session_.target_; }

  Session& session_;
  const ArmOptions& options_;
  ArmingPlan plan_;
  // `rseq`: as the hijacked thread has it; all are looked at later.
  StubFacts facts_;
  StubAssembler stubs_;
  std::vector<image::Mapping> maps_;  // as they were before anything was laid out
  OtherSites others_;
  ArenaLayout layout_;
  RuntimeSizes sizes_;
  Address runtime_address_ = 0;
  std::optional<FrameRules> frames_;  // until they are written
  arch::Routines routines_;           // of the runtime; 0: there is none
  std::vector<arch::CodeRow> runtime_frames_;
  BuiltStubs built_;
  Address first_reading_ = 0, last_reading_ = 0;  // as in RuntimeImage
};

}  // namespace pinprick::engine
