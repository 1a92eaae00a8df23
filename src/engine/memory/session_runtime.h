// The runtime of a session that times calls, records values, or has spans: how large it is, and
// what it is made with (runtime/image.h).
//
// Pure, but for write_runtime(), which writes it into memory of the target that is not used yet.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "arch/stub.h"
#include "base/address.h"
#include "base/result.h"
#include "engine/plan/arming_plan.h"
#include "layout/session_file.h"
#include "ledger/session_error.h"
#include "runtime/image.h"
#include "target/remote_target.h"

namespace pinprick::engine {

struct RuntimeSizes {
  uint64_t capacity = 0;      // slots that there is room for
  uint64_t unwind_size = 0;   // of the rules by which stacks are walked
  uint64_t callers_size = 0;  // runtime::RuntimeSpec
};

// `slots`: as ArmOptions. `callers`: code that calls are timed from.
RuntimeSizes runtime_sizes(const ArmingPlan& plan, uint64_t slots, std::span<const Range> callers);

// Returns the description of a session's runtime; the addresses are those in the journal.
runtime::RuntimeSpec runtime_spec(const ArmingPlan& plan, const layout::Session& journal,
                                  const RuntimeSizes& sizes, std::optional<arch::RseqArea> rseq);

Result<runtime::RuntimeImage, ledger::SessionError> write_runtime(
    const target::RemoteTarget& target, Address address, const runtime::RuntimeSpec& spec);

// Fails if the memory cannot be written.
Result<void, ledger::SessionError> write_pieces(const target::RemoteTarget& target,
                                                const std::vector<runtime::Piece>& pieces);

}  // namespace pinprick::engine
