#include "arch/x86_64/stub.h"

#include <cassert>
#include <cstring>

#include "arch/x86_64/relocate.h"
#include "layout/runtime_offsets.h"

namespace pinprick::arch {
namespace {

constexpr int32_t kRedZone = 128;
constexpr uint8_t kInt3 = 0xcc;

static_assert(kRseqSignature == PP_RSEQ_SIGNATURE);

// The displaced instructions at their new place, and the way back.
void emit_displaced(Assembler& code, const Displaced& displaced, Stub& stub) {
  stub.body = code.here();
  std::span<const uint8_t> rest = displaced.bytes;
  Address address = displaced.address;
  bool falls_through = true;
  while (!rest.empty()) {
    const auto instruction = decode(rest, address);
    assert(instruction && instruction->length <= rest.size());
    stub.copies.push_back({static_cast<uint8_t>(address - displaced.address),
                           static_cast<uint32_t>(code.here() - stub.body)});
    relocate(code, rest, *instruction);
    // A call comes back to the original code, behind it.
    falls_through = instruction->falls_through() && !instruction->is_call();
    rest = rest.subspan(instruction->length);
    address = instruction->end();
  }
  if (falls_through) code.jmp(address);
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

ArenaEntries emit_arena_header(Assembler& code, const ArenaSpec& spec) {
  ArenaEntries entries;
  code.u64(kArenaMagic);
  code.u64(spec.size);
  entries.enter_pointer = code.here();
  code.u64(spec.enter);
  code.align(64, 0);
  const auto locked_table = code.bind_here();
  for (Address cells : spec.locked_cells) code.u64(cells);
  for (uint32_t i = 0; i < layout::kUnregisteredEntries; ++i) code.u64(0);
  entries.cpu_table = code.here();
  for (Address cells : spec.cpu_cells) code.u64(cells);

  // locked_count: [stripe(rsp) + rax] += 1, flags kept. Threads are spread by their stacks.
  code.align(16, kInt3);
  entries.locked_count = code.here();
  code.push(Reg::rdx);
  code.mov(Reg::rdx, Reg::rax);
  code.lahf();
  code.seto_al();
  code.push(Reg::rbx);
  code.mov(Reg::rcx, Reg::rsp);
  code.shift_right(Reg::rcx, 16);
  code.multiply32(Reg::rcx, 0x9e3779b1);
  code.shift_right(Reg::rcx, 32 - PP_LOCKED_STRIPES_LOG2);
  code.lea(Reg::rbx, locked_table);
  code.load_indexed8(Reg::rcx, Reg::rbx, Reg::rcx);
  code.lea_indexed(Reg::rcx, Reg::rcx, Reg::rdx);
  code.locked_increment(Reg::rcx, 0);
  code.pop(Reg::rbx);
  code.add_al(127);  // sets the overflow flag if seto had found it set
  code.sahf();
  code.pop(Reg::rdx);
  code.ret();
  code.align(16, kInt3);
  return entries;
}

//     descriptor:  struct rseq_cs {begin, end, abort}
//                  signature
//     abort:       jmp again
//     locked:      locked_count(cell); jmp counted
//   stub:
//                  push rax, rcx                   below the red zone, in the middle of a function
//     again:       rseq.rseq_cs = &descriptor
//     begin:       rcx = cells of this CPU; if 0 goto locked
//                  [rcx + cell] = [rcx + cell] + 1
//     end:                                         the store before it is the one that takes effect
//     counted:     pop rcx, rax
//                  displaced instructions, jump back
//
// Between begin and end the kernel sends a thread that it interrupts to `abort`, which starts
// again. No instruction on this path touches a flag.
Stub emit_count_stub(Assembler& code, const ArenaEntries& arena, const CountStub& spec,
                     const Displaced& displaced) {
  const auto cell = static_cast<int32_t>(spec.cell);
  const auto again = code.new_label();
  const auto counted = code.new_label();
  const auto locked = code.new_label();
  Assembler::Label descriptor, begin, end, abort;
  if (spec.rseq) {
    begin = code.new_label();
    end = code.new_label();
    abort = code.new_label();
    descriptor = code.bind_here();
    code.u64(uint64_t{0});  // version and flags
    code.u64(begin);
    code.distance(begin, end);
    code.u64(abort);
    code.u32(PP_RSEQ_SIGNATURE);
    code.bind(abort);
    code.jmp_short(again);
    code.bind(locked);
    code.mov_imm32(Reg::rax, spec.cell);
    code.call(arena.locked_count);
    code.jmp_short(counted);
  }

  Stub stub;
  stub.begin = code.here();
  if (spec.keep_red_zone) code.lea(Reg::rsp, Reg::rsp, -kRedZone);
  code.push(Reg::rax);
  code.push(Reg::rcx);
  code.bind(again);
  if (spec.rseq) {
    const int32_t rseq = spec.rseq->thread_pointer_offset;
    code.lea(Reg::rax, descriptor);
    code.store_fs(rseq + PP_RSEQ_CS, Reg::rax);
    code.bind(begin);
    code.load_fs_sx32(Reg::rcx, rseq + PP_RSEQ_CPU_ID);
    code.lea(Reg::rax, arena.cpu_table);
    code.load_indexed8(Reg::rcx, Reg::rax, Reg::rcx);
    code.jrcxz(locked);
    code.load(Reg::rax, Reg::rcx, cell);
    code.lea(Reg::rax, Reg::rax, 1);
    code.store(Reg::rcx, cell, Reg::rax);
    code.bind(end);
  } else {
    code.bind(locked);
    code.mov_imm32(Reg::rax, spec.cell);
    code.call(arena.locked_count);
  }
  code.bind(counted);
  code.pop(Reg::rcx);
  code.pop(Reg::rax);
  if (spec.keep_red_zone) code.lea(Reg::rsp, Reg::rsp, kRedZone);
  emit_displaced(code, displaced, stub);
  stub.end = code.here();
  return stub;
}

//     push rax
//     rax = &record
//     jmp enter               -> the slot's code -> body
//     body: displaced instructions, jump back
//     record: body, histogram, missed
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
  code.bind(record);
  code.u64(body);
  code.u64(spec.histogram);
  code.u64(spec.missed);
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
