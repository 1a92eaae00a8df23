#include "arch/x86_64/stub/arena.h"

#include "arch/jump.h"
#include "arch/stub.h"
#include "layout/runtime_offsets.h"

namespace pinprick::arch {

static_assert(kRseqSignature == PP_RSEQ_SIGNATURE);

void emit_stripe(Assembler& code, Reg reg) {
  code.mov(reg, Reg::rsp);
  code.shift_right(reg, 16);
  code.multiply32(reg, 0x9e3779b1);
  code.shift_right(reg, 32 - PP_LOCKED_STRIPES_LOG2);
}

Range tables_in_arena(uint64_t cpus) {
  const uint64_t words = layout::kLockedStripes + layout::kUnregisteredEntries + cpus;
  return {kPageSize, kPageSize + align_up(words * sizeof(uint64_t), kPageSize)};
}

ArenaEntries emit_arena_header(Assembler& code, const ArenaSpec& spec) {
  ArenaEntries entries;
  code.u64(kArenaMagic);
  code.u64(spec.size);
  entries.pointers.time = code.here();
  code.u64(spec.routines.time);
  code.u64(spec.unwind_tables);
  entries.pointers.record = code.here();
  code.u64(spec.routines.record);
  entries.pointers.pass = code.here();
  code.u64(spec.routines.pass);
  entries.pointers.key = code.here();
  code.u64(spec.routines.key);
  entries.pointers.sum = code.here();
  code.u64(spec.routines.sum);
  entries.pointers.record_by_key = code.here();
  code.u64(spec.routines.record_by_key);
  entries.pointers.load = code.here();
  code.u64(spec.routines.load);
  entries.pointers.text = code.here();
  code.u64(spec.routines.text);
  entries.pointers.compare = code.here();
  code.u64(spec.routines.compare);
  entries.pointers.event = code.here();
  code.u64(spec.routines.event);
  entries.pointers.pair = code.here();
  code.u64(spec.routines.pair);
  entries.pointers.stack = code.here();
  code.u64(spec.routines.stack);
  entries.pointers.thread = code.here();
  code.u64(spec.routines.thread);
  entries.pointers.every = code.here();
  code.u64(spec.routines.every);
  entries.pointers.extremes = code.here();
  code.u64(spec.routines.extremes);
  entries.pointers.accounted = code.here();
  code.u64(spec.routines.accounted);
  entries.pointers.self_time = code.here();
  code.u64(spec.routines.self_time);
  code.align(spec.tables_apart ? kPageSize : 64, 0);
  const auto locked_table = code.bind_here();
  for (Address area : spec.locked_areas) code.u64(area);
  for (uint32_t i = 0; i < layout::kUnregisteredEntries; ++i) code.u64(0);
  entries.cpu_table = code.here();
  for (Address area : spec.cpu_areas) code.u64(area);

  // locked_count: [stripe(rsp) + rax] += 1; preserves flags. Threads are spread over stripes by
  // their stacks.
  code.align(spec.tables_apart ? kPageSize : 16, kBreakpoint);
  const auto nowhere = code.new_label();
  const auto note = [&](CodeRow::Caller caller, int8_t words, uint8_t saved = 0) {
    entries.frames.push_back({code.here(), caller, words, 0, saved});
  };
  using Caller = CodeRow::Caller;
  entries.locked_count = code.here();
  note(Caller::returned_to, 1);
  code.push(Reg::rdx);
  note(Caller::returned_to, 2);
  code.mov(Reg::rdx, Reg::rax);
  code.lahf();
  code.seto_al();
  code.push(Reg::rbx);
  note(Caller::returned_to, 3, CodeRow::rbx_third);
  emit_stripe(code, Reg::rcx);
  code.lea(Reg::rbx, locked_table);
  code.load_indexed8(Reg::rcx, Reg::rbx, Reg::rcx);
  code.jrcxz(nowhere);
  code.lea_indexed(Reg::rcx, Reg::rcx, Reg::rdx);
  code.locked_increment(Reg::rcx, 0);
  code.bind(nowhere);
  code.pop(Reg::rbx);
  note(Caller::returned_to, 2);
  code.add_al(127);  // sets the overflow flag if seto stored 1
  code.sahf();
  code.pop(Reg::rdx);
  note(Caller::returned_to, 1);
  code.ret();

  // Lies before a probe's code. `further` is the size of what comes before the counting: a switch,
  // and the instruction that keeps the red zone.
  const int32_t after_switch = spec.has_switches ? kLinkLength : 0;
  const auto count_for_probe = [&](int32_t further) {
    code.align(16, kBreakpoint);
    const Address begin = code.here();
    note(Caller::inside_call, 1);
    code.load(Reg::rcx, Reg::rsp, 0);
    code.load_sx32(Reg::rax, Reg::rcx, kCounterField + further);
    code.lea(Reg::rcx, Reg::rcx, kCounted + further);
    code.store(Reg::rsp, 0, Reg::rcx);
    note(Caller::returned_to, 1);
    code.jmp(entries.locked_count);
    return begin;
  };
  entries.count_for_probe = count_for_probe(after_switch);
  entries.count_for_probe_in_red_zone = count_for_probe(after_switch + kStepOverRedZone);
  code.align(16, kBreakpoint);
  entries.tells_of_tables = code.here();
  note(Caller::returned_to, 1);
  code.push(Reg::rbx);
  note(Caller::returned_to, 2, CodeRow::rbx_second);
  code.mov(Reg::rbx, Reg::rdx);
  code.lea(Reg::rdi, Reg::rdx, kTellingRecord);
  code.mov_imm32(Reg::rsi, kTellingRecordSize);
  code.load(Reg::rdx, Reg::rbx, kTellingArgument);
  code.call_memory(Reg::rbx, kTellingCallback);
  code.store(Reg::rbx, kTellingResult, Reg::rax);
  code.mov_imm32(Reg::rax, 1);
  code.pop(Reg::rbx);
  note(Caller::returned_to, 1);
  code.ret();
  code.align(16, kBreakpoint);
  note(Caller::nowhere, 0);
  return entries;
}

}  // namespace pinprick::arch
