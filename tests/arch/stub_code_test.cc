// What stubs consist of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "arch/disassembler.h"
#include "arch/relocate.h"
#include "arch/stub_cases.h"
#include "image/process.h"
#include "layout/runtime_offsets.h"
#include "layout/session_file.h"
#include "library_path.h"

namespace pinprick::arch {
namespace {

constexpr Address kArena = 0x7f00'0000'0000;
constexpr Address kSite = kArena + 0x100000;

struct Emitted {
  Bytes bytes;
  ArenaEntries entries;
  Stub stub;
  uint64_t header_size = 0;

  std::span<const uint8_t> at(Address address) const {
    return std::span(bytes).subspan(address - kArena);
  }
  Address word(Address address) const {
    Address value = 0;
    for (unsigned i = 0; i < 8; ++i) value |= Address{at(address)[i]} << (8 * i);
    return value;
  }
};

const std::vector<Address> kCpuAreas = {0x10000, 0x20000, 0x30000};

ArenaSpec some_arena() {
  ArenaSpec spec;
  spec.size = 0x40000;
  spec.routines = {0x123456789a, 0x223456789a, 0x323456789a,
                   0x423456789a, 0x523456789a, 0x623456789a};
  for (uint32_t i = 0; i < layout::kLockedStripes; ++i) spec.locked_areas[i] = 0x1000 * (i + 1);
  spec.cpu_areas = kCpuAreas;
  return spec;
}

template <class Emit>
Emitted emitted(const Emit& emit) {
  Emitted result;
  Assembler code(kArena);
  result.entries = emit_arena_header(code, some_arena());
  result.header_size = code.size();
  result.stub = emit(code, result.entries);
  auto bytes = code.finish();
  EXPECT_TRUE(bytes);
  if (bytes) result.bytes = *std::move(bytes);
  return result;
}

Emitted emitted_count_stub(const Bytes& window, StackUse stack = StackUse::at_entry,
                           std::optional<RseqArea> rseq = RseqArea{-0x60}) {
  return emitted([&](Assembler& code, const ArenaEntries& entries) {
    // The offset of a counter as among thousands of probes.
    const StubAction counts = {.stack = stack, .what = CountHit{0x12340}};
    return emit_stub(code, entries, {.rseq = rseq, .actions = {&counts, 1}}, {kSite, window});
  });
}

TEST(Arena, StartsWithWhatItsStubsShare) {
  const Emitted arena = emitted([](Assembler&, const ArenaEntries&) { return Stub(); });
  EXPECT_EQ(Bytes(arena.bytes.begin(), arena.bytes.begin() + 8),
            (Bytes{'P', 'N', 'A', 'R', 'E', 'N', 'A', '1'}));
  EXPECT_EQ(arena.word(kArena + 8), 0x40000u);
  EXPECT_EQ(arena.word(arena.entries.pointers.time), 0x123456789au);
  EXPECT_EQ(arena.word(arena.entries.pointers.record), 0x223456789au);
  EXPECT_EQ(arena.word(arena.entries.pointers.pass), 0x323456789au);
  EXPECT_EQ(arena.word(arena.entries.pointers.key), 0x423456789au);
  EXPECT_EQ(arena.word(arena.entries.pointers.sum), 0x523456789au);
  EXPECT_EQ(arena.word(arena.entries.pointers.record_by_key), 0x623456789au);
  // Two words and fifteen pointers come first. The tables start at a cache line.
  constexpr Address kTables = kArena + 192;
  for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(arena.word(kTables + 8 * i), 0x1000u * (i + 1));
  // What a thread with cpu_id -2 or -1 reads, before the entry of CPU 0.
  EXPECT_EQ(arena.word(kTables + 64), 0u);
  EXPECT_EQ(arena.word(kTables + 72), 0u);
  EXPECT_EQ(arena.entries.cpu_table, kTables + 80);
  for (uint32_t cpu = 0; cpu < 3; ++cpu)
    EXPECT_EQ(arena.word(kTables + 80 + 8 * cpu), kCpuAreas[cpu]);
  EXPECT_GE(arena.entries.locked_count, kTables + 80 + 8 * 3);
  EXPECT_LT(arena.entries.locked_count, kArena + arena.header_size);
}

TEST(CountStub, OfATypicalWindowAtAnEntryHasAtMost128Bytes) {
  for (const Bytes& window : {Bytes{0x55, 0x48, 0x89, 0xe5, 0x41, 0x57},  // 6 bytes
                              Bytes{0x41, 0x57, 0x41, 0x56, 0x41, 0x55},  // 6 bytes
                              Bytes{0x48, 0x81, 0xec, 0x88, 0, 0, 0},     // 7 bytes
                              Bytes{0x48, 0x8d, 0x05, 0x10, 0, 0, 0}}) {  // 7 bytes
    const Emitted code = emitted_count_stub(window);
    EXPECT_LE(code.bytes.size() - code.header_size, 128u);
  }
}

TEST(CountStub, InTheMiddleOfAFunctionIsLittleLargerForTheRedZone) {
  const Bytes window = {0x48, 0x81, 0xec, 0x88, 0, 0, 0};  // sub $0x88,%rsp
  const Emitted inside = emitted_count_stub(window, StackUse::keep_red_zone);
  // The budget is an average of 128. A step over the red zone that preserves the flags takes 5
  // bytes, the step back 8.
  EXPECT_LE(inside.bytes.size() - inside.header_size, 128u + 8u);
}

// What is emitted for a window, with a probe on each of its instructions, or on none.
void expect_room_for(std::span<const uint8_t> window, Address site) {
  std::vector<StubAction> counts;
  for (size_t at = 0; at < window.size();) {
    counts.push_back({.offset = static_cast<uint8_t>(at),
                      .stack = StackUse::keep_red_zone,
                      .what = CountHit{0x12345678}});
    const auto instruction = decode(window.subspan(at), site + at);
    ASSERT_TRUE(instruction);
    at += instruction->length;
  }
  ArenaEntries entries;
  for (Address* entry :
       {&entries.cpu_table, &entries.locked_count, &entries.count_for_probe,
        &entries.count_for_probe_in_red_zone, &entries.pointers.time, &entries.pointers.record,
        &entries.pointers.pass, &entries.pointers.key, &entries.pointers.sum})
    *entry = align_up(site, 8);
  const Displaced displaced = {site, window};
  const auto size_of = [&](auto&& emit) {
    Assembler code(align_up(site, 8));
    emit(code);
    code.align(8, kBreakpoint);
    return code.size();
  };
  for (const bool uses_rseq : {false, true})
    for (const bool probed : {false, true}) {
      const auto some =
          probed ? std::span<const StubAction>(counts) : std::span<const StubAction>();
      const auto rseq = uses_rseq ? std::optional(RseqArea{-0x60}) : std::nullopt;
      EXPECT_LE(size_of([&](Assembler& code) {
                  emit_stub(code, entries, {.rseq = rseq, .actions = some}, displaced);
                }),
                most_stub_bytes(some.size(), window.size()));
    }
  const Metric metrics[3] = {};
  for (size_t n : {1, 2, 3}) {
    const StubAction times = {.what = TimeCall{.metrics = std::span(metrics).first(n)}};
    EXPECT_LE(size_of([&](Assembler& code) {
                emit_stub(code, entries, {.actions = {&times, 1}}, displaced);
              }),
              most_stub_bytes(n, window.size()));
  }
  for (const StackUse stack : {StackUse::at_entry, StackUse::keep_red_zone}) {
    const StubAction records = {
        .stack = stack,
        .what = RecordValue{.metric = {}, .value = Source{.register_number = 4, .bytes = 1}}};
    EXPECT_LE(size_of([&](Assembler& code) {
                emit_stub(code, entries, {.actions = {&records, 1}}, displaced);
              }),
              most_stub_bytes(1, window.size()));
    Source largest;
    largest.instead = Source::Memory{.displacement = 1};
    largest.is_floating_point = true;
    const StubAction reals = {.stack = stack, .what = RecordValue{{}, largest}};
    EXPECT_LE(size_of([&](Assembler& code) {
                emit_stub(code, entries, {.actions = {&reals, 1}}, displaced);
              }),
              most_stub_bytes(1, window.size()));
    const StubAction keyed = {.stack = stack,
                              .what = CountByKey{0, Source{.register_number = 4, .bytes = 1},
                                                 Source{.register_number = 4}}};
    EXPECT_LE(size_of([&](Assembler& code) {
                emit_stub(code, entries, {.actions = {&keyed, 1}}, displaced);
              }),
              most_stub_bytes(1, window.size()) + most_expression_bytes(Expression(Source{})));
    const Expression text(
        {{.source = {.register_number = 7}},
         {.source = {.register_number = 2}},
         {.operation = Operation::text_of_length, .tells_null = true, .left = 0, .right = 1}});
    Source of_thread = {.bytes = 4, .is_signed = true};
    of_thread.instead = Source::OfThread{0x7fff'0000'1000, 0};
    const StubAction tells = {.stack = stack,
                              .what = RecordEvent{1, {text, of_thread}, 1'000'000, 0x12345678}};
    EXPECT_LE(size_of([&](Assembler& code) {
                emit_stub(code, entries, {.actions = {&tells, 1}}, displaced);
              }),
              most_stub_bytes(1, window.size()) + most_event_value_bytes(text) +
                  most_event_value_bytes(of_thread) + kMostEveryBytes);
    const StubAction passes = {.stack = stack, .what = PassSpan{}};
    const StubAction several[] = {passes, passes, passes};
    EXPECT_LE(size_of([&](Assembler& code) {
                emit_stub(code, entries, {.actions = several}, displaced);
              }),
              most_stub_bytes(3, window.size()));
  }
}

TEST(StubSize, OfInstructionsThatGrowMostIsWithinTheBound) {
  const Bytes growing[] = {
      {0xe3, 0x00},       {0x67, 0xe3, 0x00},      {0xe2, 0x10}, {0x0f, 0x05}, {0x74, 0x10},
      {0x2e, 0x74, 0x10}, {0xc7, 0xf8, 0, 0, 0, 0}};
  const Bytes last[] = {{},
                        {0xeb, 0x10},
                        {0xff, 0xd0},
                        {0x41, 0xff, 0xd3},
                        {0xe8, 0, 0, 0, 0},
                        {0xff, 0x15, 0, 0, 0, 0},
                        {0xff, 0x54, 0x24, 0x7f},
                        {0x42, 0xff, 0x14, 0xe5, 0, 0, 0, 0}};
  for (const Bytes& one : growing)
    for (const Bytes& end : last)
      for (size_t count : {size_t{0}, size_t{1}, size_t{2}, 120 / one.size()}) {
        Bytes window;
        for (size_t i = 0; i < count; ++i) window.insert(window.end(), one.begin(), one.end());
        window.insert(window.end(), end.begin(), end.end());
        if (!window.empty()) expect_room_for(window, kSite);
      }
}

TEST(StubSize, OfAStackCheckIsWithinTheBound) {
  const Bytes check = {0x49, 0x3b, 0x66, 0x10, 0x76, 0x10};  // cmp 16(%r14), %rsp; jbe
  ArenaEntries entries;
  entries.cpu_table = kArena;
  const StubAction counts = {.stack = StackUse::none, .what = CountHit{0x12345678}};
  Assembler code(kSite);
  emit_stub(code, entries, {.rseq = RseqArea{}, .actions = {&counts, 1}}, {kSite, check});
  EXPECT_LE(code.size(), most_stub_bytes(1, check.size()));
}

TEST(StubSize, OfWindowsOfARealLibraryIsWithinTheBound) {
  const auto process = image::load_file(library_path("libc.so.6"));
  ASSERT_TRUE(process);
  image::Object& object = *process->objects[0];
  size_t functions = 0, windows = 0;
  for (const image::Function& function : object.functions().functions()) {
    auto code = object.code(function);
    code = code.first(std::min<size_t>(code.size(), function.range.size()));
    const size_t most = functions++ % 2 == 0 ? 5 : 64;  // as short as a jump, or shared by many
    for (size_t begin = 0; begin < code.size();) {
      size_t end = begin;
      while (end < code.size() && end - begin < most) {
        const auto instruction = decode(code.subspan(end), kSite + function.range.begin + end);
        if (!instruction || displaceable(code.subspan(end), *instruction) != Displaceable::yes)
          break;
        end += instruction->length;
        if (!instruction->falls_through() || instruction->is_call()) break;
      }
      if (end == begin) break;
      // High addresses, as libraries have: there return addresses take the most bytes.
      expect_room_for(code.subspan(begin, end - begin), kSite + function.range.begin + begin);
      ++windows;
      if (HasFailure()) return;
      begin = end;
    }
  }
  EXPECT_GT(windows, 10'000u);
}

TEST(CountStub, EndsWithTheDisplacedInstructionsAndTheContinuation) {
  const Emitted code = emitted_count_stub(kPrologue);
  EXPECT_EQ(Disassembler().text(code.at(code.stub.copy).first(code.stub.end - code.stub.copy),
                                code.stub.copy),
            "push rbp; mov rbp, rsp; sub rsp, 0x10; jmp 0x7f0000100008");
  EXPECT_EQ(code.stub.end, kArena + code.bytes.size());
}

TEST(CountStub, HasNoJumpBackIfItWouldNeverBeReached) {
  // All that is left is a distance, for unwinders.
  constexpr size_t kDistance = 4;
  const auto copy_of = [](const Bytes& window) {
    const Emitted code = emitted_count_stub(window);
    const Address end = code.stub.end - kDistance;
    int32_t distance = 0;
    std::memcpy(&distance, code.at(end).data(), sizeof distance);
    EXPECT_EQ(code.stub.end + static_cast<Address>(int64_t{distance}), kSite + window.size());
    EXPECT_EQ(code.stub.frames.continuation, end);
    return Disassembler().text(code.at(code.stub.copy).first(end - code.stub.copy), code.stub.copy);
  };
  EXPECT_EQ(copy_of({0x31, 0xc0, 0xc3}), "xor eax, eax; ret");
  EXPECT_EQ(copy_of({0x31, 0xc0, 0xeb, 0x10}), "xor eax, eax; jmp 0x7f0000100014");
  EXPECT_EQ(copy_of({0x31, 0xc0, 0xff, 0xe0}), "xor eax, eax; jmp rax");
  // The call returns to the original code: after the jump there is only the address that was
  // pushed.
  const Emitted last = emitted_count_stub({0x31, 0xc0, 0xff, 0x50, 0x10});  // xor; call *16(%rax)
  const Address literal = last.stub.end - kDistance - 8;
  EXPECT_EQ(last.word(literal), kSite + 5);
  EXPECT_EQ(
      Disassembler().text(last.at(last.stub.copy).first(literal - last.stub.copy), last.stub.copy),
      "xor eax, eax; push qword ptr [rip + 3]; jmp qword ptr [rax + 0x10]");
}

TEST(CountStub, ReportsTheAddressOfEachCopy) {
  // nop; push %rbp; lea 0x10(%rip),%rax; je .+2+0x20; nopl 0(%rax)
  const Bytes window = {0x90, 0x55, 0x48, 0x8d, 0x05, 0x10, 0,   0,
                        0,    0x74, 0x20, 0x0f, 0x1f, 0x40, 0x00};
  const Emitted code = emitted_count_stub(window);
  std::vector<std::pair<unsigned, std::string>> copies;
  for (const Copy& copy : code.stub.copies) {
    const Address at = code.stub.copy + copy.offset;
    const auto instruction = decode(code.at(at), at);
    ASSERT_TRUE(instruction);
    copies.emplace_back(copy.window_offset,
                        Disassembler().text(code.at(at).first(instruction->length), at));
  }
  // A nop is not copied. A thread that is at one continues at what comes after it.
  ASSERT_EQ(copies.size(), 5u);
  EXPECT_EQ(copies[0], std::pair(0u, std::string("push rbp")));
  EXPECT_EQ(copies[1], std::pair(1u, std::string("push rbp")));
  EXPECT_EQ(copies[2].first, 2u);
  EXPECT_EQ(copies[3], std::pair(9u, std::string("je 0x7f000010002b")));
  EXPECT_EQ(copies[4].first, 11u);
  EXPECT_TRUE(copies[4].second.starts_with("jmp")) << "back";
  const Address lea = code.stub.copy + code.stub.copies[2].offset;
  EXPECT_EQ(decode(code.at(lea), lea)->memory, kSite + 9 + 0x10);
  EXPECT_EQ(code.stub.copies[0].offset, 0u);
}

TEST(CountStub, HasNoCodeIfTheDisplacedCodeIsOutOfReach) {
  Assembler code(kSite + (Address{3} << 30));
  const auto entries = emit_arena_header(code, some_arena());
  emit_stub(code, entries, {}, {kSite, kPrologue});
  EXPECT_FALSE(code.finish());
}

TEST(RseqCountStub, AnnouncesASequenceThatEndsAfterTheOnlyStore) {
  const Emitted code = emitted_count_stub(kPrologue);
  const Address descriptor = kArena + code.header_size;
  EXPECT_EQ(code.word(descriptor), 0u) << "version 0, no flags";
  const Address begin = code.word(descriptor + 8);
  const Address end = begin + code.word(descriptor + 16);
  const Address abort = code.word(descriptor + 24);
  ASSERT_LT(code.stub.begin, begin);
  ASSERT_LE(end, code.stub.copy);
  // The kernel uses no abort address that does not have the signature before it.
  EXPECT_EQ(Bytes(code.at(abort - 4).begin(), code.at(abort).begin()),
            little_endian(kRseqSignature));
  EXPECT_TRUE(abort < begin || abort >= end);
  // In the sequence only the last instruction writes to memory.
  Disassembler disassembler;
  for (Address at = begin; at < end;) {
    const auto instruction = decode(code.at(at), at);
    ASSERT_TRUE(instruction);
    const std::string text = disassembler.text(code.at(at).first(instruction->length), at);
    const bool stores = text.starts_with("mov qword ptr");
    EXPECT_EQ(stores, instruction->end() == end) << text;
    at = instruction->end();
  }
}

TEST(TimeCall, HandsARecordForEachMetricToTheRuntime) {
  const Metric metrics[] = {{0x1111, 3}, {0x2222, 0}, {0x3333, 5}};
  const StubAction times = {.what = TimeCall{.metrics = metrics}};
  const Emitted code = emitted([&](Assembler& at, const ArenaEntries& entries) {
    return emit_stub(at, entries, {.actions = {&times, 1}}, {kSite, kPrologue});
  });
  Address at = code.stub.begin;
  const auto push = decode(code.at(at), at);
  const auto lea = decode(code.at(push->end()), push->end());
  const auto jump = decode(code.at(lea->end()), lea->end());
  EXPECT_EQ(Disassembler().text(code.at(at).first(1), at), "push rax");
  EXPECT_EQ(lea->special, Special::lea);
  EXPECT_EQ(jump->flow, Flow::jump_indirect);
  EXPECT_EQ(jump->memory, code.entries.pointers.time);
  Address record = lea->memory;
  EXPECT_EQ(record % 8, 0u);
  for (const Metric& metric : metrics) {
    EXPECT_EQ(code.word(record + PP_RECORD_COPY), code.stub.copy);
    EXPECT_EQ(code.word(record + PP_RECORD_SITE), kSite);
    EXPECT_EQ(code.word(record + PP_RECORD_COUNTERS), metric.counters);
    EXPECT_EQ(code.word(record + PP_RECORD_UNIT),
              uint64_t{metric.fraction_bits} << 32 | 1u << metric.fraction_bits);
    // All but the last go on, as their flags say; the fields between are 0.
    const bool is_last = &metric == &metrics[2];
    EXPECT_EQ(code.word(record + PP_RECORD_BLOCK_SIZE) >> 56, is_last ? 0u : PP_RECORD_GOES_ON);
    EXPECT_EQ(code.word(record + PP_RECORD_BLOCK_SIZE) << 8 >> 8,
              layout::histogram_size(metric.fraction_bits));
    const Address next = code.word(record + PP_RECORD_NEXT);
    record += sizeof(layout::ProbeRecord);
    EXPECT_EQ(next, &metric == &metrics[2] ? 0 : record);
  }
  EXPECT_EQ(code.stub.end, record);
  EXPECT_EQ(code.stub.copy, jump->end());
  EXPECT_TRUE(Disassembler()
                  .text(code.at(code.stub.copy).first(kPrologue.size() + 5), code.stub.copy)
                  .starts_with("push rbp; mov rbp, rsp; sub rsp, 0x10; jmp 0x7f0000100008"));
}

// The stack pointer is the program's again, as if nothing had been pushed.
TEST(RecordValue, TakesMemoryAndConstantsAsTheyAreInTheProgram) {
  using Memory = Source::Memory;
  const struct {
    decltype(Source::instead) from;
    uint8_t bytes;
    StackUse stack;
    const char* taken;
  } cases[] = {
      {Memory{.base = 5, .displacement = uint64_t{0} - 20}, 4, StackUse::keep_red_zone,
       "mov eax, dword ptr [rbp - 0x14]; lea rcx, "},
      {Memory{.base = 4, .displacement = uint64_t{0} - 8}, 8, StackUse::keep_red_zone,
       "mov rax, qword ptr [rsp + 0x88]; lea rcx, "},
      {Memory{.base = 4, .displacement = 8}, 1, StackUse::at_entry,
       "movzx eax, byte ptr [rsp + 0x18]; lea rcx, "},
      {Memory{.base = 0, .index = 1, .scale = 8, .displacement = 8}, 2, StackUse::at_entry,
       "movzx eax, word ptr [rax + rcx*8 + 8]; lea rcx, "},
      {Memory{.base = 13, .index = 12, .scale = 1}, 8, StackUse::at_entry,
       "mov rax, qword ptr [r13 + r12]; lea rcx, "},
      {Memory{.index = 3, .scale = 4, .displacement = 16}, 8, StackUse::at_entry,
       "mov rax, qword ptr [rbx*4 + 0x10]; lea rcx, "},
      {Memory{.displacement = 0x1122'3344'5566'7788}, 4, StackUse::at_entry,
       "movabs rax, 0x1122334455667788; mov eax, dword ptr [rax]; lea rcx, "},
      {Source::Constant{7}, 1, StackUse::at_entry, "movabs rax, 7; lea rcx, "},
  };
  for (const auto& one : cases) {
    const StubAction records = {.stack = one.stack,
                                .what = RecordValue{{0x1111, 5}, Source{0, one.bytes, one.from}}};
    const Emitted code = emitted([&](Assembler& at, const ArenaEntries& entries) {
      return emit_stub(at, entries, {.actions = {&records, 1}}, {kSite, kPrologue});
    });
    const uint64_t size = code.stub.copy - code.stub.begin;
    const std::string text =
        Disassembler().text(code.at(code.stub.begin).first(size), code.stub.begin);
    EXPECT_TRUE(text.find(std::string("push rcx; ") + one.taken) != std::string::npos) << text;
  }
}

// No instruction changes the flags, a vector register, or the program's control word.
TEST(RecordValue, TakesSignsHighBytesSegmentsAndFloatingPointNumbers) {
  using Memory = Source::Memory;
  using Segment = Source::Segment;
  const std::string ours =
      "stmxcsr dword ptr [rsp - 8]; mov qword ptr [rsp - 0x10], 0x1f80; "
      "ldmxcsr dword ptr [rsp - 0x10]; ";
  const std::string theirs = "; ldmxcsr dword ptr [rsp - 8]; lea rcx, ";
  const auto of = [](uint8_t number, uint8_t bytes) {
    Source what;
    what.register_number = number;
    what.bytes = bytes;
    return what;
  };
  const auto in = [&](Memory memory, uint8_t bytes) {
    Source what = of(0, bytes);
    what.instead = memory;
    return what;
  };
  const auto with_sign = [](Source what) {
    what.is_signed = true;
    return what;
  };
  const auto high = [](Source what) {
    what.is_high_byte = true;
    return what;
  };
  const auto real = [](Source what, bool is_vector = false) {
    what.is_floating_point = true;
    what.is_vector = is_vector;
    return what;
  };
  const struct {
    Source what;
    std::string taken;
  } cases[] = {
      {with_sign(of(0, 4)), "movsxd rax, eax; lea rcx, "},
      {with_sign(of(7, 1)), "mov rax, rdi; movsx rax, al; lea rcx, "},
      {with_sign(of(9, 2)), "mov rax, r9; movsx rax, ax; lea rcx, "},
      {with_sign(of(7, 8)), "mov rax, rdi; lea rcx, "},
      {high(of(3, 1)), "movzx eax, bh; lea rcx, "},
      {high(with_sign(of(0, 1))), "movzx eax, ah; movsx rax, al; lea rcx, "},
      {with_sign(in({.base = 5, .displacement = 8}, 4)),
       "mov eax, dword ptr [rbp + 8]; movsxd rax, eax; lea rcx, "},
      {in({.displacement = 40, .segment = Segment::fs}, 8),
       "mov rax, qword ptr fs:[0x28]; lea rcx, "},
      {in({.base = 0, .index = 1, .scale = 4, .segment = Segment::gs}, 4),
       "mov eax, dword ptr gs:[rax + rcx*4]; lea rcx, "},
      {real(of(0, 8), true), ours + "cvttsd2si rax, xmm0" + theirs},
      {real(of(9, 4), true), ours + "cvttss2si rax, xmm9" + theirs},
      {real(of(2, 8)),
       ours + "mov qword ptr [rsp - 0x18], rdx; cvttsd2si rax, qword ptr [rsp - 0x18]" + theirs},
      {real(in({.base = 4, .displacement = 8}, 8)),
       ours + "cvttsd2si rax, qword ptr [rsp + 0x18]" + theirs},
      {real(in({.displacement = 0x1122334455}, 4)),
       ours + "movabs rax, 0x1122334455; cvttss2si rax, dword ptr [rax]" + theirs},
      {real(in({.base = 12, .displacement = 8, .segment = Segment::fs}, 8)),
       ours + "cvttsd2si rax, qword ptr fs:[r12 + 8]" + theirs},
  };
  for (const auto& one : cases) {
    const StubAction records = {.stack = StackUse::at_entry, .what = RecordValue{{}, one.what}};
    const Emitted code = emitted([&](Assembler& at, const ArenaEntries& entries) {
      return emit_stub(at, entries, {.actions = {&records, 1}}, {kSite, kPrologue});
    });
    const uint64_t size = code.stub.copy - code.stub.begin;
    const std::string text =
        Disassembler().text(code.at(code.stub.begin).first(size), code.stub.begin);
    EXPECT_TRUE(text.find("push rcx; " + one.taken) != std::string::npos) << text << "\n is not \n"
                                                                          << one.taken;
  }
}

// No register but rax is saved, none is copied, and nothing is written before the flags are.
TEST(Condition, OfComparisonsOfRegistersWithNumbersNeedsNoOtherRegister) {
  const auto compares = [](Source what, Operation how, uint64_t with, bool is_signed = true) {
    Expression condition;
    condition.steps = {{.source = what},
                       {.source = {.instead = Source::Constant{with}}},
                       {.operation = how, .is_signed = is_signed, .left = 0, .right = 1}};
    return condition;
  };
  const Source rdx = {.register_number = 2}, edi = {.register_number = 7, .bytes = 4},
               signed_edi = {.register_number = 7, .bytes = 4, .is_signed = true};
  const struct {
    Expression condition;
    const char* test;
  } cases[] = {
      {compares(rdx, Operation::equal, 7), "cmp rdx, 7; je "},
      {compares(rdx, Operation::less, 7), "cmp rdx, 7; jl "},
      {compares(rdx, Operation::less, 7, false), "cmp rdx, 7; jb "},
      {compares(edi, Operation::less_or_equal, 7), "cmp edi, 7; jbe "},
      {compares(signed_edi, Operation::not_equal, ~uint64_t{0}), "cmp edi, 0xffffffff; jne "},
      {Expression(edi), "test edi, edi; jne "},
  };
  for (const auto& one : cases) {
    const StubAction counts = {.condition = one.condition, .what = CountHit{0x12340}};
    const Emitted code = emitted([&](Assembler& at, const ArenaEntries& entries) {
      return emit_stub(at, entries, {.rseq = RseqArea{-0x60}, .actions = {&counts, 1}},
                       {kSite, kPrologue});
    });
    const std::string text =
        Disassembler().text(code.at(code.stub.begin).first(32), code.stub.begin);
    EXPECT_TRUE(text.starts_with(std::string("push rax; lahf; seto al; ") + one.test)) << text;
  }
}

// rax has the value before rcx and the flags are used; below the red zone, except at entries.
TEST(RecordValue, TakesTheRegisterAsItIsInTheProgram) {
  const struct {
    uint8_t number, bytes;
    StackUse stack;
    const char* taken;
  } cases[] = {
      {0, 8, StackUse::at_entry, "push rax; push rcx; lea rcx, "},
      {1, 8, StackUse::at_entry, "push rax; push rcx; mov rax, rcx; lea rcx, "},
      {4, 8, StackUse::at_entry, "push rax; push rcx; lea rax, [rsp + 0x10]; lea rcx, "},
      {4, 8, StackUse::keep_red_zone,
       "lea rsp, [rsp - 0x80]; push rax; push rcx; lea rax, [rsp + 0x90]; lea rcx, "},
      {15, 4, StackUse::at_entry, "push rax; push rcx; mov rax, r15; mov eax, eax; lea rcx, "},
      {7, 1, StackUse::at_entry, "push rax; push rcx; mov rax, rdi; movzx eax, al; lea rcx, "},
  };
  for (const auto& one : cases) {
    const StubAction records = {.stack = one.stack,
                                .what = RecordValue{{0x1111, 5}, Source{one.number, one.bytes}}};
    const Emitted code = emitted([&](Assembler& at, const ArenaEntries& entries) {
      return emit_stub(at, entries, {.actions = {&records, 1}}, {kSite, kPrologue});
    });
    const uint64_t size = code.stub.copy - code.stub.begin;
    const std::string text =
        Disassembler().text(code.at(code.stub.begin).first(size), code.stub.begin);
    EXPECT_TRUE(text.starts_with(one.taken)) << text;
    EXPECT_TRUE(text.find("pop rcx; pop rax") != std::string::npos) << text;
    Address record = 0;
    for (Address at = code.stub.begin; at < code.stub.copy;) {
      const auto instruction = decode(code.at(at), at);
      ASSERT_TRUE(instruction);
      if (instruction->special == Special::lea && instruction->memory > code.stub.copy)
        record = instruction->memory;
      at = instruction->end();
    }
    ASSERT_NE(record, 0u) << text;
    EXPECT_EQ(code.word(record + PP_RECORD_COUNTERS), 0x1111u);
    EXPECT_EQ(code.word(record + PP_RECORD_NEXT), 0u);
    EXPECT_EQ(code.stub.end, record + sizeof(layout::ProbeRecord));
  }
}

// A point may end one span and start others: one call each, in their order.
TEST(PassSpan, HandsItsRecordToTheRuntime) {
  for (const StackUse stack : {StackUse::at_entry, StackUse::keep_red_zone}) {
    const StubAction actions[] = {
        {.stack = stack, .what = PassSpan{{0x1111, 5}, 0x20, layout::Pass::ends}},
        {.stack = stack, .what = PassSpan{{0x2222, 3}, 0x18, layout::Pass::starts}}};
    const Emitted code = emitted([&](Assembler& at, const ArenaEntries& entries) {
      return emit_stub(at, entries, {.actions = actions}, {kSite, kPrologue});
    });
    const uint64_t size = code.stub.copy - code.stub.begin;
    const std::string text =
        Disassembler().text(code.at(code.stub.begin).first(size), code.stub.begin);
    EXPECT_TRUE(text.starts_with(stack == StackUse::at_entry
                                     ? "push rax; push rcx; lea rcx, "
                                     : "lea rsp, [rsp - 0x80]; push rax; push rcx; lea rcx, "))
        << text;
    std::vector<Address> records;
    for (Address at = code.stub.begin; at < code.stub.copy;) {
      const auto instruction = decode(code.at(at), at);
      ASSERT_TRUE(instruction);
      if (instruction->special == Special::lea && instruction->memory > code.stub.copy)
        records.push_back(instruction->memory);
      at = instruction->end();
    }
    ASSERT_EQ(records.size(), 2u) << text;
    EXPECT_EQ(code.word(records[0] + PP_RECORD_COUNTERS), 0x1111u);
    EXPECT_EQ(code.word(records[1] + PP_RECORD_COUNTERS), 0x2222u);
    EXPECT_EQ(code.word(records[0] + PP_RECORD_BLOCK_SIZE) >> 32, 0x1'0020u);
    EXPECT_EQ(code.word(records[1] + PP_RECORD_BLOCK_SIZE) >> 32, 0x18u);
    EXPECT_EQ(code.stub.end, records[1] + sizeof(layout::ProbeRecord));
  }
}

TEST(Stub, CountsCallsHandlersAndThenTimesTheCall) {
  constexpr Address kHit = 0x7f00'1234'5000, kEnter = 0x7f00'5678'9000;
  const Metric metric = {0x1111, 3};
  const StubAction actions[] = {
      {.what = CountHit{0x30}},
      {.what = CallHandlers{.handlers = 0x7777, .routine = kHit}},
      {.what = TimeCall{.metrics = {&metric, 1}, .enter = kEnter}},
  };
  const Emitted code = emitted([&](Assembler& at, const ArenaEntries& entries) {
    return emit_stub(at, entries, {.actions = actions}, {kSite, kPrologue});
  });
  std::vector<Instruction> instructions;
  for (Address at = code.stub.begin; at < code.stub.copy; at = instructions.back().end()) {
    const auto instruction = decode(code.at(at), at);
    ASSERT_TRUE(instruction);
    instructions.push_back(*instruction);
  }
  const auto first = [&](Flow flow) {
    return std::find_if(instructions.begin(), instructions.end(),
                        [&](const Instruction& one) { return one.flow == flow; });
  };
  const auto counts = first(Flow::call), calls = first(Flow::call_indirect),
             enters = first(Flow::jump_indirect);
  ASSERT_TRUE(counts < calls && calls < enters && enters < instructions.end());
  EXPECT_EQ(counts->target, code.entries.locked_count);
  EXPECT_EQ(code.word(calls->memory), kHit);
  EXPECT_EQ(code.word(enters->memory), kEnter);
  // The runtime finds the handlers' record by the nop after its return address.
  const Instruction& nop = calls[1];
  const Address record = nop.end() + static_cast<Address>(nop.displacement);
  EXPECT_EQ(nop.special, Special::nop);
  EXPECT_EQ(code.word(record), kSite);
  EXPECT_EQ(code.word(record + 8), 0x7777u);
  EXPECT_EQ(code.word(record + PP_HIT_COPY), 0u) << "it measures nothing for return probes";
}

TEST(Stub, TellsTheRuntimeWhatToMeasureOnlyIfItMayEnterASlot) {
  const Metric metric = {0x1111, 3};
  for (const bool times : {false, true})
    for (const bool may_enter_slot : {false, true}) {
      std::vector<StubAction> actions = {
          {.what = CallHandlers{.handlers = 0x7777, .may_enter_slot = may_enter_slot}}};
      if (times) actions.push_back({.what = TimeCall{.metrics = {&metric, 1}}});
      const Emitted code = emitted([&](Assembler& at, const ArenaEntries& entries) {
        return emit_stub(at, entries, {.actions = actions}, {kSite, kPrologue});
      });
      const auto call = decode(code.at(code.stub.begin), code.stub.begin);
      ASSERT_TRUE(call);
      const Address record = call->memory + sizeof(uint64_t);  // after the routine's address
      ASSERT_EQ(code.word(record + PP_HIT_ADDRESS), kSite);
      const Address copy = code.word(record + PP_HIT_COPY);
      if (!may_enter_slot) {
        EXPECT_EQ(copy, 0u);
        continue;
      }
      const Address resume = code.word(record + PP_HIT_RESUME);
      const auto returns_to_stack = decode(code.at(resume), resume);
      ASSERT_TRUE(returns_to_stack);
      EXPECT_EQ(copy, returns_to_stack->end()) << "a timing is measured as well";
    }
}

TEST(Stub, CallsHandlersBetweenTheCopiesOfTwoInstructions) {
  const StubAction calls = {
      .offset = 1, .stack = StackUse::keep_red_zone, .what = CallHandlers{.handlers = 0x7777}};
  const Emitted code = emitted([&](Assembler& at, const ArenaEntries& entries) {
    return emit_stub(at, entries, {.actions = {&calls, 1}}, {kSite, kPrologue});
  });
  ASSERT_EQ(code.stub.copies.size(), 3u);
  const Address second = code.stub.copy + code.stub.copies[1].offset;
  const std::string text =
      Disassembler().text(code.at(code.stub.copy).first(second - code.stub.copy), code.stub.copy);
  EXPECT_TRUE(text.starts_with("push rbp; lea rsp, [rsp - 0x80]; call ")) << text;
  EXPECT_TRUE(text.ends_with("; lea rsp, [rsp + 0x80]")) << text;
}

TEST(SlotCode, CallsTheCopyOfItsSlotAndThenLeavesThroughTheRuntime) {
  constexpr uint64_t kCount = 1000;
  constexpr Address kSlots = kArena - 0x20000;
  constexpr Address kLeave = kArena - 0x100;
  Assembler code(kArena);
  emit_slot_code(code, kSlots, kCount, kLeave);
  const auto bytes = code.finish();
  ASSERT_TRUE(bytes);
  ASSERT_EQ(bytes->size(), kCount * kSlotCodeSize);
  for (uint64_t i = 0; i < kCount; ++i) {
    const Address slot = kSlots + i * sizeof(layout::Slot);
    std::vector<Instruction> instructions;
    Address at = kArena + i * kSlotCodeSize;
    const Address begin = at;
    while (instructions.empty() || instructions.back().flow != Flow::jump) {
      const auto instruction = decode(std::span(*bytes).subspan(at - kArena), at);
      ASSERT_TRUE(instruction);
      instructions.push_back(*instruction);
      at = instruction->end();
    }
    ASSERT_EQ(instructions.size(), 5u);  // call, push, push %rax, lea, jmp
    EXPECT_EQ(instructions[0].flow, Flow::call_indirect);
    EXPECT_EQ(instructions[0].memory, slot + offsetof(layout::Slot, copy));
    EXPECT_EQ(instructions[0].end(), begin + kSlotReturn);
    EXPECT_EQ(instructions[1].memory, slot + offsetof(layout::Slot, return_address));
    EXPECT_EQ(instructions[3].special, Special::lea);
    EXPECT_EQ(instructions[3].memory, slot);
    EXPECT_EQ(instructions[4].target, kLeave);
    while (at < begin + kSlotCodeSize) EXPECT_EQ((*bytes)[at++ - kArena], 0xcc);
  }
}

// The distance to a slot grows with its number, and the code before is of no use.
TEST(SlotCode, IsNotEmittedIfAnySlotIsOutOfReach) {
  constexpr Address kFurthest = uint64_t{1} << 31;
  for (const uint64_t count : {1, 2, 3, 1000}) {
    const Address last = kFurthest - sizeof(layout::Slot) * (count - 1);
    for (const Address slots : {kArena + last - 0x1000, kArena + last + 0x1000}) {
      Assembler code(kArena);
      emit_slot_code(code, slots, count, kArena - 0x100);
      EXPECT_EQ(code.finish().has_value(), slots < kArena + last + kSlotCodeSize * count) << count;
    }
  }
}

}  // namespace
}  // namespace pinprick::arch
