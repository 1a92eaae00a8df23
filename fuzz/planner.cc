// Any bytes as a function: the planner never fails otherwise than by a refusal, and whatever it
// plans keeps the guarantees of plan/planner.h. Input: numbers that place the function, the site,
// what is reserved and the branch targets, then the function.
#include "plan/planner.h"

#include <algorithm>

#include "arch/assembler.h"
#include "arch/relocate.h"
#include "fuzzer.h"

namespace {

using namespace pinprick;

// Whole instructions from `begin` that end exactly at `end`; empty: they do not.
std::vector<arch::Instruction> instructions(const plan::FunctionCode& function, Address begin,
                                            Address end) {
  std::vector<arch::Instruction> all;
  for (Address at = begin; at < end; at = all.back().end()) {
    const auto instruction = arch::decode(function.bytes.subspan(at - function.range.begin), at);
    if (!instruction || instruction->end() > end) return {};
    all.push_back(*instruction);
  }
  return all;
}

void relocate_all(const plan::FunctionCode& function,
                  const std::vector<arch::Instruction>& displaced, Address to) {
  arch::Assembler code(to);
  for (const arch::Instruction& instruction : displaced)
    arch::relocate(code, function.bytes.subspan(instruction.address - function.range.begin),
                   instruction);
  code.finish();
}

void check(const plan::FunctionCode& function, const plan::Patch& patch) {
  const Address site = patch.site;
  const Address written_end = site + patch.written;
  const Address displaced_end = site + patch.displaced;
  const Address touched_end = std::max(written_end, displaced_end);
  CHECK(patch.written == 5 && patch.displaced > 0);
  CHECK(function.range.contains(site));
  CHECK(displaced_end <= function.range.end);
  CHECK(touched_end <= function.limit());
  CHECK(touched_end - site <= patch.original.size());
  CHECK(std::equal(
      function.bytes.begin() + static_cast<ptrdiff_t>(site - function.range.begin),
      function.bytes.begin() + static_cast<ptrdiff_t>(touched_end - function.range.begin),
      patch.original.begin()));

  // The displaced bytes are whole instructions that can be moved exactly.
  const auto displaced = instructions(function, site, displaced_end);
  CHECK(!displaced.empty());
  for (const arch::Instruction& instruction : displaced) {
    const auto code = function.bytes.subspan(instruction.address - function.range.begin);
    CHECK(arch::displaceable(code, instruction) == arch::Displaceable::yes);
    CHECK(instruction.special != arch::Special::int3);
    // Nothing displaced follows an instruction that may return to the next address, or that never
    // continues there.
    if (&instruction != &displaced.back()) {
      CHECK(!instruction.is_call());
      CHECK(instruction.falls_through());
    }
    if (instruction.address != site && instruction.address < written_end) {
      CHECK(std::find(patch.boundaries.begin(), patch.boundaries.end(),
                      instruction.address - site) != patch.boundaries.end());
    }
  }
  CHECK(patch.boundaries.size() == displaced.size() - 1);
  // No known branch leads to a displaced byte after the first; with a single instruction, to one
  // under the jump.
  CHECK(!function.targets->any_in(site + 1, displaced.size() == 1 ? written_end : touched_end));
  for (Range reserved : function.reserved) CHECK(!reserved.overlaps({site, touched_end}));
  if ((displaced.size() > 1 || displaced_end < written_end) &&
      !function.room.contains(Range{site, touched_end}))
    CHECK(!function.targets->has_unresolved_jump(function.range.begin));
  // Overwritten bytes that are not displaced are padding, after an instruction that does not fall
  // through.
  if (displaced_end < written_end) {
    CHECK(!displaced.back().falls_through());
    for (Address at = displaced_end; at < written_end;) {
      const auto code = function.bytes.subspan(at - function.range.begin);
      const auto instruction = arch::decode(code, at);
      const bool filler = instruction && (instruction->special == arch::Special::nop ||
                                          instruction->special == arch::Special::int3);
      CHECK(filler || (at >= function.range.end && code[0] == 0));
      at = filler ? instruction->end() : at + 1;
    }
  }
  // The site is where decoding from the function's start arrives.
  CHECK(site == function.range.begin ||
        !instructions(function, function.range.begin, site).empty());
  relocate_all(function, displaced, site + 0x1000'0000);
  relocate_all(function, displaced, site - 0x7fff'0000);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Numbers numbers({data, size});
  const Address begin = numbers.take<uint64_t>();
  const auto padding = numbers.take<uint8_t>();
  const auto flags = numbers.take<uint8_t>();
  const auto reserved_at = numbers.take<uint8_t>();
  const auto target_at = numbers.take<uint8_t>();
  const auto bytes = numbers.rest().first(std::min<size_t>(numbers.rest().size(), 256));
  if (begin > UINT64_MAX - 0x1000) return 0;  // no such code in user space
  const Address limit = begin + bytes.size();
  const Address end = limit - std::min<size_t>(padding, bytes.size());

  image::BranchTargets targets({{begin, limit}});
  if (flags & 1) targets.add(begin + target_at);
  if (flags & 2) targets.mark_unresolved_jump(begin);
  std::vector<Range> reserved;
  if (flags & 4) reserved.push_back({begin + reserved_at, begin + reserved_at + 4});
  plan::FunctionCode function = {{begin, end}, bytes, &targets, reserved};
  if (flags & 8) function.room = {begin, begin + target_at};
  const Address entry = bytes.empty() ? begin : plan::entry_site(function);
  CHECK(entry == begin || function.range.contains(entry) || entry == begin + 4);
  for (Address site = begin; site < limit + 2; ++site)
    if (const auto patch = plan::plan_site(function, site)) {
      CHECK(patch->site == site || (site == begin && patch->site == entry));
      check(function, *patch);
    }
  return 0;
}

std::vector<Input> seeds() {
  std::vector<Input> all;
  // Pieces of code of a library, as they come.
  for (const char* path : {"/lib/x86_64-linux-gnu/libc.so.6", "/proc/self/exe"}) {
    const Input library = pinprick::fuzz::file(path);
    for (size_t i = 1; i <= 40; ++i) {
      const size_t at = library.size() / 5 + i * (library.size() / 2 / 41);
      if (at + 128 > library.size()) break;
      Input input = {0,
                     0x10,
                     0x40,
                     0,
                     0,
                     0,
                     0,
                     0,
                     static_cast<uint8_t>(i % 3 * 6),
                     static_cast<uint8_t>(i % 16),
                     40,
                     static_cast<uint8_t>(i * 3)};
      input.insert(input.end(), library.begin() + static_cast<ptrdiff_t>(at),
                   library.begin() + static_cast<ptrdiff_t>(at + 128));
      all.push_back(std::move(input));
    }
  }
  return all;
}
