#include "arch/x86_64/stub/records.h"

#include "layout/session_file.h"

namespace pinprick::arch {

void emit_record(Assembler& code, Address site, const MetricRecord& what, Assembler::Label copy,
                 Address next, uint8_t flags) {
  const Metric& metric = what.metric;
  code.u64(copy);
  code.u64(site);
  code.u64(metric.counters);
  code.u64(next);
  code.u32(1u << metric.fraction_bits);
  code.u32(metric.fraction_bits);
  code.u32(static_cast<uint32_t>(layout::histogram_size(metric.fraction_bits)));
  code.u32(what.span_start | static_cast<uint32_t>(what.pass) << 16 | uint32_t{flags} << 24);
}

void emit_return_record(Assembler& code, std::optional<Assembler::Label> at_return,
                        Assembler::Label unmeasured, uint64_t rest) {
  if (at_return)
    code.u64(*at_return);
  else
    code.u64(uint64_t{0});
  code.u64(unmeasured);
  code.u64(rest);
}

}  // namespace pinprick::arch
