#include "image/code_scan.h"

#include <algorithm>
#include <cstring>

#include "arch/x86_64/decode.h"

namespace pinprick::image {
namespace {

template <class T>
T load(std::span<const uint8_t> bytes, uint64_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

const CodeBytes* containing(const std::vector<CodeBytes>& parts, Address address) {
  for (const CodeBytes& part : parts)
    if (part.range().contains(address)) return &part;
  return nullptr;
}

// What the decoding of one function, or of a gap between functions, brings to light.
struct RegionFacts {
  std::vector<Address> taken;      // addresses that instructions take, anywhere
  bool jumps_to_register = false;  // jmp *%reg
  bool jumps_by_sum = false;       // ... right behind `add %reg, %reg`: a relative table

  void merge(const RegionFacts& other) {
    taken.insert(taken.end(), other.taken.begin(), other.taken.end());
    jumps_to_register |= other.jumps_to_register;
    jumps_by_sum |= other.jumps_by_sum;
  }
};

class Scanner {
 public:
  Scanner(const ObjectBytes& object, BranchTargets& targets) : object_(object), targets_(targets) {}

  RegionFacts decode_region(const CodeBytes& text, Range region);
  // Adds the targets of a table in [table, end); says whether it looks like one.
  bool follow_relative_table(Address table, Address end);
  // Adds the words in [range) of `part` that are addresses of text.
  void scan_words(const CodeBytes& part, Range range);
  void scan_half_words(const CodeBytes& part, Range range);
  bool in_text(Address address) const { return containing(object_.text, address) != nullptr; }

 private:
  const ObjectBytes& object_;
  BranchTargets& targets_;
};

RegionFacts Scanner::decode_region(const CodeBytes& text, Range region) {
  RegionFacts facts;
  arch::Special before = arch::Special::none;
  for (Address at = region.begin; at < region.end;) {
    const auto bytes = text.bytes.subspan(at - text.address, region.end - at);
    const auto instruction = arch::decode(bytes, at);
    if (!instruction) {
      ++at;
      continue;
    }
    if (instruction->has_target()) targets_.add(instruction->target);
    if (instruction->special == arch::Special::lea && instruction->has_rip_operand)
      facts.taken.push_back(instruction->memory);
    if (object_.fixed_addresses && instruction->immediate_size >= 4)
      facts.taken.push_back(instruction->immediate);
    // table(,%reg,8), and `lea label(%reg), %reg` before a jump there. A jump's own operand counts
    // anywhere: in assembly even position-independent objects have it.
    if (instruction->has_memory_operand && !instruction->has_rip_operand &&
        instruction->displacement_size == 4 &&
        (object_.fixed_addresses || instruction->flow == arch::Flow::jump_indirect))
      facts.taken.push_back(static_cast<Address>(instruction->displacement));
    if (instruction->flow == arch::Flow::jump_indirect && !instruction->has_memory_operand) {
      facts.jumps_to_register = true;
      if (before == arch::Special::add_register) facts.jumps_by_sum = true;
    }
    before = instruction->special;
    at = instruction->end();
  }
  return facts;
}

bool Scanner::follow_relative_table(Address table, Address end) {
  const CodeBytes* part = containing(object_.data, table);
  if (part == nullptr) part = containing(object_.text, table);
  if (part == nullptr) return false;
  const uint64_t last = std::min(end, part->range().end) - part->address;
  bool any = false;
  for (uint64_t at = table - part->address; at + 4 <= last; at += 4) {
    const Address target =
        table + static_cast<uint64_t>(static_cast<int64_t>(load<int32_t>(part->bytes, at)));
    if (!in_text(target)) break;
    targets_.add(target);
    any = true;
  }
  return any;
}

void Scanner::scan_words(const CodeBytes& part, Range range) {
  for (Address at = align_up(range.begin, 8); at + 8 <= range.end; at += 8)
    targets_.add(load<uint64_t>(part.bytes, at - part.address) - object_.bias);
}

void Scanner::scan_half_words(const CodeBytes& part, Range range) {
  if (!object_.fixed_addresses) return;
  for (Address at = align_up(range.begin, 4); at + 4 <= range.end; at += 4)
    targets_.add(load<uint32_t>(part.bytes, at - part.address));
}

// The text from the begin of one function to that of the next, or to its own end, and what lies
// between functions; decoding begins afresh at each.
std::vector<Range> regions_of(Range text, const FunctionTable& functions) {
  std::vector<Range> regions;
  Address at = text.begin;
  const auto& all = functions.functions();
  auto next = std::lower_bound(
      all.begin(), all.end(), text.begin,
      [](const Function& function, Address a) { return function.range.begin < a; });
  for (; next != all.end() && next->range.begin < text.end; ++next) {
    if (at < next->range.begin) regions.push_back({at, next->range.begin});
    Address end = std::min(next->range.end, text.end);
    if (std::next(next) != all.end()) end = std::min(end, std::next(next)->range.begin);
    regions.push_back({next->range.begin, end});
    at = std::max(at, end);
  }
  if (at < text.end) regions.push_back({at, text.end});
  return regions;
}

// Which functions a piece of text belongs to: where one lies inside of another it is both.
class Owners {
 public:
  explicit Owners(const std::vector<Function>& functions) : functions_(functions) {
    Address last = 0;
    for (const Function& function : functions)
      ends_.push_back(last = std::max(last, function.range.end));
  }

  // Indices into the functions.
  std::vector<size_t> of(Range region) const {
    std::vector<size_t> owners;
    const auto above =
        std::lower_bound(functions_.begin(), functions_.end(), region.end,
                         [](const Function& f, Address a) { return f.range.begin < a; });
    for (auto i = static_cast<size_t>(above - functions_.begin());
         i-- > 0 && ends_[i] > region.begin;)
      if (functions_[i].range.overlaps(region)) owners.push_back(i);
    return owners;
  }

 private:
  const std::vector<Function>& functions_;
  std::vector<Address> ends_;  // the furthest end of the functions up to here
};

}  // namespace

BranchTargets find_branch_targets(const ObjectBytes& object, const FunctionTable& functions,
                                  std::span<const Relocation> relocations,
                                  std::span<const Address> landing_pads) {
  std::vector<Range> text;
  for (const CodeBytes& part : object.text) text.push_back(part.range());
  BranchTargets targets(text);
  Scanner scanner(object, targets);

  for (Address address : functions.named_addresses()) targets.add(address);
  for (Address address : landing_pads) targets.add(address);
  for (const Relocation& relocation : relocations)
    if (relocation.kind == Relocation::Kind::relative ||
        relocation.kind == Relocation::Kind::irelative)
      targets.add(static_cast<Address>(relocation.addend));
  for (const CodeBytes& part : object.data) {
    scanner.scan_words(part, part.range());
    scanner.scan_half_words(part, part.range());
  }
  // With one segment for all, read-only data lies in text. Code hardly ever looks like an address
  // of 8 bytes; of 4 bytes it does, so that those count between functions only.
  for (const CodeBytes& part : object.text) scanner.scan_words(part, part.range());

  // Of all functions: one may set up the base that another jumps by.
  std::vector<Address> taken;
  const std::vector<Function>& all = functions.functions();
  const Owners owners(all);
  std::vector<RegionFacts> facts_of(all.size());
  for (const CodeBytes& part : object.text) {
    for (Range region : regions_of(part.range(), functions)) {
      const auto owned_by = owners.of(region);
      if (owned_by.empty()) scanner.scan_half_words(part, region);
      const RegionFacts facts = scanner.decode_region(part, region);
      for (Address address : facts.taken) targets.add(address);
      taken.insert(taken.end(), facts.taken.begin(), facts.taken.end());
      for (size_t owner : owned_by) facts_of[owner].merge(facts);
    }
  }
  std::sort(taken.begin(), taken.end());
  taken.erase(std::unique(taken.begin(), taken.end()), taken.end());

  // Tables lie back to back: one ends where the next address begins that somebody takes.
  const auto follow = [&](Address table) {
    const auto next = std::upper_bound(taken.begin(), taken.end(), table);
    return scanner.follow_relative_table(table, next == taken.end() ? UINT64_MAX : *next);
  };
  // In text too: with one segment for all, read-only data lies there. What is code and no table
  // ends at the first word, nearly always.
  for (Address table : taken) follow(table);
  for (size_t i = 0; i < all.size(); ++i) {
    const RegionFacts& facts = facts_of[i];
    if (!facts.jumps_to_register) continue;
    const auto& own = facts.taken;
    const Range range = all[i].range;
    const bool has_table = facts.jumps_by_sum && std::any_of(own.begin(), own.end(), follow);
    const bool computes_own_inside = std::any_of(own.begin(), own.end(), [&](Address address) {
      return range.contains(address) && address != range.begin;
    });
    if ((facts.jumps_by_sum && !has_table) || computes_own_inside) targets.mark_opaque(range.begin);
  }
  return targets;
}

std::vector<Range> find_restartable_sequences(const ObjectBytes& object,
                                              std::span<const Relocation> relocations) {
  // struct rseq_cs: u32 version, u32 flags, u64 start, u64 length, u64 abort. In a file the
  // addresses may be relocations' addends.
  constexpr uint64_t kSize = 32, kStart = 8, kLength = 16, kAbort = 24;
  constexpr uint64_t kLongest = 4096;     // of a sequence; real ones have some 10 instructions
  constexpr uint64_t kAnnouncement = 16;  // the store of the descriptor's address, before start
  constexpr uint64_t kSignature = 4;
  std::vector<Range> ranges;
  const auto in_text = [&](Address address) { return containing(object.text, address) != nullptr; };
  const auto consider = [&](Address start, uint64_t length, Address abort) {
    if (length == 0 || length > kLongest || !in_text(start) || !in_text(abort - kSignature)) return;
    const CodeBytes* part = containing(object.text, abort - kSignature);
    const uint64_t at = abort - kSignature - part->address;
    if (at + kSignature > part->bytes.size() ||
        load<uint32_t>(part->bytes, at) != arch::kRseqSignature)
      return;
    ranges.push_back({start - kAnnouncement, start + length});
    ranges.push_back({abort - kSignature, abort + 1});
  };
  const auto search = [&](const CodeBytes& part) {
    const uint64_t first = align_up(part.address, 8) - part.address;
    for (uint64_t at = first; at + kSize <= part.bytes.size(); at += 8) {
      if (load<uint64_t>(part.bytes, at) != 0) continue;
      consider(load<uint64_t>(part.bytes, at + kStart) - object.bias,
               load<uint64_t>(part.bytes, at + kLength),
               load<uint64_t>(part.bytes, at + kAbort) - object.bias);
    }
  };
  for (const CodeBytes& part : object.data) search(part);
  for (const CodeBytes& part : object.text) search(part);  // read-only data, in one segment with it
  if (object.bias != 0) return ranges;
  for (const Relocation& relocation : relocations) {
    if (relocation.kind != Relocation::Kind::relative) continue;
    const Address descriptor = relocation.address - kStart;
    const CodeBytes* part = containing(object.data, descriptor);
    if (part == nullptr || descriptor + kSize > part->range().end) continue;
    const uint64_t length = load<uint64_t>(part->bytes, descriptor + kLength - part->address);
    if (length == 0 || length > kLongest) continue;
    for (const Relocation& other : relocations)
      if (other.kind == Relocation::Kind::relative && other.address == descriptor + kAbort)
        consider(static_cast<Address>(relocation.addend), length,
                 static_cast<Address>(other.addend));
  }
  return ranges;
}

}  // namespace pinprick::image
