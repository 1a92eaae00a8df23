// The records of metrics that stubs hand to the runtime (layout/runtime_data.h).
#pragma once

#include <cstdint>
#include <optional>

#include "arch/assembler.h"
#include "arch/stub.h"
#include "base/address.h"
#include "layout/runtime_data.h"

namespace pinprick::arch {

struct MetricRecord {
  Metric metric;
  uint16_t span_start = 0;
  layout::Pass pass = layout::Pass::starts;
};

// Emits a layout::ProbeRecord of the instruction at `site`. `next` is the address of the call's
// next record, or 0; `flags` are PP_RECORD_GOES_ON and the like.
void emit_record(Assembler& code, Address site, const MetricRecord& what, Assembler::Label copy,
                 Address next, uint8_t flags = 0);

// Emits a layout::ReturnRecord, which follows a record whose flags say so. Without `at_return`,
// nothing is computed at the return.
void emit_return_record(Assembler& code, std::optional<Assembler::Label> at_return,
                        Assembler::Label unmeasured, uint64_t rest);

}  // namespace pinprick::arch
