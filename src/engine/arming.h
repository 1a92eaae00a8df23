// The steps of Session::arm, with what they hand to each other (session.h has their order).
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "arch/stub.h"
#include "arch/unwind_tables.h"
#include "engine/arming_plan.h"
#include "engine/dependence.h"
#include "engine/known_stubs.h"
#include "engine/rseq_areas.h"
#include "engine/session.h"
#include "engine/shared_sites.h"
#include "engine/site_sharing.h"
#include "engine/span_points.h"
#include "engine/thread_ids.h"
#include "image/process.h"
#include "ledger/session_error.h"
#include "patch/text_edit.h"
#include "placement/probe_set.h"
#include "runtime/image.h"
#include "target/handover.h"
#include "target/hijacked_thread.h"

namespace pinprick::engine {

// Calls in flight at once, over all threads: recursion included. There are so many at first, and
// room for as many more; pages that were never used take no memory.
inline constexpr uint64_t kFirstSlots = 16384;
inline constexpr uint64_t kSlotsPerCpu = PP_CPU_FREE_LIMIT;
inline constexpr uint64_t kMostSlots = 1 << 18;

// CPUs with cells of their own. On a machine with more than the tables hold, everybody locks.
uint32_t usable_cpus();

// Where the stubs of one object go.
struct Arena {
  const image::Object* object = nullptr;
  IndexRange patches;
  Address address = 0;
  uint64_t size = 0;
  arch::StubArena frames;
  std::vector<arch::CodeRow> routines;
  ObjectSites sites;
};

// Stubs that one thread emits, one behind the other.
struct StubPiece {
  size_t arena = 0;
  IndexRange patches;  // of the arena's
  Range stubs;         // in the target
  uint64_t room = 0;   // for them: up to the next piece
  uint64_t bytes = 0;  // what they take
  int refused = 0;     // the error, if they could not be written
  // Per patch: its shape, and the room of its stub, whole alignments; 0: there is none.
  std::vector<uint16_t> shape_of;
  std::vector<uint32_t> room_of;
  std::vector<std::string> shapes;  // that its stubs have, each once
  std::vector<patch::Interior> interiors;
};

class Arming {
 public:
  Arming(Session& session, placement::ProbeSet set, const ArmOptions& options)
      : session_(session), options_(options), plan_(std::move(set)), set_(plan_.set) {}

  Result<void, ledger::SessionError> run();

 private:
  Result<void, ledger::SessionError> lay_out();
  Result<void, ledger::SessionError> create_file();
  Result<void, ledger::SessionError> choose_addresses(const std::vector<image::Mapping>& maps);
  Result<void, ledger::SessionError> choose_addresses_again();
  Result<void, ledger::SessionError> map_memory();
  Result<void, ledger::SessionError> map_all(target::HijackedThread& thread);
  void unmap_all(target::HijackedThread& thread);
  void note_rseq();
  struct Script;
  Script script(const target::Handover& handover, size_t scratch) const;
  Result<void, ledger::SessionError> run_script(target::HijackedThread& thread, Script& script,
                                                const target::Handover& handover, Address scratch);
  Result<void, ledger::SessionError> note_results(target::HijackedThread& thread,
                                                  const Script& script, bool has_descriptor);
  Result<void, ledger::SessionError> map_scratch(target::HijackedThread& thread, size_t index);
  Result<void, ledger::SessionError> note_mapped(target::HijackedThread& thread, size_t index,
                                                 uint64_t result);
  std::optional<arch::ScriptedCall> forget_at_fork(const layout::MappingEntry& mapping) const;
  static uint64_t scratch_size(size_t mappings);
  Result<void, ledger::SessionError> write_stubs();
  Result<void, ledger::SessionError> write_text();
  size_t index_of(const placement::SitePatch& patch) const {
    return static_cast<size_t>(&patch - set_.patches.data());
  }
  patch::TextEdit edit_of(size_t patch, size_t site) const;
  bool has_edit_across_pages(const placement::SitePatch& patch, const arch::Stub& stub) const;
  void note_probes(size_t patch, const arch::Stub& stub);
  bool write_jumps(size_t patch, const arch::Stub& stub);
  bool ends_as_others_say(size_t patch, const layout::SiteEntry& site) const;
  Result<void, ledger::SessionError> write_trampolines();
  // In the target; 0: not mapped.
  Address island_of(const placement::SitePatch& patch) const;
  std::string shape_of(size_t patch, const arch::Stub& stub, Address at, uint64_t room) const;
  void lay_out_unwind_tables();
  arch::UnwindSpec unwind_spec(const arch::StubShapes& shapes) const;
  // `actions`: for its use only.
  std::optional<arch::Stub> place_stub(const placement::SitePatch& patch, arch::Assembler& code,
                                       const arch::ArenaEntries& entries,
                                       std::vector<arch::StubAction>& actions) const;
  Result<void, ledger::SessionError> note_tid_offset(target::Stop& stop);
  decltype(arch::StubAction::what) action_of(size_t probe) const;
  uint64_t most_room(const placement::SitePatch& patch) const;
  Result<void, ledger::SessionError> emit_stubs(const std::vector<arch::ArenaEntries>& entries,
                                                arch::StubShapes& shapes);
  void emit_piece(StubPiece& piece, const arch::ArenaEntries& entries);
  void take_over(StubPiece& piece, arch::StubShapes& shapes);
  void keep_interiors(StubPiece& piece, size_t patch, const arch::Stub& stub) const;
  // What is to be written into the text, ready before the target stops.
  struct Edits {
    std::vector<patch::TextEdit> edits;
    std::vector<uint32_t> patch_of;  // of each edit
    patch::WritingOrder order{{}, patch::Order::phases_upward};
  };
  Edits edits() const;
  enum class TextStop : uint8_t {
    written,
    thread_in_hook,  // nothing was written: a thread is in the way of a hook
    other_rseq,      // nothing was written: not all threads have rseq as the stubs would have it
  };
  Result<TextStop, ledger::SessionError> try_to_write_text(Edits& edits,
                                                           image::MappingLookup& mappings,
                                                           std::span<const Address> foreign,
                                                           bool last_attempt);
  Result<void, ledger::SessionError> announce_text();
  Result<void, ledger::SessionError> build_locked();
  void forget_stubs();
  bool drop_changed(const Edits& edits);
  void keep_armed(Edits& edits) const;
  Result<void, ledger::SessionError> note_left_out();

  runtime::RuntimeSpec runtime_spec() const;
  std::vector<Range> caller_code() const;
  arch::ArenaSpec arena_spec(const Arena& arena, const std::vector<Address>& cpus) const;
  bool times() const { return plan_.times(); }
  bool has_spans() const { return plan_.has_spans(); }
  bool has_histograms() const { return plan_.has_histograms(); }
  uint32_t site_of(size_t patch) const { return plan_.states[patch].site; }
  Counting counting() const { return rseq_ ? Counting::restartable : Counting::locked; }
  size_t mapping_of(layout::MappingEntry::Kind kind) const;  // index in the journal
  Address loader_cell() const;
  target::AttachError attach_error(target::AttachCause cause, int error = 0,
                                   std::string detail = {}) const {
    return {cause, session_.target_.pid(), 0, error, std::move(detail)};
  }
  layout::Session& journal() { return session_.journal_; }
  ledger::SessionFile& file() { return *session_.file_; }
  const target::RemoteTarget& target() { return session_.target_; }

  Session& session_;
  const ArmOptions& options_;
  ArmingPlan plan_;
  placement::ProbeSet& set_;
  std::vector<Arena> arenas_;
  std::vector<StubPiece> pieces_;           // by arena and address
  std::vector<patch::Interior> interiors_;  // by address; their `edit` is the patch
  std::vector<Address> stubs_of_puns_;      // in the same order
  std::vector<Range> islands_;              // pages that puns lead to, in the target
  OtherSites others_;
  std::optional<arch::RseqArea> rseq_;  // as the hijacked thread has it; all are looked at later
  bool is_address_taken_ = false;       // by the program, since it was chosen
  Address runtime_address_ = 0;
  uint64_t capacity_ = 0;
  uint64_t callers_size_ = 0;
  Address enter_ = 0;
  arch::UnwinderHook hook_;
  std::vector<arch::CodeRow> runtime_frames_;
  size_t skipped_before_stubs_ = 0;  // of the report
  uint64_t unwind_room_ = 0;         // for the unwind tables, behind the stubs of the first arena
  Address unwind_tables_ = 0;
};

}  // namespace pinprick::engine
