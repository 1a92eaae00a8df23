#include "arch/x86_64/stub/displaced.h"

#include <cassert>
#include <vector>

#include "arch/code.h"
#include "arch/jump.h"
#include "arch/relocate.h"

namespace pinprick::arch {

void emit_link(Assembler& code, Address to, uint8_t length, Stub& stub) {
  stub.frames.note(code.here(), 0, 0, length);
  if (to != 0) {
    code.jmp(to);  // settle() says whether it is within reach
    return;
  }
  code.raw(*encode_link(code.here(), 0));
}

std::optional<Address> emit_copies(Assembler& code, const Displaced& displaced, size_t from,
                                   size_t to, Stub& stub) {
  constexpr size_t kUsual = 4;
  if (stub.copies.empty()) stub.copies.reserve(kUsual);
  bool falls_through = true;
  while (from < to) {
    const auto bytes = displaced.bytes.subspan(from, to - from);
    const auto instruction = decode(bytes, displaced.address + from);
    assert(instruction && instruction->length <= bytes.size());
    if (stub.copies.empty()) {
      if (displaced.link) emit_link(code, *displaced.link, instruction->length, stub);
      stub.copy = code.here();
    }
    const auto offset = static_cast<uint8_t>(from);
    stub.copies.push_back({offset, static_cast<uint32_t>(code.here() - stub.copy)});
    stub.frames.note(code.here(), offset, 0, instruction->length);
    // A nop needs no copy: a thread before it and one after it are at the same address.
    if (instruction->special == Special::nop) {
      from += instruction->length;
      continue;
    }
    std::vector<Between> between;
    relocate(code, bytes, *instruction, &between);
    for (const Between& one : between) {
      if (one.original == Between::Original::over)
        stub.frames.note(one.at, static_cast<uint8_t>(offset + instruction->length), one.words);
      else
        stub.frames.note(one.at, offset, one.words, instruction->length);
    }
    // A call returns to the original code, after it.
    falls_through = instruction->falls_through() && !instruction->is_call();
    from += instruction->length;
  }
  return falls_through ? std::optional(displaced.address + to) : std::nullopt;
}

void emit_continuation(Assembler& code, const Displaced& displaced, std::optional<Address> next,
                       Stub& stub) {
  const Address after = displaced.address + displaced.bytes.size();
  stub.frames.displaced = static_cast<uint8_t>(displaced.bytes.size());
  stub.frames.note(code.here(), next ? stub.frames.displaced : StubRow::kNowhere, 0);
  if (next)
    code.jmp(after);
  else
    code.relative32(after);
  stub.frames.continuation = code.here() - sizeof(int32_t);
}

void emit_displaced(Assembler& code, const Displaced& displaced, Stub& stub, size_t from) {
  emit_continuation(code, displaced,
                    emit_copies(code, displaced, from, displaced.bytes.size(), stub), stub);
}

std::optional<std::vector<Copy>> copies_of(const Displaced& displaced, Address start) {
  Assembler code(start);
  Stub stub;
  emit_displaced(code, displaced, stub);
  if (!code.finish()) return std::nullopt;
  return stub.copies;
}

}  // namespace pinprick::arch
