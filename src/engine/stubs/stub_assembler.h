// Assembles the stub of any patch of a plan: what it does for each of its probes or as a hook, and
// its link.
//
// Pure. Any number of threads may use it at once, as long as none changes the plan's set or the
// header. What it refers to outlives it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "arch/assembler.h"
#include "arch/stub.h"
#include "arch/unwinder_hook.h"
#include "base/address.h"
#include "engine/plan/arming_modes.h"
#include "engine/plan/arming_plan.h"
#include "layout/session_file.h"

namespace pinprick::engine {

// Stubs begin at multiples of this: their records and descriptors are aligned then.
inline constexpr uint64_t kStubAlignment = 8;

// What all stubs of a session have. Sizes depend on `rseq`, `switches`, and whether there is slot
// code, but on no address.
struct StubFacts {
  std::optional<arch::RseqArea> rseq;
  Switches switches = Switches::none;
  arch::UnwinderHook hook;  // of unwinders' hooks; the rest is the patch's
  Address loader_handshake = 0;
  Address exec_handshake = 0;
  Address reads = 0;       // RuntimeContext::reads
  Address regions = 0;     // layout::Regions
  arch::KeptAtEntry kept;  // where timed calls keep values
};

// The actions of a stub, and the metrics that they refer to. Its memory serves the next stub, too.
struct StubActions {
  std::vector<arch::StubAction> list;
  std::vector<arch::Metric> metrics;
  std::vector<arch::AtReturn> at_return;  // by metric; empty: nothing is computed there
};

class StubAssembler {
 public:
  StubAssembler(const ArmingPlan& plan, const layout::FileHeader& header, const StubFacts& facts)
      : plan_(plan), header_(header), facts_(facts) {}

  // The stub of the patch, where `code` ends. Returns nullopt, and emits nothing, if something that
  // it refers to is out of reach. `actions`: for its use only.
  std::optional<arch::Stub> assemble(size_t patch, arch::Assembler& code,
                                     const arch::ArenaEntries& entries, StubActions& actions) const;
  // No stub of the patch takes more, wherever it lies.
  uint64_t most_room(size_t patch) const;
  // Would something that is written into the stub later lie in two pages? Each is to be written at
  // once: a controller may be killed between two pages.
  bool has_edit_across_pages(size_t patch, const arch::Stub& stub) const;

 private:
  void add_actions(size_t patch, StubActions& actions) const;
  // Of the patch at which the calls start.
  void add_metrics_of_calls(size_t patch, StubActions& actions) const;
  void add_end(const placement::SitePatch& planned, StubActions& actions) const;
  uint64_t room_of_values(const placement::Probe& probe) const;
  arch::RecordEvent event_of(size_t probe, std::vector<arch::Expression> values) const;
  void add_count(size_t probe, arch::StubAction action, StubActions& actions) const;
  void add_hook_action(size_t patch, StubActions& actions) const;
  arch::CallRoutine before_unmap(size_t starts_at) const;
  void add_timing(size_t patch, arch::StubAction action, StubActions& actions) const;
  void add_at_return(size_t patch, const std::vector<select::Expression>& kept,
                     StubActions& actions) const;
  uint64_t room_at_return(const placement::SitePatch& patch, const placement::Probe& probe) const;
  uint64_t most_room_of_probes(size_t patch) const;

  const ArmingPlan& plan_;
  const layout::FileHeader& header_;
  const StubFacts& facts_;
};

}  // namespace pinprick::engine
