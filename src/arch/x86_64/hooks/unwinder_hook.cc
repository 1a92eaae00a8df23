#include "arch/unwinder_hook.h"

#include <elf.h>
#include <link.h>

#include <cassert>
#include <cstddef>
#include <initializer_list>

#include "arch/unwind_tables.h"
#include "arch/x86_64/stub/arena.h"
#include "arch/x86_64/stub/displaced.h"
#include "layout/runtime_offsets.h"

namespace pinprick::arch {
namespace {

class HookCode {
 public:
  HookCode(Assembler& code, const UnwinderHook& spec, const Displaced& displaced)
      : code_(code), spec_(spec), displaced_(displaced) {
    if (!spec.slot_code.empty()) {
      for (size_t i = 0; i < spec.askers.size(); ++i) headers_.push_back(code.new_label());
      if (spec.at != UnwinderHook::At::unwinder) header_of_others_ = code.new_label();
    }
    stub_.begin = code.here();
  }

  Stub for_unwinder();
  Stub for_finder();
  Stub for_list();

 private:
  void words_are(int8_t words) { stub_.frames.note(code_.here(), 0, words); }
  // For where nothing else of ours is on the stack.
  void save(std::initializer_list<Reg> registers);
  void restore(std::initializer_list<Reg> registers);
  void search(Reg address);
  void is_asker(const Unwinder& asker, int8_t words);
  void choose_header(Reg to, int8_t words);
  void put_record(Assembler::Label name);
  void emit_displaced();
  enum class Entry : uint8_t { fde, header };
  void emit_thunks(const layout::UnwinderTable& functions, Entry entry, Assembler::Label name);
  void emit_headers();
  void emit_pointers();
  SlotFrames slots() const { return {spec_.slot_code, spec_.slots, PP_RECORD_SITE}; }

  Assembler& code_;
  const UnwinderHook& spec_;
  const Displaced& displaced_;
  Stub stub_;
  std::vector<Assembler::Label> headers_;  // of slots; one per asker
  std::optional<Assembler::Label> header_of_others_;
  std::optional<Assembler::Label> personality_, unwound_;
};

void HookCode::save(std::initializer_list<Reg> registers) {
  int8_t words = 0;
  words_are(words);
  for (Reg one : registers) {
    code_.push(one);
    words_are(++words);
  }
}

void HookCode::restore(std::initializer_list<Reg> registers) {
  auto words = static_cast<int8_t>(registers.size());
  words_are(words);
  for (Reg one : registers) {
    code_.pop(one);
    words_are(--words);
  }
}

// r11 = the last range that starts at or before the address in that register. Changes rcx.
void HookCode::search(Reg address) {
  const auto found = code_.new_label();
  const auto skip = code_.new_label();
  code_.mov_imm64(Reg::r11, spec_.ranges);
  code_.mov_imm32(Reg::rcx, spec_.range_count / 2 * sizeof(CoveredRange));
  const auto again = code_.bind_here();
  code_.cmp32_imm8(Reg::rcx, sizeof(CoveredRange));
  code_.jump_if(Condition::below, found);
  code_.cmp_indexed(Reg::r11, Reg::rcx, address);
  code_.jump_if(Condition::above, skip);
  code_.add(Reg::r11, Reg::rcx);
  code_.bind(skip);
  code_.halve32(Reg::rcx);
  code_.jmp_short(again);
  code_.bind(found);
}

// Sets `below` if the return address, at that many words up the stack, is in this unwinder. Changes
// rax and rcx.
void HookCode::is_asker(const Unwinder& asker, int8_t words) {
  code_.load(Reg::rax, Reg::rsp, words * 8);
  code_.mov_imm64(Reg::rcx, asker.code.begin);
  code_.sub(Reg::rax, Reg::rcx);
  code_.mov_imm64(Reg::rcx, asker.code.size());
  code_.cmp(Reg::rax, Reg::rcx);
}

// to = the header of the range that r11 points to. If the range is slots' code, it is the header
// for the unwinder whose return address is at that many words up the stack. Changes rax and rcx.
void HookCode::choose_header(Reg to, int8_t words) {
  static_assert(sizeof(RangeHeader) == 2 * sizeof(CoveredRange));
  const auto chosen = code_.new_label();
  const auto any = code_.new_label();
  if (header_of_others_) {
    const auto is_slots = code_.new_label();
    code_.mov_imm64(Reg::rax, spec_.slot_code.begin);
    code_.cmp_memory(Reg::r11, offsetof(CoveredRange, begin), Reg::rax);
    code_.jump_if(Condition::equal, is_slots);
    code_.jmp(any);
    code_.bind(is_slots);
  }
  for (size_t i = 0; i < headers_.size(); ++i) {
    const Unwinder& asker = spec_.askers[i];
    if (!asker.functions && !asker.is_libunwind) continue;
    const auto next = code_.new_label();
    is_asker(asker, words);
    code_.jump_if(Condition::above_or_equal, next);
    if (asker.functions) code_.lea(to, headers_[i]);
    code_.jmp(asker.functions ? chosen : any);
    code_.bind(next);
  }
  if (header_of_others_) {
    code_.lea(to, *header_of_others_);
    code_.jmp(chosen);
  }
  code_.bind(any);
  const Address headers = spec_.ranges + spec_.range_count * sizeof(CoveredRange);
  code_.mov_imm64(Reg::rax, headers - 2 * spec_.ranges);
  code_.lea_indexed(to, Reg::rax, Reg::r11, Scale::by_2);
  code_.bind(chosen);
}

void HookCode::emit_displaced() {
  arch::emit_displaced(code_, displaced_, stub_);
  stub_.frames.note(code_.here(), StubRow::kNowhere, 0);
}

// Emits for one unwinder: the personality that its tables of slots name, the landing to which that
// makes it go, and these tables. `name` is bound to what the hook gives to the unwinder.
void HookCode::emit_thunks(const layout::UnwinderTable& functions, Entry entry,
                           Assembler::Label name) {
  if (!personality_) {
    personality_ = code_.new_label();
    unwound_ = code_.new_label();
  }
  const auto table = code_.new_label();
  const Address personality = code_.here();
  code_.lea(Reg::r9, table);
  code_.jmp_memory(*personality_);
  const Address landing = code_.here();
  code_.lea(Reg::r11, table);
  code_.jmp_memory(*unwound_);
  code_.align(8, kBreakpoint);
  code_.bind(table);
  for (uint64_t function :
       {functions.get_ip, functions.set_gr, functions.set_ip, functions.resume, uint64_t{landing}})
    code_.u64(function);
  code_.bind_at(name, entry == Entry::header
                          ? emit_slot_header(code_, slots(), personality)
                          : emit_slot_unwind_table(code_, slots(), personality).fde);
}

// Headers of slots: for each asker, and for all others.
void HookCode::emit_headers() {
  for (size_t i = 0; i < headers_.size(); ++i)
    if (const auto& functions = spec_.askers[i].functions)
      emit_thunks(*functions, Entry::header, headers_[i]);
  if (header_of_others_) code_.bind_at(*header_of_others_, emit_slot_header(code_, slots(), 0));
}

void HookCode::emit_pointers() {
  if (!personality_) return;
  code_.align(8, kBreakpoint);
  code_.bind(*personality_);
  code_.u64(spec_.personality);
  code_.bind(*unwound_);
  code_.u64(spec_.unwound);
}

//     push r11
//     goto slot if pc lies in slots' code
//     push rcx
//     r11 = the last range of the tables that starts at or before pc; goto other if it ends there
//     bases = {0, 0, start of the range}; rax = FDE
//     pop rcx, r11; ret
//     slot:  the same of the hook's own table; pop r11; ret
//     other: pop rcx, r11
//     copy:  displaced instructions, jump back
//     personality: r9 = table; jmp pp_personality
//     landing: r11 = table; jmp pp_unwound
//     table; CIE, FDE, end; pointers
//
// If the unwinder's functions are not known, only CIE, FDE and end are emitted. Flags, rax, rcx and
// r11 are free at a function's entry. All but rax are preserved nevertheless, for callers that rely
// on what this function clobbers.
Stub HookCode::for_unwinder() {
  const auto fde = code_.new_label();
  const auto slot = code_.new_label();
  const auto other = code_.new_label();
  save({Reg::r11});
  code_.mov(Reg::rax, Reg::rdi);
  code_.mov_imm64(Reg::r11, spec_.slot_code.begin);
  code_.sub(Reg::rax, Reg::r11);
  code_.mov_imm64(Reg::r11, spec_.slot_code.size());
  code_.cmp(Reg::rax, Reg::r11);
  code_.jump_if(Condition::below, slot);
  code_.push(Reg::rcx);
  words_are(2);
  search(Reg::rdi);
  code_.mov(Reg::rax, Reg::rdi);
  code_.sub(Reg::rax, Reg::r11, offsetof(CoveredRange, begin));
  code_.cmp(Reg::rax, Reg::r11, offsetof(CoveredRange, size));
  code_.jump_if(Condition::above_or_equal, other);
  code_.mov_imm32(Reg::rax, 0);
  code_.store(Reg::rsi, 0, Reg::rax);
  code_.store(Reg::rsi, 8, Reg::rax);
  code_.load(Reg::rax, Reg::r11, 0);
  code_.store(Reg::rsi, 16, Reg::rax);
  choose_header(Reg::r11, 2);
  code_.load(Reg::rax, Reg::r11, offsetof(RangeHeader, entry));
  restore({Reg::rcx, Reg::r11});
  code_.ret();
  code_.bind(slot);
  words_are(1);
  code_.mov_imm32(Reg::rax, 0);
  code_.store(Reg::rsi, 0, Reg::rax);
  code_.store(Reg::rsi, 8, Reg::rax);
  code_.mov_imm64(Reg::rax, spec_.slot_code.begin);
  code_.store(Reg::rsi, 16, Reg::rax);
  code_.lea(Reg::rax, fde);
  restore({Reg::r11});
  code_.ret();
  code_.bind(other);
  restore({Reg::rcx, Reg::r11});
  emit_displaced();
  if (spec_.functions)
    emit_thunks(*spec_.functions, Entry::fde, fde);
  else
    code_.bind_at(fde, emit_slot_unwind_table(code_, slots(), 0).fde);
  emit_pointers();
  stub_.end = code_.here();
  return stub_;
}

//     push r11, rcx
//     r11 = the last range of the tables that starts at or before pc; goto other if it ends there
//     *result = {0, start and end of the range, 0, header}; rax = 0
//     pop rcx, r11; ret
//     other: pop rcx, r11
//     copy:  displaced instructions, jump back
//     for each asker: personality, landing, table; header, CIE, FDE, end
//     for others: header, CIE, FDE, end
//     pointers
Stub HookCode::for_finder() {
  const auto other = code_.new_label();
  save({Reg::r11, Reg::rcx});
  search(Reg::rdi);
  code_.mov(Reg::rax, Reg::rdi);
  code_.sub(Reg::rax, Reg::r11, offsetof(CoveredRange, begin));
  code_.cmp(Reg::rax, Reg::r11, offsetof(CoveredRange, size));
  const auto found = code_.new_label();
  code_.jump_if(Condition::below, found);
  code_.jmp(other);
  code_.bind(found);
  code_.mov_imm32(Reg::rax, 0);
  code_.store(Reg::rsi, 0, Reg::rax);
  code_.store(Reg::rsi, 24, Reg::rax);
  code_.load(Reg::rax, Reg::r11, 0);
  code_.store(Reg::rsi, 8, Reg::rax);
  code_.add(Reg::rax, Reg::r11, offsetof(CoveredRange, size));
  code_.store(Reg::rsi, 16, Reg::rax);
  choose_header(Reg::r11, 2);
  code_.store(Reg::rsi, 32, Reg::r11);
  code_.mov_imm32(Reg::rax, 0);
  restore({Reg::rcx, Reg::r11});
  code_.ret();
  code_.bind(other);
  restore({Reg::rcx, Reg::r11});
  emit_displaced();
  emit_headers();
  emit_pointers();
  stub_.end = code_.here();
  return stub_;
}

// An argument within this distance above the stack pointer points to our stack.
constexpr int32_t kNearStack = 65536;

// The hook's stack frame while it calls, from rsp up.
constexpr int32_t kSegments = kTellingRecord + static_cast<int32_t>(sizeof(dl_phdr_info));
constexpr int32_t kSegmentSize = sizeof(Elf64_Phdr);
constexpr int32_t kFrame = kSegments + 3 * kSegmentSize;
constexpr int8_t kSaved = 3;  // words
static_assert(kFrame % 16 == 0 && kSaved % 2 == 1, "the stack is aligned where it calls");
static_assert(kTellingRecordSize == offsetof(dl_phdr_info, dlpi_adds));

// Fills in a record of an object, for the range that r11 points to, whose header is at rdx. Its
// segments are the range; from the header to the start of the entry, since nongnu's libunwind looks
// for entries in segments only; and the header.
void HookCode::put_record(Assembler::Label name) {
  const auto put = [&](int32_t at, Reg value) { code_.store(Reg::rsp, at, value); };
  const auto put_number = [&](int32_t at, uint64_t value) {
    code_.mov_imm64(Reg::rax, value);
    put(at, Reg::rax);
  };
  const auto segment = [&](int i, uint32_t type, uint32_t flags) {
    const int32_t at = kSegments + i * kSegmentSize;
    put_number(at, type | uint64_t{flags} << 32);
    // rax = 0 from here on
    code_.mov_imm32(Reg::rax, 0);
    put(at + static_cast<int32_t>(offsetof(Elf64_Phdr, p_offset)), Reg::rax);
    put(at + static_cast<int32_t>(offsetof(Elf64_Phdr, p_align)), Reg::rax);
  };
  const auto place = [&](int i, Reg begin, Reg size) {
    const int32_t at = kSegments + i * kSegmentSize;
    put(at + static_cast<int32_t>(offsetof(Elf64_Phdr, p_vaddr)), begin);
    put(at + static_cast<int32_t>(offsetof(Elf64_Phdr, p_paddr)), begin);
    put(at + static_cast<int32_t>(offsetof(Elf64_Phdr, p_filesz)), size);
    put(at + static_cast<int32_t>(offsetof(Elf64_Phdr, p_memsz)), size);
  };
  const auto field = [](size_t offset) { return kTellingRecord + static_cast<int32_t>(offset); };
  segment(0, PT_LOAD, PF_R | PF_X);
  segment(1, PT_LOAD, PF_R);
  segment(2, PT_GNU_EH_FRAME, PF_R);
  put(kTellingResult, Reg::rax);
  put(field(offsetof(dl_phdr_info, dlpi_addr)), Reg::rax);
  put(field(offsetof(dl_phdr_info, dlpi_subs)), Reg::rax);
  put(field(offsetof(dl_phdr_info, dlpi_tls_modid)), Reg::rax);
  put(field(offsetof(dl_phdr_info, dlpi_tls_data)), Reg::rax);
  put_number(field(offsetof(dl_phdr_info, dlpi_adds)), spec_.changes);
  put_number(field(offsetof(dl_phdr_info, dlpi_phnum)), 3);
  code_.lea(Reg::rax, name);
  put(field(offsetof(dl_phdr_info, dlpi_name)), Reg::rax);
  code_.lea(Reg::rax, Reg::rsp, kSegments);
  put(field(offsetof(dl_phdr_info, dlpi_phdr)), Reg::rax);
  code_.load(Reg::rax, Reg::r11, offsetof(CoveredRange, begin));
  code_.load(Reg::rcx, Reg::r11, offsetof(CoveredRange, size));
  place(0, Reg::rax, Reg::rcx);
  code_.load(Reg::rcx, Reg::rdx, offsetof(RangeHeader, entry_distance));
  code_.lea(Reg::rcx, Reg::rcx, 1);
  place(1, Reg::rdx, Reg::rcx);
  code_.mov_imm32(Reg::rcx, sizeof(RangeHeader));
  place(2, Reg::rdx, Reg::rcx);
}

//     push r11, rcx, rdx
//     goto other unless the argument points to our stack
//     goto look if an asker calls
//     goto other unless three words of what it points to are on one page
//     look: for each of the three:
//         r11 = the last range of the tables that starts at or before it
//         goto found if it does not end there
//     other: pop rdx, rcx, r11; goto copy
//     found: rdx = header
//            record = an object with this range and this header, on the stack
//            rax = copy(callback, argument)
//            if it is 0: copy(tells_of_tables, &record); rax = what the callback returned for it
//            pop; ret
//     copy:  displaced instructions, jump back
//     for each asker: personality, landing, table; header, CIE, FDE, end
//     for others: header, CIE, FDE, end
//     pointers
//
// An unwinder passes as argument what it looks for, with the address among the first words, and
// ends the list where it finds it. All other callers get the loader's list unchanged. For an
// unwinder that is not known, no more is read than can be read for any object that an argument
// points to: up to the end of its page.
//
// The record is passed from within the loader's function, since unwinders rely on its lock. Our
// address that is left on the stack is overwritten with 0: detach searches stacks for such
// addresses.
Stub HookCode::for_list() {
  constexpr uint8_t kWords = 24;
  const auto look = code_.new_label();
  const auto other = code_.new_label();
  const auto found = code_.new_label();
  const auto copy = code_.new_label();
  const auto name = code_.new_label();
  const auto done = code_.new_label();
  save({Reg::r11, Reg::rcx, Reg::rdx});
  code_.mov(Reg::rcx, Reg::rsi);
  code_.sub(Reg::rcx, Reg::rsp);
  code_.cmp_imm32(Reg::rcx, kNearStack);
  const auto is_near = code_.new_label();
  code_.jump_if(Condition::below, is_near);
  code_.jmp(other);
  code_.bind(is_near);
  for (const Unwinder& asker : spec_.askers) {
    const auto next = code_.new_label();
    is_asker(asker, kSaved);
    code_.jump_if(Condition::above_or_equal, next);
    code_.jmp(look);
    code_.bind(next);
  }
  code_.mov(Reg::rax, Reg::rsi);
  code_.and32_imm32(Reg::rax, kPageSize - 1);
  code_.cmp32_imm32(Reg::rax, kPageSize - kWords);
  code_.jump_if(Condition::above, other);
  code_.bind(look);
  code_.mov(Reg::rdx, Reg::rsi);
  const auto next = code_.bind_here();
  code_.load(Reg::rax, Reg::rdx, 0);
  search(Reg::rax);
  code_.sub(Reg::rax, Reg::r11, offsetof(CoveredRange, begin));
  code_.cmp(Reg::rax, Reg::r11, offsetof(CoveredRange, size));
  code_.jump_if(Condition::below, found);
  code_.lea(Reg::rdx, Reg::rdx, 8);
  code_.lea(Reg::rax, Reg::rsi, kWords);
  code_.cmp(Reg::rdx, Reg::rax);
  code_.jump_if(Condition::below, next);
  code_.bind(other);
  restore({Reg::rdx, Reg::rcx, Reg::r11});
  code_.jmp(copy);

  code_.bind(found);
  words_are(kSaved);
  choose_header(Reg::rdx, kSaved);
  code_.lea(Reg::rsp, Reg::rsp, -kFrame);
  words_are(kSaved + kFrame / 8);
  code_.store(Reg::rsp, kTellingCallback, Reg::rdi);
  code_.store(Reg::rsp, kTellingArgument, Reg::rsi);
  put_record(name);
  code_.call(copy);
  code_.test32(Reg::rax);
  code_.jump_if(Condition::not_equal, done);
  code_.lea(Reg::rdi, spec_.tells_of_tables);
  code_.mov(Reg::rsi, Reg::rsp);
  code_.call(copy);
  code_.load(Reg::rax, Reg::rsp, kTellingResult);
  code_.bind(done);
  code_.store_imm32(Reg::rsp, -8, 0);
  code_.lea(Reg::rsp, Reg::rsp, kFrame);
  restore({Reg::rdx, Reg::rcx, Reg::r11});
  code_.ret();
  code_.bind(copy);
  emit_displaced();
  emit_headers();
  emit_pointers();
  code_.bind(name);
  code_.string("[pinprick]");
  stub_.end = code_.here();
  return stub_;
}

}  // namespace

Stub emit_unwinder_hook(Assembler& code, const UnwinderHook& spec, const Displaced& displaced) {
  HookCode hook(code, spec, displaced);
  if (spec.at == UnwinderHook::At::unwinder) return hook.for_unwinder();
  return spec.at == UnwinderHook::At::object_list ? hook.for_list() : hook.for_finder();
}

}  // namespace pinprick::arch
