#include "arch/x86_64/unwinder_hook.h"

#include <elf.h>
#include <link.h>

#include <cassert>
#include <cstddef>
#include <initializer_list>

#include "arch/x86_64/unwind_tables.h"
#include "layout/runtime_offsets.h"

namespace pinprick::arch {
namespace {

constexpr uint8_t kCompareEcxWithRange[] = {0x83, 0xf9, sizeof(CoveredRange)};
constexpr uint8_t kAddR11Rcx[] = {0x49, 0x01, 0xcb};          // add %rcx,%r11
constexpr uint8_t kHalveEcx[] = {0xd1, 0xe9};                 // shr $1,%ecx
constexpr uint8_t kSubBegin[] = {0x49, 0x2b, 0x03};           // sub (%r11),%rax
constexpr uint8_t kCompareSize[] = {0x49, 0x3b, 0x43, 0x08};  // cmp 8(%r11),%rax
constexpr uint8_t kAddSize[] = {0x49, 0x03, 0x43, 0x08};      // add 8(%r11),%rax
constexpr uint8_t kSubRaxR11[] = {0x4c, 0x29, 0xd8};
constexpr uint8_t kCompareRaxR11[] = {0x4c, 0x39, 0xd8};
constexpr uint8_t kSubRaxRcx[] = {0x48, 0x29, 0xc8};
constexpr uint8_t kCompareRaxRcx[] = {0x48, 0x39, 0xc8};
constexpr uint8_t kSubRcxRsp[] = {0x48, 0x29, 0xe1};
constexpr uint8_t kCompareRdxRax[] = {0x48, 0x39, 0xc2};
constexpr uint8_t kTestEax[] = {0x85, 0xc0};
constexpr uint8_t kJumpIfBelow = 0x72, kJumpIfAboveOrEqual = 0x73, kJumpIfEqual = 0x74,
                  kJumpIfNotEqual = 0x75, kJumpIfAbove = 0x77;

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
  // Where nothing else of ours is on the stack.
  void save(std::initializer_list<Reg> registers);
  void restore(std::initializer_list<Reg> registers);
  void jump_if(uint8_t condition, Assembler::Label to) {
    code_.u8(condition);
    code_.relative8(to);
  }
  void search(const uint8_t (&compare)[4]);
  void is_asker(const Unwinder& asker, int8_t words);
  void choose_header(Reg to, int8_t words);
  void put_record(Assembler::Label name);
  void emit_displaced();
  void emit_thunks(const layout::UnwinderTable& functions, Assembler::Label fde_or_header,
                   bool has_header);
  void emit_headers();
  void emit_pointers();
  SlotFrames slots() const { return {spec_.slot_code, spec_.slots, PP_RECORD_SITE}; }

  Assembler& code_;
  const UnwinderHook& spec_;
  const Displaced& displaced_;
  Stub stub_;
  std::vector<Assembler::Label> headers_;  // of slots, for each asker
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

// r11 = the last range that begins at or before what `compare` compares with (%r11,%rcx).
void HookCode::search(const uint8_t (&compare)[4]) {
  const auto found = code_.new_label();
  const auto skip = code_.new_label();
  code_.mov_imm64(Reg::r11, spec_.ranges);
  code_.mov_imm32(Reg::rcx, spec_.range_count / 2 * sizeof(CoveredRange));
  const auto again = code_.bind_here();
  code_.raw(kCompareEcxWithRange);
  jump_if(kJumpIfBelow, found);
  code_.raw(compare);
  jump_if(kJumpIfAbove, skip);
  code_.raw(kAddR11Rcx);
  code_.bind(skip);
  code_.raw(kHalveEcx);
  code_.jmp_short(again);
  code_.bind(found);
}

// Below: the return address, behind so many words of the stack, is in this unwinder. Changes rax
// and rcx.
void HookCode::is_asker(const Unwinder& asker, int8_t words) {
  code_.load(Reg::rax, Reg::rsp, words * 8);
  code_.mov_imm64(Reg::rcx, asker.code.begin);
  code_.raw(kSubRaxRcx);
  code_.mov_imm64(Reg::rcx, asker.code.size());
  code_.raw(kCompareRaxRcx);
}

// The header of the range that r11 points to; of slots that for the unwinder whose return address
// is behind so many words of the stack. Changes rax and rcx.
void HookCode::choose_header(Reg to, int8_t words) {
  constexpr uint8_t kCompareBegin[] = {0x49, 0x39, 0x03};   // cmp %rax,(%r11)
  constexpr uint8_t kIntoR11[] = {0x4e, 0x8d, 0x1c, 0x58};  // lea (%rax,%r11,2),%r11
  constexpr uint8_t kIntoRdx[] = {0x4a, 0x8d, 0x14, 0x58};  // lea (%rax,%r11,2),%rdx
  static_assert(sizeof(RangeHeader) == 2 * sizeof(CoveredRange));
  assert(to == Reg::r11 || to == Reg::rdx);
  const auto chosen = code_.new_label();
  const auto any = code_.new_label();
  if (header_of_others_) {
    const auto is_slots = code_.new_label();
    code_.mov_imm64(Reg::rax, spec_.slot_code.begin);
    code_.raw(kCompareBegin);
    jump_if(kJumpIfEqual, is_slots);
    code_.jmp(any);
    code_.bind(is_slots);
  }
  for (size_t i = 0; i < headers_.size(); ++i) {
    const Unwinder& asker = spec_.askers[i];
    if (!asker.functions && !asker.is_libunwind) continue;
    const auto next = code_.new_label();
    is_asker(asker, words);
    jump_if(kJumpIfAboveOrEqual, next);
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
  code_.raw(to == Reg::r11 ? kIntoR11 : kIntoRdx);
  code_.bind(chosen);
}

void HookCode::emit_displaced() {
  arch::emit_displaced(code_, displaced_, stub_);
  stub_.frames.note(code_.here(), StubRow::kNowhere, 0);
}

// For one unwinder: what its tables of slots name as the personality, where that lets it land, and
// these tables.
void HookCode::emit_thunks(const layout::UnwinderTable& functions, Assembler::Label fde_or_header,
                           bool has_header) {
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
  code_.align(8, 0xcc);
  code_.bind(table);
  for (uint64_t function :
       {functions.get_ip, functions.set_gr, functions.set_ip, functions.resume, uint64_t{landing}})
    code_.u64(function);
  code_.bind_at(fde_or_header, has_header
                                   ? emit_slot_header(code_, slots(), personality)
                                   : emit_slot_unwind_table(code_, slots(), personality).fde);
}

// Of slots: for each asker, and for all others.
void HookCode::emit_headers() {
  for (size_t i = 0; i < headers_.size(); ++i)
    if (const auto& functions = spec_.askers[i].functions)
      emit_thunks(*functions, headers_[i], true);
  if (header_of_others_) code_.bind_at(*header_of_others_, emit_slot_header(code_, slots(), 0));
}

void HookCode::emit_pointers() {
  if (!personality_) return;
  code_.align(8, 0xcc);
  code_.bind(*personality_);
  code_.u64(spec_.personality);
  code_.bind(*unwound_);
  code_.u64(spec_.unwound);
}

constexpr uint8_t kComparePc[] = {0x49, 0x39, 0x3c, 0x0b};  // cmp %rdi,(%r11,%rcx)

//     push r11
//     goto slot if pc lies in slots' code
//     push rcx
//     r11 = the last range of the tables that begins at or before pc; goto other if it ends there
//     bases = {0, 0, begin of the range}; rax = FDE
//     pop rcx, r11; ret
//     slot:  the same of the hook's own table; pop r11; ret
//     other: pop rcx, r11
//     body:  displaced instructions, jump back
//     personality: r9 = table; jmp pp_personality
//     landing: r11 = table; jmp pp_unwound
//     table; CIE, FDE, end; pointers
//
// Without the unwinder's functions there are but CIE, FDE, and end. Flags, rax, rcx and r11 are
// free where a function begins; the registers but rax are kept all the same, for callers that know
// this one well.
Stub HookCode::for_unwinder() {
  const auto fde = code_.new_label();
  const auto slot = code_.new_label();
  const auto other = code_.new_label();
  save({Reg::r11});
  code_.mov(Reg::rax, Reg::rdi);
  code_.mov_imm64(Reg::r11, spec_.slot_code.begin);
  code_.raw(kSubRaxR11);
  code_.mov_imm64(Reg::r11, spec_.slot_code.size());
  code_.raw(kCompareRaxR11);
  jump_if(kJumpIfBelow, slot);
  code_.push(Reg::rcx);
  words_are(2);
  search(kComparePc);
  code_.mov(Reg::rax, Reg::rdi);
  code_.raw(kSubBegin);
  code_.raw(kCompareSize);
  jump_if(kJumpIfAboveOrEqual, other);
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
    emit_thunks(*spec_.functions, fde, false);
  else
    code_.bind_at(fde, emit_slot_unwind_table(code_, slots(), 0).fde);
  emit_pointers();
  stub_.end = code_.here();
  return stub_;
}

//     push r11, rcx
//     r11 = the last range of the tables that begins at or before pc; goto other if it ends there
//     *result = {0, begin and end of the range, 0, header}; rax = 0
//     pop rcx, r11; ret
//     other: pop rcx, r11
//     body:  displaced instructions, jump back
//     for each asker: personality, landing, table; header, CIE, FDE, end
//     for others: header, CIE, FDE, end
//     pointers
Stub HookCode::for_finder() {
  const auto other = code_.new_label();
  save({Reg::r11, Reg::rcx});
  search(kComparePc);
  code_.mov(Reg::rax, Reg::rdi);
  code_.raw(kSubBegin);
  code_.raw(kCompareSize);
  const auto found = code_.new_label();
  jump_if(kJumpIfBelow, found);
  code_.jmp(other);
  code_.bind(found);
  code_.mov_imm32(Reg::rax, 0);
  code_.store(Reg::rsi, 0, Reg::rax);
  code_.store(Reg::rsi, 24, Reg::rax);
  code_.load(Reg::rax, Reg::r11, 0);
  code_.store(Reg::rsi, 8, Reg::rax);
  code_.raw(kAddSize);
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

// What the hook has on the stack while it calls, from rsp up.
constexpr int32_t kSegments = kTellingRecord + static_cast<int32_t>(sizeof(dl_phdr_info));
constexpr int32_t kSegmentSize = sizeof(Elf64_Phdr);
constexpr int32_t kFrame = kSegments + 3 * kSegmentSize;
constexpr int8_t kSaved = 3;  // words
static_assert(kFrame % 16 == 0 && kSaved % 2 == 1, "the stack is aligned where it calls");
static_assert(kTellingRecordSize == offsetof(dl_phdr_info, dlpi_adds));

// A record of an object, for the range that r11 points to, whose header is at rdx. Its segments:
// the range; from the header to the begin of the entry, as nongnu's libunwind looks for entries in
// segments only; the header.
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
  put(kTellingAnswer, Reg::rax);
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
//         r11 = the last range of the tables that begins at or before it
//         goto found if it does not end there
//     other: pop rdx, rcx, r11; goto body
//     found: rdx = header
//            record = an object with this range and this header, on the stack
//            rax = body(callback, argument)
//            if it is 0: body(tells_of_tables, &record); rax = what the callback answered to that
//            pop; ret
//     body:  displaced instructions, jump back
//     for each asker: personality, landing, table; header, CIE, FDE, end
//     for others: header, CIE, FDE, end
//     pointers
//
// Unwinders keep what they look for in such an argument, the address among its first words, and end
// the list where they find it. Everybody else gets the list, and no other. Of an unwinder that is
// not known no more is looked at than is there for any object that an argument points to: a page of
// it, at least.
//
// The record is shown from within the loader's function, since unwinders rely on its lock. What is
// left on the stack of our addresses is made 0: who detaches looks for it.
Stub HookCode::for_list() {
  constexpr uint8_t kCompareRcxWithNear[] = {0x48, 0x81, 0xf9, 0, 0, 1, 0};  // cmp $65536,%rcx
  constexpr uint8_t kAndPage[] = {0x25, 0xff, 0x0f, 0, 0};                   // and $4095,%eax
  constexpr uint8_t kWords = 24;
  constexpr uint8_t kComparePage[] = {0x3d, 0x00 - kWords + 256, 0x0f, 0, 0};  // cmp $4072,%eax
  constexpr uint8_t kCompareRax[] = {0x49, 0x39, 0x04, 0x0b};  // cmp %rax,(%r11,%rcx)
  constexpr uint8_t kForgetReturn[] = {0x48, 0xc7, 0x44, 0x24, 0xf8,
                                       0,    0,    0,    0};  // movq $0,-8(%rsp)
  const auto look = code_.new_label();
  const auto other = code_.new_label();
  const auto found = code_.new_label();
  const auto body = code_.new_label();
  const auto name = code_.new_label();
  const auto done = code_.new_label();
  save({Reg::r11, Reg::rcx, Reg::rdx});
  code_.mov(Reg::rcx, Reg::rsi);
  code_.raw(kSubRcxRsp);
  code_.raw(kCompareRcxWithNear);
  const auto is_near = code_.new_label();
  jump_if(kJumpIfBelow, is_near);
  code_.jmp(other);
  code_.bind(is_near);
  for (const Unwinder& asker : spec_.askers) {
    const auto next = code_.new_label();
    is_asker(asker, kSaved);
    jump_if(kJumpIfAboveOrEqual, next);
    code_.jmp(look);
    code_.bind(next);
  }
  code_.mov(Reg::rax, Reg::rsi);
  code_.raw(kAndPage);
  code_.raw(kComparePage);
  jump_if(kJumpIfAbove, other);
  code_.bind(look);
  code_.mov(Reg::rdx, Reg::rsi);
  const auto next = code_.bind_here();
  code_.load(Reg::rax, Reg::rdx, 0);
  search(kCompareRax);
  code_.raw(kSubBegin);
  code_.raw(kCompareSize);
  jump_if(kJumpIfBelow, found);
  code_.lea(Reg::rdx, Reg::rdx, 8);
  code_.lea(Reg::rax, Reg::rsi, kWords);
  code_.raw(kCompareRdxRax);
  jump_if(kJumpIfBelow, next);
  code_.bind(other);
  restore({Reg::rdx, Reg::rcx, Reg::r11});
  code_.jmp(body);

  code_.bind(found);
  words_are(kSaved);
  choose_header(Reg::rdx, kSaved);
  code_.lea(Reg::rsp, Reg::rsp, -kFrame);
  words_are(kSaved + kFrame / 8);
  code_.store(Reg::rsp, kTellingCallback, Reg::rdi);
  code_.store(Reg::rsp, kTellingArgument, Reg::rsi);
  put_record(name);
  code_.call(body);
  code_.raw(kTestEax);
  jump_if(kJumpIfNotEqual, done);
  code_.lea(Reg::rdi, spec_.tells_of_tables);
  code_.mov(Reg::rsi, Reg::rsp);
  code_.call(body);
  code_.load(Reg::rax, Reg::rsp, kTellingAnswer);
  code_.bind(done);
  code_.raw(kForgetReturn);
  code_.lea(Reg::rsp, Reg::rsp, kFrame);
  restore({Reg::rdx, Reg::rcx, Reg::r11});
  code_.ret();
  code_.bind(body);
  emit_displaced();
  emit_headers();
  emit_pointers();
  code_.bind(name);
  for (char c : {'[', 'p', 'i', 'n', 'p', 'r', 'i', 'c', 'k', ']', '\0'})
    code_.u8(static_cast<uint8_t>(c));
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
