#include "image/notes/entry_sites.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "arch/code.h"
#include "base/bytes.h"
#include "image/object.h"

namespace pinprick::image {
namespace {

// No real object comes near it.
constexpr size_t kMostRecords = size_t{1} << 20;
// Nops before a function, the M of -fpatchable-function-entry=N,M.
constexpr uint64_t kMostBefore = 256;
// More room than this is of no use.
constexpr size_t kMostRoom = 64;

// The function's first instruction, after an endbr64.
Address first_instruction(std::span<const uint8_t> code, const Function& function) {
  const Address begin = function.range.begin;
  const auto first = arch::decode(code, begin);
  const bool is_marked = first && first->special == arch::Special::landing_pad &&
                         function.range.contains(first->end());
  return is_marked ? first->end() : begin;
}

// Where the nops at the start of `code` end, which lies at `begin`.
Address end_of_nops(std::span<const uint8_t> code, Address begin) {
  Address at = begin;
  while (at - begin < code.size()) {
    const auto one = arch::decode(code.subspan(at - begin), at);
    if (!one || one->special != arch::Special::nop) break;
    at = one->end();
  }
  return at;
}

// Returns the function that starts at `address`, or after an endbr64 or nops there.
const Function* function_after(Object& object, Address address) {
  const auto code = object.code_from(address);
  if (code.empty()) return nullptr;
  const FunctionTable& functions = object.functions();
  if (const Function* const found = functions.find(address)) {
    if (found->range.begin == address || first_instruction(object.code(*found), *found) == address)
      return found;
  }
  const auto& all = functions.functions();
  const auto next = std::upper_bound(
      all.begin(), all.end(), address,
      [](Address at, const Function& function) { return at < function.range.begin; });
  if (next == all.end() || next->range.begin - address > std::min(kMostBefore, code.size()))
    return nullptr;
  const uint64_t before = next->range.begin - address;
  return end_of_nops(code.first(before), address) == next->range.begin ? &*next : nullptr;
}

// The bytes of an unused sled at an entry: a jump over a nop of nine bytes.
constexpr std::array<uint8_t, 11> kSled = {0xeb, 0x09, 0x66, 0x0f, 0x1f, 0x84,
                                           0x00, 0x00, 0x02, 0x00, 0x00};

std::optional<EntrySite> site_of(Object& object, const EntryRecord& record) {
  EntrySite site;
  site.kind = record.kind;
  if (record.kind == EntryKind::fentry) {
    const Function* const function = object.functions().find(record.address);
    if (function == nullptr) return std::nullopt;
    const auto code = object.code(*function);
    const uint64_t offset = record.address - function->range.begin;
    if (offset >= code.size()) return std::nullopt;
    const auto one = arch::decode(code.subspan(offset), record.address);
    const bool is_nop = one && one->special == arch::Special::nop;
    if (!one || (!one->is_call() && !is_nop)) return std::nullopt;
    site.function = function->range.begin;
    if (first_instruction(code, *function) != record.address)
      site.kind = EntryKind::mcount;
    else if (is_nop && one->end() <= function->range.end)
      site.room = {record.address, one->end()};
    return site;
  }
  const Function* const function = function_after(object, record.address);
  if (function == nullptr) return std::nullopt;
  const auto code = object.code(*function).first(
      std::min<size_t>(object.code(*function).size(), function->range.size()));
  if (code.empty()) return std::nullopt;
  site.function = function->range.begin;
  const Address first = first_instruction(code, *function);
  const auto at_first = code.subspan(first - function->range.begin);
  if (record.kind == EntryKind::xray) {
    const bool is_sled = record.address == first && at_first.size() >= kSled.size() &&
                         std::equal(kSled.begin(), kSled.end(), at_first.begin());
    if (!is_sled) return std::nullopt;
    site.room = {first, first + kSled.size()};
  } else {
    site.room = {first, end_of_nops(at_first.first(std::min(at_first.size(), kMostRoom)), first)};
    if (site.room.empty() && record.address >= first) return std::nullopt;
  }
  return site;
}

// How many nops there are to be is not recorded, and a program may have nops of its own after them,
// to which it may jump. So no function is taken to have more than the one with the fewest has.
void keep_what_all_have(std::vector<EntrySite>& sites) {
  uint64_t fewest = UINT64_MAX;
  for (const EntrySite& site : sites)
    if (site.kind == EntryKind::patchable) fewest = std::min(fewest, site.room.size());
  for (EntrySite& site : sites)
    if (site.kind == EntryKind::patchable) site.room.end = site.room.begin + fewest;
}

// Has the object code that throws, catches or cleans up? Then an exception may pass any function of
// it.
bool knows_exceptions(const ElfFile& file) {
  constexpr std::string_view kMarks[] = {"_Unwind_Resume", "_Unwind_RaiseException",
                                         "_Unwind_ForcedUnwind", "__gxx_personality_v0",
                                         "__gcc_personality_v0"};
  return file.may_name_any(kMarks);
}

bool is_profiling_call(std::string_view name) {
  return name == "mcount" || name == "_mcount" || name == "__fentry__";
}

// Does this call lead to mcount or __fentry__: through the global offset table, a stub of the
// procedure linkage table, or directly?
bool calls_profiler(Object& object, const arch::Instruction& call) {
  if (call.has_rip_operand) return is_profiling_call(object.imported_at(call.memory));
  if (!call.has_target()) return false;
  Address at = call.target;
  if (const Function* const callee = object.functions().find(at);
      callee != nullptr && callee->range.begin == at)
    for (const std::string_view name : object.functions().names(*callee))
      if (is_profiling_call(name)) return true;
  for (int i = 0; i < 2; ++i) {
    const auto one = arch::decode(object.code_from(at), at);
    if (!one) return false;
    if (one->flow == arch::Flow::jump_indirect)
      return one->has_rip_operand && is_profiling_call(object.imported_at(one->memory));
    if (one->special != arch::Special::landing_pad) return false;
    at = one->end();
  }
  return false;
}

}  // namespace

std::string_view name(EntryKind kind) {
  switch (kind) {
    case EntryKind::patchable:
      return "patchable";
    case EntryKind::fentry:
      return "fentry";
    case EntryKind::mcount:
      return "mcount";
    case EntryKind::xray:
      return "xray";
  }
  return "?";
}

bool is_static_initializer(std::string_view symbol) {
  constexpr std::array<std::string_view, 6> kPrefixes = {
      "_GLOBAL__sub_I_",        // g++ and clang++, of a source file
      "_GLOBAL__sub_D_",        // its destruction
      "_GLOBAL__I_",            // with init_priority, and older compilers
      "_GLOBAL__D_",            //
      "__cxx_global_var_init",  // clang++, of one object
      "_Z41__static_initialization_and_destruction_0"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return symbol.starts_with(prefix); });
}

std::vector<EntryRecord> parse_entry_addresses(std::span<const uint8_t> section, Address address,
                                               EntryKind kind,
                                               std::span<const Relocation> relocations) {
  std::vector<EntryRecord> records;
  ByteReader reader(section);
  while (reader.remaining() >= sizeof(Address) && records.size() < kMostRecords)
    records.push_back({reader.u64(), kind});
  for (const Relocation& relocation : relocations) {
    const uint64_t offset = relocation.address - address;
    if (relocation.kind == Relocation::Kind::relative && offset % sizeof(Address) == 0 &&
        offset / sizeof(Address) < records.size())
      records[offset / sizeof(Address)].address = static_cast<Address>(relocation.addend);
  }
  return records;
}

std::vector<EntryRecord> parse_xray_map(std::span<const uint8_t> section, Address address) {
  constexpr uint8_t kVersion = 2;
  constexpr uint8_t kEntry = 0, kEntryWithArguments = 3;  // the kinds of sleds at entries
  constexpr size_t kSize = 32;
  std::vector<EntryRecord> records;
  for (size_t at = 0; section.size() - at >= kSize && records.size() < kMostRecords; at += kSize) {
    ByteReader reader(section.subspan(at, kSize));
    const Address sled = address + at + reader.u64();
    reader.skip(sizeof(uint64_t));  // the function
    const uint8_t kind = reader.u8();
    reader.skip(1);  // is it always to be instrumented?
    if (reader.u8() == kVersion && (kind == kEntry || kind == kEntryWithArguments))
      records.push_back({sled, EntryKind::xray});
  }
  return records;
}

std::vector<EntrySite> find_entry_sites(Object& object) {
  std::vector<EntrySite> sites;
  const auto add = [&](const std::vector<EntryRecord>& records) {
    for (const EntryRecord& record : records)
      if (const auto site = site_of(object, record)) sites.push_back(*site);
  };
  const ElfFile& elf = object.elf();
  if (const auto nops = elf.patchable_entries(); !nops.bytes.empty())
    add(parse_entry_addresses(nops.bytes, nops.address, EntryKind::patchable,
                              object.relocations()));
  if (const auto calls = elf.profiling_calls(); !calls.bytes.empty())
    add(parse_entry_addresses(calls.bytes, calls.address, EntryKind::fentry, object.relocations()));
  const auto map = elf.xray_map();
  if (const auto entries = parse_xray_map(map.bytes, map.address); !entries.empty()) {
    add(entries);
    const bool may_be_unwound = knows_exceptions(elf);
    for (EntrySite& site : sites)
      if (site.kind == EntryKind::xray) site.may_be_unwound = may_be_unwound;
  }
  keep_what_all_have(sites);
  const auto by_function = [](const EntrySite& a, const EntrySite& b) {
    return a.function < b.function;
  };
  std::stable_sort(sites.begin(), sites.end(), by_function);
  const auto same = [](const EntrySite& a, const EntrySite& b) { return a.function == b.function; };
  sites.erase(std::unique(sites.begin(), sites.end(), same), sites.end());
  return sites;
}

std::optional<Range> profiling_call(Object& object, const Function& function) {
  // gcc's prologue before the call is short: it has no calls or jumps.
  constexpr int kLongestPrologue = 24;
  const auto code = object.code(function);
  Address at = function.range.begin;
  for (int i = 0; i < kLongestPrologue && function.range.contains(at); ++i) {
    const auto one = arch::decode(code.subspan(at - function.range.begin), at);
    if (!one) return std::nullopt;
    if (one->is_call())
      return calls_profiler(object, *one) ? std::optional(Range{at, one->end()}) : std::nullopt;
    if (one->flow != arch::Flow::next) return std::nullopt;
    at = one->end();
  }
  return std::nullopt;
}

std::optional<EntryKind> entry_kind(Object& object, const Function& function) {
  if (const EntrySite* const site = object.entry_site(function)) return site->kind;
  const auto call = profiling_call(object, function);
  if (!call) return std::nullopt;
  return call->begin == first_instruction(object.code(function), function) ? EntryKind::fentry
                                                                           : EntryKind::mcount;
}

}  // namespace pinprick::image
