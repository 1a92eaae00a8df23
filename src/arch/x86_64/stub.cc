#include "arch/x86_64/stub.h"

#include <cassert>
#include <cstddef>
#include <cstring>

#include "arch/x86_64/relocate.h"
#include "layout/runtime_offsets.h"

namespace pinprick::arch {
namespace {

constexpr int32_t kRedZone = 128;

static_assert(kRseqSignature == PP_RSEQ_SIGNATURE);

// Displaced instructions at their new place. Answers where the program goes on behind them; nothing
// where it does not.
std::optional<Address> emit_copies(Assembler& code, Displaced displaced, Address site, Stub& stub) {
  constexpr size_t kUsual = 4;
  if (stub.copies.empty()) stub.copies.reserve(kUsual);
  bool falls_through = true;
  while (!displaced.bytes.empty()) {
    const auto instruction = decode(displaced.bytes, displaced.address);
    assert(instruction && instruction->length <= displaced.bytes.size());
    if (stub.copies.empty()) stub.body = code.here();
    const auto offset = static_cast<uint8_t>(displaced.address - site);
    stub.copies.push_back({offset, static_cast<uint32_t>(code.here() - stub.body)});
    stub.frames.note(code.here(), offset, 0, instruction->length);
    std::vector<Between> between;
    relocate(code, displaced.bytes, *instruction, &between);
    for (const Between& one : between) {
      if (one.is_done)
        stub.frames.note(one.at, static_cast<uint8_t>(offset + instruction->length), one.words);
      else
        stub.frames.note(one.at, offset, one.words, instruction->length);
    }
    // A call comes back to the original code, behind it.
    falls_through = instruction->falls_through() && !instruction->is_call();
    displaced = {instruction->end(), displaced.bytes.subspan(instruction->length)};
  }
  return falls_through ? std::optional(displaced.address) : std::nullopt;
}

// The way on, if there is one. Unwinders find the site by it, so that where there is none only the
// distance stands there.
void emit_way_on(Assembler& code, const Displaced& displaced, std::optional<Address> on,
                 Stub& stub) {
  const Address behind = displaced.address + displaced.bytes.size();
  stub.frames.displaced = static_cast<uint8_t>(displaced.bytes.size());
  stub.frames.note(code.here(), on ? stub.frames.displaced : StubRow::kNowhere, 0);
  if (on)
    code.jmp(behind);
  else
    code.relative32(behind);
  stub.frames.continuation = code.here() - sizeof(int32_t);
}

Displaced part(const Displaced& whole, size_t from, size_t to) {
  return {whole.address + from, whole.bytes.subspan(from, to - from)};
}

struct CountLabels {
  Assembler::Label descriptor, again, begin, end, locked;
};

// A probe's code: offsets from where it begins, when it does not keep the red zone; and how much
// further they are when it does.
constexpr int32_t kCellField = 48;  // the counter's offset in a CPU's cells, 32 bits
constexpr int32_t kCounted = 62;    // behind the counting
constexpr int32_t kStepOverRedZone = 5;

// reg = the stripe of the thread that runs on this stack. Changes flags.
void emit_stripe(Assembler& code, Reg reg) {
  code.mov(reg, Reg::rsp);
  code.shift_right(reg, 16);
  code.multiply32(reg, 0x9e3779b1);
  code.shift_right(reg, 32 - PP_LOCKED_STRIPES_LOG2);
}

}  // namespace

void emit_displaced(Assembler& code, const Displaced& displaced, Stub& stub, size_t from) {
  const auto rest = part(displaced, from, displaced.bytes.size());
  std::optional<Address> on = rest.address;
  if (!rest.bytes.empty()) on = emit_copies(code, rest, displaced.address, stub);
  emit_way_on(code, displaced, on, stub);
}

std::optional<std::vector<Copy>> copies_of(const Displaced& displaced, Address body) {
  Assembler code(body);
  Stub stub;
  emit_displaced(code, displaced, stub);
  if (!code.finish()) return std::nullopt;
  return stub.copies;
}

Range tables_in_arena(uint64_t cpus) {
  const uint64_t words = layout::kLockedStripes + layout::kUnregisteredEntries + cpus;
  return {kPageSize, kPageSize + align_up(words * sizeof(uint64_t), kPageSize)};
}

ArenaEntries emit_arena_header(Assembler& code, const ArenaSpec& spec) {
  constexpr uint8_t kCallRbxMemory[] = {0xff, 0x13};  // call *(%rbx)
  static_assert(kTellingCallback == 0);
  ArenaEntries entries;
  code.u64(kArenaMagic);
  code.u64(spec.size);
  entries.enter_pointer = code.here();
  code.u64(spec.enter);
  code.u64(spec.unwind_tables);
  code.align(spec.tables_apart ? kPageSize : 64, 0);
  const auto locked_table = code.bind_here();
  for (Address cells : spec.locked_cells) code.u64(cells);
  for (uint32_t i = 0; i < layout::kUnregisteredEntries; ++i) code.u64(0);
  entries.cpu_table = code.here();
  for (Address cells : spec.cpu_cells) code.u64(cells);

  // locked_count: [stripe(rsp) + rax] += 1, flags kept. Threads are spread by their stacks.
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
  code.add_al(127);  // sets the overflow flag if seto had found it set
  code.sahf();
  code.pop(Reg::rdx);
  note(Caller::returned_to, 1);
  code.ret();

  for (const bool keeps_red_zone : {false, true}) {
    code.align(16, kBreakpoint);
    entries.count_for_probe[keeps_red_zone] = code.here();
    const int32_t further = keeps_red_zone ? kStepOverRedZone : 0;
    note(Caller::inside_call, 1);
    code.load(Reg::rcx, Reg::rsp, 0);
    code.load_sx32(Reg::rax, Reg::rcx, kCellField + further);
    code.lea(Reg::rcx, Reg::rcx, kCounted + further);
    code.store(Reg::rsp, 0, Reg::rcx);
    note(Caller::returned_to, 1);
    code.jmp(entries.locked_count);
  }
  code.align(16, kBreakpoint);
  entries.tells_of_tables = code.here();
  note(Caller::returned_to, 1);
  code.push(Reg::rbx);
  note(Caller::returned_to, 2, CodeRow::rbx_second);
  code.mov(Reg::rbx, Reg::rdx);
  code.lea(Reg::rdi, Reg::rdx, kTellingRecord);
  code.mov_imm32(Reg::rsi, kTellingRecordSize);
  code.load(Reg::rdx, Reg::rbx, kTellingArgument);
  code.raw(kCallRbxMemory);
  code.store(Reg::rbx, kTellingAnswer, Reg::rax);
  code.mov_imm32(Reg::rax, 1);
  code.pop(Reg::rbx);
  note(Caller::returned_to, 1);
  code.ret();
  code.align(16, kBreakpoint);
  note(Caller::nowhere, 0);
  return entries;
}

namespace {

// Words that lie on the stack while a probe counts.
int8_t counting_words(const CountPoint& point) {
  return (point.keep_red_zone ? kRedZone / 8 : 0) + 2;
}

CountLabels emit_out_of_line(Assembler& code, const ArenaEntries& arena, const CountPoint& point,
                             Stub& stub) {
  CountLabels labels;
  labels.again = code.new_label();
  labels.begin = code.new_label();
  labels.end = code.new_label();
  labels.descriptor = code.bind_here();
  code.u64(uint64_t{0});  // version and flags
  code.u64(labels.begin);
  code.distance(labels.begin, labels.end);
  code.u64(labels.again);
  labels.locked = code.bind_here();
  stub.frames.note(code.here(), point.offset, counting_words(point));
  code.call(arena.count_for_probe[point.keep_red_zone]);
  return labels;
}

void emit_sequence(Assembler& code, const ArenaEntries& arena, RseqArea rseq,
                   const CountPoint& point, const CountLabels& labels, Stub& stub) {
  const int32_t area = rseq.thread_pointer_offset;
  [[maybe_unused]] const Address start =
      code.here() - 2 - (point.keep_red_zone ? kStepOverRedZone : 0);
  code.mov_imm32(Reg::rax, PP_RSEQ_SIGNATURE);
  code.bind(labels.again);
  code.lea(Reg::rax, labels.descriptor);
  code.store_fs(area + PP_RSEQ_CS, Reg::rax);
  code.bind(labels.begin);
  code.load_fs_sx32(Reg::rcx, area + PP_RSEQ_CPU_ID);
  code.lea(Reg::rax, arena.cpu_table);
  code.load_indexed8(Reg::rcx, Reg::rax, Reg::rcx);
  code.jrcxz(labels.locked);
  code.lea_wide(Reg::rcx, Reg::rcx, static_cast<int32_t>(point.cell));
  assert(code.here() - 4 - start == kCellField + (point.keep_red_zone ? kStepOverRedZone : 0));
  code.load(Reg::rax, Reg::rcx, 0);
  code.lea(Reg::rax, Reg::rax, 1);
  code.store(Reg::rcx, 0, Reg::rax);
  code.bind(labels.end);
  assert(code.here() - start == kCounted + (point.keep_red_zone ? kStepOverRedZone : 0));
  code.push_imm(0);
  stub.frames.note(code.here(), point.offset, counting_words(point) + 1);
  code.pop_fs(area + PP_RSEQ_CS);
  stub.frames.note(code.here(), point.offset, counting_words(point));
}

void emit_counting(Assembler& code, const ArenaEntries& arena, const std::optional<RseqArea>& rseq,
                   const CountPoint& point, const CountLabels& labels, Stub& stub) {
  const int8_t words = counting_words(point);
  const auto note = [&](int8_t below) { stub.frames.note(code.here(), point.offset, below); };
  note(0);
  if (point.keep_red_zone) code.lea(Reg::rsp, Reg::rsp, -kRedZone);
  note(static_cast<int8_t>(words - 2));
  code.push(Reg::rax);
  note(static_cast<int8_t>(words - 1));
  code.push(Reg::rcx);
  note(words);
  if (rseq) {
    emit_sequence(code, arena, *rseq, point, labels, stub);
  } else {
    code.mov_imm32(Reg::rax, point.cell);
    code.call(arena.locked_count);
  }
  code.pop(Reg::rcx);
  note(static_cast<int8_t>(words - 1));
  code.pop(Reg::rax);
  note(static_cast<int8_t>(words - 2));
  if (point.keep_red_zone) code.lea(Reg::rsp, Reg::rsp, kRedZone);
  note(0);
}

// [stripe(rsp) + cell] += 1, in r12, r13 and the flags.
void emit_counting_without_stack(Assembler& code, const ArenaEntries& arena,
                                 const CountPoint& point) {
  constexpr uint64_t kStripesBefore = layout::kLockedStripes + layout::kUnregisteredEntries;
  const auto nowhere = code.new_label();
  emit_stripe(code, Reg::r13);
  code.lea(Reg::r12, arena.cpu_table - kStripesBefore * sizeof(uint64_t));
  code.load_indexed8(Reg::r12, Reg::r12, Reg::r13);
  code.test(Reg::r12);
  code.jz(nowhere);
  code.locked_increment(Reg::r12, static_cast<int32_t>(point.cell));
  code.bind(nowhere);
}

}  // namespace

//     descriptor:  struct rseq_cs {begin, end, abort = again}
//     locked:      call count_for_probe            comes back to `counted`
//   stub:
//                  push rax, rcx                   below the red zone, in the middle of a function
//                  rax = signature                 the kernel wants it right before `again`
//     again:       rseq.rseq_cs = &descriptor
//     begin:       rcx = cells of this CPU; if 0 goto locked
//                  [rcx + cell] = [rcx + cell] + 1
//     end:                                         the store before it is the one that takes effect
//     counted:     rseq.rseq_cs = 0
//                  pop rcx, rax
//                  displaced instructions, jump back
//
// Between begin and end the kernel sends a thread that it interrupts to `again`. A sequence that is
// over is forgotten: the kernel looks at what the area names even when its memory is another
// thread's already, and the stub gone. No instruction on this path touches a flag. With several
// probes, what is out of line for the second and later ones is jumped over: jrcxz does not reach
// far.
Stub emit_count_stub(Assembler& code, const ArenaEntries& arena, std::optional<RseqArea> rseq,
                     std::span<const CountPoint> points, const Displaced& displaced) {
  Stub stub;
  if (!points.empty() && points.front().at_stack_check) {
    stub.begin = code.here();
    stub.frames.note(code.here(), 0, 0);
    emit_counting_without_stack(code, arena, points.front());
    emit_displaced(code, displaced, stub);
    stub.end = code.here();
    return stub;
  }
  const size_t unprobed = points.empty() ? displaced.bytes.size() : points.front().offset;
  const bool counts_first = unprobed == 0;
  CountLabels labels;
  if (counts_first && rseq) labels = emit_out_of_line(code, arena, points.front(), stub);
  stub.begin = code.here();
  auto on = emit_copies(code, part(displaced, 0, unprobed), displaced.address, stub);
  for (size_t i = 0; i < points.size(); ++i) {
    if (rseq && (i != 0 || !counts_first)) {
      const auto over = code.new_label();
      stub.frames.note(code.here(), points[i].offset, 0);
      code.jmp_short(over);
      labels = emit_out_of_line(code, arena, points[i], stub);
      code.bind(over);
    }
    emit_counting(code, arena, rseq, points[i], labels, stub);
    const size_t end = i + 1 == points.size() ? displaced.bytes.size() : points[i + 1].offset;
    on = emit_copies(code, part(displaced, points[i].offset, end), displaced.address, stub);
  }
  emit_way_on(code, displaced, on, stub);
  stub.end = code.here();
  return stub;
}

namespace {

void emit_probe_record(Assembler& code, Assembler::Label label, Assembler::Label body,
                       const ReturnStub& spec, Address site) {
  code.bind(label);
  code.u64(body);
  code.u64(spec.histogram);
  code.u64(spec.missed);
  code.u64(spec.unwound);
  code.u64(spec.lost);
  code.u64(site);
  code.u64(spec.from_generated);
}

}  // namespace

//     push rax
//     rax = &record
//     jmp enter               -> the slot's code -> body
//     body: displaced instructions, jump back
//     record: body, histogram, missed, unwound, lost, site, from_generated
Stub emit_return_stub(Assembler& code, const ArenaEntries& arena, const ReturnStub& spec,
                      const Displaced& displaced) {
  const auto record = code.new_label();
  const auto body = code.new_label();

  Stub stub;
  stub.begin = code.here();
  stub.frames.note(code.here(), 0, 0);
  code.push(Reg::rax);
  stub.frames.note(code.here(), 0, 1);
  code.lea(Reg::rax, record);
  code.jmp_memory(arena.enter_pointer);
  code.bind(body);
  emit_displaced(code, displaced, stub);
  code.align(8, kBreakpoint);
  emit_probe_record(code, record, body, spec, displaced.address);
  stub.end = code.here();
  return stub;
}

namespace {

// Calls the runtime, and tells it what this is about. rsp is what it was, less the red zone.
void emit_hit(Assembler& code, bool keep_red_zone, Assembler::Label hit, Assembler::Label record,
              size_t offset, Stub& stub) {
  const auto note = [&](int32_t bytes) {
    stub.frames.note(code.here(), static_cast<uint8_t>(offset), static_cast<int8_t>(bytes / 8));
  };
  note(0);
  if (keep_red_zone) code.lea(Reg::rsp, Reg::rsp, -kRedZone);
  note(keep_red_zone ? kRedZone : 0);
  code.call_memory(hit);
  code.nop(record);
  if (keep_red_zone) code.lea(Reg::rsp, Reg::rsp, kRedZone);
  note(0);
}

void emit_record(Assembler& code, Assembler::Label label, Address address, uint64_t point,
                 Assembler::Label resume, Assembler::Label body) {
  code.bind(label);
  code.u64(address);
  code.u64(point);
  code.u64(resume);
  code.u64(body);
}

}  // namespace

//     [counting, as in emit_count_stub]
//     [rsp -= red zone]
//     call *hit
//     nop record                   found by the runtime behind its return address
//     [rsp += red zone]
//     [rsp += 8; jump *[rsp - 24]  where calls may be measured: to a slot's code, or to `resume`
//      resume: rsp -= 8]
//     body:  [push rax; rax = &timed record; jmp *enter      -> another slot's code -> timed body]
//     timed body: first displaced instruction
//     [rsp -= red zone; call *hit; nop second record; rsp += red zone]
//     the other displaced instructions, jump back
//     pointers, records
//
// The runtime leaves where a call goes on in the second word below the stack pointer that it
// returns with; data there survives signals, and so does the return address in the first.
Stub emit_handler_stub(Assembler& code, const ArenaEntries& arena, std::optional<RseqArea> rseq,
                       const HandlerStub& spec, const Displaced& displaced) {
  assert(!((spec.measures || spec.enter != 0) && spec.keep_red_zone));
  const auto hit = code.new_label();
  const auto hit_behind = code.new_label();
  const auto before = code.new_label();
  const auto behind = code.new_label();
  const auto resume = code.new_label();
  const auto body = code.new_label();
  const auto enter = code.new_label();
  const auto timed = code.new_label();
  const auto timed_body = code.new_label();
  const CountPoint count = {0, spec.cell.value_or(0), spec.keep_red_zone};
  CountLabels labels;
  Stub stub;
  if (spec.cell && rseq) labels = emit_out_of_line(code, arena, count, stub);
  stub.begin = code.here();
  if (spec.cell) emit_counting(code, arena, rseq, count, labels, stub);
  if (spec.before != 0) {
    emit_hit(code, spec.keep_red_zone, hit, before, 0, stub);
    if (spec.measures) {
      code.lea(Reg::rsp, Reg::rsp, 8);
      stub.frames.note(code.here(), 0, -1);
      constexpr uint8_t kJumpBelowStack[] = {0xff, 0x64, 0x24, 0xe8};  // jmp *-24(%rsp)
      code.raw(kJumpBelowStack);
      code.bind(resume);
      code.lea(Reg::rsp, Reg::rsp, -8);
    } else {
      code.bind(resume);
    }
  }
  code.bind(body);
  if (spec.enter != 0) {
    stub.frames.note(code.here(), 0, 0);
    code.push(Reg::rax);
    stub.frames.note(code.here(), 0, 1);
    code.lea(Reg::rax, timed);
    code.jmp_memory(enter);
    code.bind(timed_body);
  }
  size_t first = 0;
  if (spec.behind != 0) {
    first = decode(displaced.bytes, displaced.address)->length;
    emit_copies(code, part(displaced, 0, first), displaced.address, stub);
    emit_hit(code, true, hit_behind, behind, first, stub);
  }
  emit_displaced(code, displaced, stub, first);
  code.align(8, kBreakpoint);
  if (spec.before != 0) {
    code.bind(hit);
    code.u64(spec.hit);
    emit_record(code, before, displaced.address, spec.before, resume, body);
  }
  if (spec.behind != 0) {
    code.bind(hit_behind);
    code.u64(spec.hit_behind);
    emit_record(code, behind, displaced.address + first, spec.behind, body, body);
  }
  if (spec.enter != 0) {
    code.bind(enter);
    code.u64(spec.enter);
    emit_probe_record(code, timed, timed_body, spec.timed, displaced.address);
  }
  stub.end = code.here();
  return stub;
}

Stub emit_routine_hook(Assembler& code, std::span<const uint8_t> routine, Address argument,
                       const Displaced& displaced) {
  const Address entry = code.here();
  code.raw(routine);
  Stub stub;
  stub.begin = code.here();
  stub.frames.note(entry, StubRow::kNowhere, 0);
  stub.frames.note(code.here(), 0, 0);
  code.push(Reg::rdi);
  stub.frames.note(code.here(), 0, 1);
  code.mov_imm64(Reg::rdi, argument);
  code.call(entry);
  code.pop(Reg::rdi);
  emit_displaced(code, displaced, stub);
  stub.end = code.here();
  return stub;
}

void emit_slot_code(Assembler& code, Address slots, uint64_t count, Address leave) {
  for (uint64_t i = 0; i < count; ++i) {
    const Address slot = slots + i * sizeof(layout::Slot);
    const Address begin = code.here();
    code.call_memory(slot + PP_SLOT_BODY);
    assert(code.here() == begin + kSlotReturn);
    code.push_memory(slot + PP_SLOT_RETURN_ADDRESS);
    assert(code.here() == begin + kSlotLeaves);
    code.push(Reg::rax);
    code.lea(Reg::rax, slot);
    code.jmp(leave);
    while (code.here() < begin + kSlotCodeSize) code.u8(kBreakpoint);
    assert(code.here() == begin + kSlotCodeSize);
  }
}

}  // namespace pinprick::arch
