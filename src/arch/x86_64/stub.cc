#include "arch/x86_64/stub.h"

#include <cassert>
#include <cstring>
#include <string_view>

#include "arch/x86_64/relocate.h"
#include "layout/runtime_offsets.h"

namespace pinprick::arch {
namespace {

constexpr int32_t kRedZone = 128;
constexpr uint8_t kInt3 = 0xcc;

static_assert(kRseqSignature == PP_RSEQ_SIGNATURE);

// Displaced instructions at their new place. Answers where the program goes on behind them; nothing
// where it does not.
std::optional<Address> emit_copies(Assembler& code, Displaced displaced, Address site, Stub& stub) {
  bool falls_through = true;
  while (!displaced.bytes.empty()) {
    const auto instruction = decode(displaced.bytes, displaced.address);
    assert(instruction && instruction->length <= displaced.bytes.size());
    if (stub.copies.empty()) stub.body = code.here();
    stub.copies.push_back({static_cast<uint8_t>(displaced.address - site),
                           static_cast<uint32_t>(code.here() - stub.body)});
    relocate(code, displaced.bytes, *instruction);
    // A call comes back to the original code, behind it.
    falls_through = instruction->falls_through() && !instruction->is_call();
    displaced = {instruction->end(), displaced.bytes.subspan(instruction->length)};
  }
  return falls_through ? std::optional(displaced.address) : std::nullopt;
}

void emit_displaced(Assembler& code, const Displaced& displaced, Stub& stub) {
  if (const auto on = emit_copies(code, displaced, displaced.address, stub)) code.jmp(*on);
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

std::optional<std::vector<Copy>> copies_of(const Displaced& displaced, Address body) {
  Assembler code(body);
  Stub stub;
  emit_displaced(code, displaced, stub);
  if (!code.finish()) return std::nullopt;
  return stub.copies;
}

Address jump_target(Address site, std::span<const uint8_t> written) {
  int32_t distance = 0;
  std::memcpy(&distance, written.data() + 1, sizeof distance);
  return site + kJumpLength + static_cast<uint64_t>(static_cast<int64_t>(distance));
}

Range tables_in_arena(uint64_t cpus) {
  const uint64_t words = layout::kLockedStripes + layout::kUnregisteredEntries + cpus;
  return {kPageSize, kPageSize + align_up(words * sizeof(uint64_t), kPageSize)};
}

ArenaEntries emit_arena_header(Assembler& code, const ArenaSpec& spec) {
  ArenaEntries entries;
  code.u64(kArenaMagic);
  code.u64(spec.size);
  entries.enter_pointer = code.here();
  code.u64(spec.enter);
  code.align(spec.tables_apart ? kPageSize : 64, 0);
  const auto locked_table = code.bind_here();
  for (Address cells : spec.locked_cells) code.u64(cells);
  for (uint32_t i = 0; i < layout::kUnregisteredEntries; ++i) code.u64(0);
  entries.cpu_table = code.here();
  for (Address cells : spec.cpu_cells) code.u64(cells);

  // locked_count: [stripe(rsp) + rax] += 1, flags kept. Threads are spread by their stacks.
  code.align(spec.tables_apart ? kPageSize : 16, kInt3);
  const auto nowhere = code.new_label();
  entries.locked_count = code.here();
  code.push(Reg::rdx);
  code.mov(Reg::rdx, Reg::rax);
  code.lahf();
  code.seto_al();
  code.push(Reg::rbx);
  emit_stripe(code, Reg::rcx);
  code.lea(Reg::rbx, locked_table);
  code.load_indexed8(Reg::rcx, Reg::rbx, Reg::rcx);
  code.jrcxz(nowhere);
  code.lea_indexed(Reg::rcx, Reg::rcx, Reg::rdx);
  code.locked_increment(Reg::rcx, 0);
  code.bind(nowhere);
  code.pop(Reg::rbx);
  code.add_al(127);  // sets the overflow flag if seto had found it set
  code.sahf();
  code.pop(Reg::rdx);
  code.ret();

  for (const bool keeps_red_zone : {false, true}) {
    code.align(16, kInt3);
    entries.count_for_probe[keeps_red_zone] = code.here();
    const int32_t further = keeps_red_zone ? kStepOverRedZone : 0;
    code.load(Reg::rcx, Reg::rsp, 0);
    code.load_sx32(Reg::rax, Reg::rcx, kCellField + further);
    code.lea(Reg::rcx, Reg::rcx, kCounted + further);
    code.store(Reg::rsp, 0, Reg::rcx);
    code.jmp(entries.locked_count);
  }
  code.align(16, kInt3);
  return entries;
}

namespace {

CountLabels emit_out_of_line(Assembler& code, const ArenaEntries& arena, const CountPoint& point) {
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
  code.call(arena.count_for_probe[point.keep_red_zone]);
  return labels;
}

void emit_sequence(Assembler& code, const ArenaEntries& arena, RseqArea rseq,
                   const CountPoint& point, const CountLabels& labels) {
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
  code.pop_fs(area + PP_RSEQ_CS);
}

void emit_counting(Assembler& code, const ArenaEntries& arena, const std::optional<RseqArea>& rseq,
                   const CountPoint& point, const CountLabels& labels) {
  if (point.keep_red_zone) code.lea(Reg::rsp, Reg::rsp, -kRedZone);
  code.push(Reg::rax);
  code.push(Reg::rcx);
  if (rseq) {
    emit_sequence(code, arena, *rseq, point, labels);
  } else {
    code.mov_imm32(Reg::rax, point.cell);
    code.call(arena.locked_count);
  }
  code.pop(Reg::rcx);
  code.pop(Reg::rax);
  if (point.keep_red_zone) code.lea(Reg::rsp, Reg::rsp, kRedZone);
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
    emit_counting_without_stack(code, arena, points.front());
    emit_displaced(code, displaced, stub);
    stub.end = code.here();
    return stub;
  }
  const size_t unprobed = points.empty() ? displaced.bytes.size() : points.front().offset;
  const bool counts_first = unprobed == 0;
  CountLabels labels;
  if (counts_first && rseq) labels = emit_out_of_line(code, arena, points.front());
  stub.begin = code.here();
  auto on = emit_copies(code, part(displaced, 0, unprobed), displaced.address, stub);
  for (size_t i = 0; i < points.size(); ++i) {
    if (rseq && (i != 0 || !counts_first)) {
      const auto over = code.new_label();
      code.jmp_short(over);
      labels = emit_out_of_line(code, arena, points[i]);
      code.bind(over);
    }
    emit_counting(code, arena, rseq, points[i], labels);
    const size_t end = i + 1 == points.size() ? displaced.bytes.size() : points[i + 1].offset;
    on = emit_copies(code, part(displaced, points[i].offset, end), displaced.address, stub);
  }
  if (on) code.jmp(*on);
  stub.end = code.here();
  return stub;
}

namespace {

void emit_probe_record(Assembler& code, Assembler::Label label, Assembler::Label body,
                       const ReturnStub& spec) {
  code.bind(label);
  code.u64(body);
  code.u64(spec.histogram);
  code.u64(spec.missed);
  code.u64(spec.unwound);
}

}  // namespace

//     push rax
//     rax = &record
//     jmp enter               -> the slot's code -> body
//     body: displaced instructions, jump back
//     record: body, histogram, missed, unwound
Stub emit_return_stub(Assembler& code, const ArenaEntries& arena, const ReturnStub& spec,
                      const Displaced& displaced) {
  const auto record = code.new_label();
  const auto body = code.new_label();

  Stub stub;
  stub.begin = code.here();
  code.push(Reg::rax);
  code.lea(Reg::rax, record);
  code.jmp_memory(arena.enter_pointer);
  code.bind(body);
  emit_displaced(code, displaced, stub);
  code.align(8, kInt3);
  emit_probe_record(code, record, body, spec);
  stub.end = code.here();
  return stub;
}

namespace {

// Calls the runtime, and tells it what this is about. rsp is what it was, less the red zone.
void emit_hit(Assembler& code, bool keep_red_zone, Assembler::Label hit, Assembler::Label record) {
  if (keep_red_zone) code.lea(Reg::rsp, Reg::rsp, -kRedZone);
  code.call_memory(hit);
  code.nop(record);
  if (keep_red_zone) code.lea(Reg::rsp, Reg::rsp, kRedZone);
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
  if (spec.cell && rseq) labels = emit_out_of_line(code, arena, count);

  Stub stub;
  stub.begin = code.here();
  if (spec.cell) emit_counting(code, arena, rseq, count, labels);
  if (spec.before != 0) {
    emit_hit(code, spec.keep_red_zone, hit, before);
    if (spec.measures) {
      code.lea(Reg::rsp, Reg::rsp, 8);
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
    code.push(Reg::rax);
    code.lea(Reg::rax, timed);
    code.jmp_memory(enter);
    code.bind(timed_body);
  }
  size_t first = 0;
  if (spec.behind != 0) {
    first = decode(displaced.bytes, displaced.address)->length;
    emit_copies(code, part(displaced, 0, first), displaced.address, stub);
    emit_hit(code, true, hit_behind, behind);
  }
  const auto rest = part(displaced, first, displaced.bytes.size());
  std::optional<Address> on = displaced.address + first;
  if (!rest.bytes.empty()) on = emit_copies(code, rest, displaced.address, stub);
  if (on) code.jmp(*on);
  code.align(8, kInt3);
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
    emit_probe_record(code, timed, timed_body, spec.timed);
  }
  stub.end = code.here();
  return stub;
}

namespace {

// DWARF, as far as a slot's frame needs it.
constexpr uint8_t kCfaDefinition = 0x0c, kCfaExpression = 0x10, kCfaNop = 0;
constexpr uint8_t kOpConst8u = 0x0e, kOpMinus = 0x1c, kOpPlus = 0x22, kOpShl = 0x24, kOpShr = 0x25,
                  kOpLiteral0 = 0x30, kOpRegister0 = 0x70;
constexpr uint8_t kStackPointer = 7, kReturnAddress = 16;
constexpr uint8_t kAbsolute = 0;  // encoding of pointers

// The length before what `fill` emits, and padding behind.
template <class F>
void emit_entry(Assembler& code, F&& fill) {
  Assembler inner(code.here() + 4);
  fill(inner);
  inner.align(8, kCfaNop);
  const auto bytes = inner.finish();
  code.u32(static_cast<uint32_t>(bytes->size()));
  code.raw(*bytes);
}

// The return address of the frame of a slot: at slots + size of a slot * index + its offset, where
// (address that its callee returns to - slot code) / size of a slot's code is the index.
std::vector<uint8_t> return_address_rule(const UnwinderHook& spec) {
  Assembler rule(0);
  rule.u8(kOpRegister0 + kReturnAddress);
  rule.u8(0);
  rule.u8(kOpConst8u);
  rule.u64(spec.slot_code.begin);
  rule.u8(kOpMinus);
  rule.u8(kOpLiteral0 + PP_SLOT_CODE_SIZE_LOG2);
  rule.u8(kOpShr);
  rule.u8(kOpLiteral0 + PP_SLOT_SIZE_LOG2);
  rule.u8(kOpShl);
  rule.u8(kOpConst8u);
  rule.u64(spec.slots + PP_SLOT_RETURN_ADDRESS);
  rule.u8(kOpPlus);
  return *rule.finish();
}

}  // namespace

UnwindTable emit_unwind_table(Assembler& code, const UnwinderHook& spec, Address personality) {
  const Address cie = code.here();
  emit_entry(code, [&](Assembler& at) {
    at.u32(0);  // a CIE
    at.u8(1);   // version
    const std::string_view letters = personality != 0 ? "zPR" : "zR";
    for (char c : letters) at.u8(static_cast<uint8_t>(c));
    at.u8(0);
    at.u8(1);     // alignment of code
    at.u8(0x78);  // of data: -8
    at.u8(kReturnAddress);
    // What the letters mean, behind its size.
    at.u8(personality != 0 ? 10 : 1);
    if (personality != 0) {
      at.u8(kAbsolute);
      at.u64(personality);
    }
    at.u8(kAbsolute);
    at.u8(kCfaDefinition);  // rsp, as behind the return
    at.u8(kStackPointer);
    at.u8(0);
    const auto rule = return_address_rule(spec);
    at.u8(kCfaExpression);
    at.u8(kReturnAddress);
    at.u8(static_cast<uint8_t>(rule.size()));
    at.raw(rule);
  });
  const Address fde = code.here();
  emit_entry(code, [&](Assembler& at) {
    at.u32(static_cast<uint32_t>(at.here() - cie));
    at.u64(spec.slot_code.begin);
    at.u64(spec.slot_code.size());
    at.u8(0);
  });
  code.u32(0);  // no more
  return {cie, fde};
}

namespace {

// How PT_GNU_EH_FRAME begins: version, how pointers are encoded, and where the table is. Not
// sorted.
void emit_unwind_header(Assembler& code, const UnwindTable& table) {
  constexpr uint8_t kOmitted = 0xff;
  for (uint8_t byte : {uint8_t{1}, kAbsolute, kOmitted, kOmitted}) code.u8(byte);
  code.u64(table.begin);
}

}  // namespace

//     push r11
//     rax = pc - slot code; if it is not below its size goto other
//     answer
//     pop r11; ret
//     other: pop r11
//     body:  displaced instructions, jump back
//     personality: r9 = table; jmp pp_personality      } in an unwinder
//     landing: r11 = table; jmp pp_unwound             }
//     table, pointers                                  }
//     CIE, FDE, end; in the loader their header
//
// The answer of an unwinder: bases = {0, 0, slot code}, rax = FDE. That of the loader: *result =
// {0, begin and end of the slot code, 0, header}, rax = 0.
//
// Flags, rax and r11 are free where a function begins; r11 is kept all the same, for callers that
// know this one well.
Stub emit_unwinder_hook(Assembler& code, const UnwinderHook& spec, const Displaced& displaced) {
  constexpr uint8_t kSubRaxR11[] = {0x4c, 0x29, 0xd8};
  constexpr uint8_t kCompareRaxR11[] = {0x4c, 0x39, 0xd8};
  constexpr uint8_t kJumpIfAboveOrEqual = 0x73;
  const auto table = code.new_label();
  const auto personality_pointer = code.new_label();
  const auto unwound_pointer = code.new_label();
  const auto answer = code.new_label();
  const auto other = code.new_label();
  const auto store = [&](int32_t offset, uint64_t value) {
    code.mov_imm64(Reg::rax, value);
    code.store(Reg::rsi, offset, Reg::rax);
  };

  Stub stub;
  stub.begin = code.here();
  code.push(Reg::r11);
  code.mov(Reg::rax, Reg::rdi);
  code.mov_imm64(Reg::r11, spec.slot_code.begin);
  code.raw(kSubRaxR11);
  code.mov_imm64(Reg::r11, spec.slot_code.size());
  code.raw(kCompareRaxR11);
  code.u8(kJumpIfAboveOrEqual);
  code.relative8(other);
  store(0, 0);
  if (spec.functions) {
    store(8, 0);
    store(16, spec.slot_code.begin);
    code.lea(Reg::rax, answer);
  } else {
    store(8, spec.slot_code.begin);
    store(16, spec.slot_code.end);
    store(24, 0);
    code.lea(Reg::rax, answer);
    code.store(Reg::rsi, 32, Reg::rax);
    code.mov_imm32(Reg::rax, 0);
  }
  code.pop(Reg::r11);
  code.ret();
  code.bind(other);
  code.pop(Reg::r11);
  emit_displaced(code, displaced, stub);

  // What stands before the answer has a length that no address changes.
  if (spec.functions) {
    const Address personality = code.here();
    code.lea(Reg::r9, table);
    code.jmp_memory(personality_pointer);
    const Address landing = code.here();
    code.lea(Reg::r11, table);
    code.jmp_memory(unwound_pointer);
    code.align(8, kInt3);
    code.bind(table);
    const layout::UnwinderTable& functions = *spec.functions;
    for (uint64_t function : {functions.get_ip, functions.set_gr, functions.set_ip,
                              functions.resume, uint64_t{landing}})
      code.u64(function);
    code.bind(personality_pointer);
    code.u64(spec.personality);
    code.bind(unwound_pointer);
    code.u64(spec.unwound);
    code.bind_at(answer, emit_unwind_table(code, spec, personality).fde);
  } else {
    code.align(8, kInt3);
    const UnwindTable unwind = emit_unwind_table(code, spec, 0);
    code.bind(answer);
    emit_unwind_header(code, unwind);
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
  code.push(Reg::rdi);
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
    code.push(Reg::rax);
    code.lea(Reg::rax, slot);
    code.jmp(leave);
    while (code.here() < begin + kSlotCodeSize) code.u8(kInt3);
    assert(code.here() == begin + kSlotCodeSize);
  }
}

}  // namespace pinprick::arch
