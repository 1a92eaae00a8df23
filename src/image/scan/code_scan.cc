#include "image/scan/code_scan.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <map>

#include "arch/code.h"
#include "arch/computed_jump.h"
#include "base/task.h"

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

// A piece of text: from the start of one function to that of the next, or to its own end; or what
// lies between functions. Decoding restarts at each.
struct Region {
  const CodeBytes* text;
  Range range;
  bool owned;  // by a function, or several
};

// A jump among blocks of one size, and the code that shows it. Nothing may enter this code except
// at its first instruction.
struct BlockJump {
  arch::ComputedJump jump;
  Range code;
};

// How a function, or a gap between functions, jumps to registers; without jumps among blocks.
struct RegisterJumps {
  bool any = false;
  bool by_sum = false;  // right after `add %reg, %reg`: a relative table
  // Right after `add table(,%reg,8), %reg`: one of whole words (-mcmodel=large), which is not read.
  bool by_wide_sum = false;
};

struct Addresses {
  std::vector<Address> taken;    // by instructions, anywhere
  std::vector<Address> indexed;  // those of `taken` to which an index is added in a memory operand
};

// What decoding all text finds.
struct TextFacts {
  struct Piece : Addresses {                                // several regions, one after the other
    std::vector<std::pair<size_t, BlockJump>> block_jumps;  // with the index of the region
  };
  struct OfRegion {
    RegisterJumps jumps;
    std::span<const Address> taken, indexed;  // the region's part of the piece's
  };
  std::vector<Piece> pieces;
  std::vector<OfRegion> regions;

  template <class F>
  void for_each_block_jump(F&& use) const {
    for (const Piece& piece : pieces)
      for (const auto& [region, jump] : piece.block_jumps) use(region, jump);
  }
};

// The same for one function.
struct FunctionJumps : Addresses {
  RegisterJumps jumps;

  void merge(const TextFacts::OfRegion& region) {
    taken.insert(taken.end(), region.taken.begin(), region.taken.end());
    indexed.insert(indexed.end(), region.indexed.begin(), region.indexed.end());
    jumps.any |= region.jumps.any;
    jumps.by_sum |= region.jumps.by_sum;
    jumps.by_wide_sum |= region.jumps.by_wide_sum;
  }
};

class Scanner {
 public:
  Scanner(const ObjectBytes& object, BranchTargets& targets) : object_(object), targets_(targets) {}

  // Decodes a region, and adds what it finds to `piece`. Threads may do this at once. `index` is
  // that of the region.
  RegisterJumps decode_region(const Region& region, size_t index, TextFacts::Piece& piece);
  // Adds the addresses in `code` at which blocks of such a jump may start.
  void add_blocks(const arch::ComputedJump& jump, Range code);
  // Adds the targets of a table in [table, end). Returns whether it looks like a table, and cannot
  // change.
  bool follow_relative_table(Address table, Address end);
  // Adds the targets of a table in data whose entries are distances from `base`; takes everything
  // up to `end`, so that what is not an entry adds an unneeded target.
  void follow_table_from(Address base, Address table, Address end);
  // Adds the targets of a table of 4-byte addresses in data, whose address some instruction takes:
  // all entries up to the first that is not in text.
  void follow_half_words(Address table);
  // The same for code that adds an index to the address and jumps to a register. The first index
  // may be any number, and the address then lies that much before the table. So all that looks like
  // an entry counts, far beyond the address.
  void follow_half_words_after(Address table);
  // Returns whether the first entries of such a table lead into `range`, which other data hardly
  // ever does.
  bool leads_into(Range range, Address base, Address table, Address end) const;
  // Returns whether the program could have written another table there.
  bool may_change(Address table) const;
  bool in_data(Address address) const { return containing(object_.data, address) != nullptr; }
  // Adds the words of `part` that are addresses of text.
  void scan_words(const CodeBytes& part);
  // Of the words found so far, and those that relocations make: a run of adjacent ones consists of
  // pointers to functions if all lead to starts of functions. A table that contains labels is a
  // table of labels.
  void tell_pointers_from_labels(const FunctionTable& functions,
                                 std::span<const Relocation> relocations);
  // Adds 4-byte words in text between functions. Many numbers look like 4-byte addresses, so
  // elsewhere a table of them counts only if code takes its address.
  void scan_half_words(const CodeBytes& part, Range range);
  bool in_text(Address address) const { return containing(object_.text, address) != nullptr; }

 private:
  struct Pointer {
    Address at = 0;
    Address to = 0;
    auto operator<=>(const Pointer&) const = default;
  };

  const ObjectBytes& object_;
  BranchTargets& targets_;
  std::vector<Pointer> pointers_;
};

// Adds more than the starts of instructions: data in the code can make decoding miss these.
void Scanner::add_blocks(const arch::ComputedJump& jump, Range code) {
  const Address first = code.begin + (jump.base - code.begin) % jump.stride;
  for (Address at = jump.only_up && code.contains(jump.base) ? jump.base : first;
       at >= code.begin && at < code.end; at += jump.stride)
    targets_.add(at);
}

// The instructions before a jump to a register that are executed with it, and only with it, unless
// a branch leads between them.
class StraightCode {
 public:
  void pass(const arch::Instruction& instruction) {
    if (instruction.flow != arch::Flow::next)
      count_ = 0;
    else
      starts_[count_++ % kMost] = instruction.address;
  }
  // Returns the least code that shows where the jump leads. More code never shows less.
  std::optional<BlockJump> explain(const CodeBytes& text, const arch::Instruction& jump) const {
    std::optional<BlockJump> least;
    for (size_t n = std::min(count_, kMost); n > 0; --n) {
      const Range code = {starts_[(count_ - n) % kMost], jump.end()};
      const auto bytes = text.bytes.subspan(code.begin - text.address, code.size());
      const auto found = arch::computed_jump(bytes, code.begin);
      if (!found || (least && *found != least->jump)) break;
      least = BlockJump{*found, code};
    }
    return least;
  }

 private:
  static constexpr size_t kMost = 8;
  std::array<Address, kMost> starts_{};
  size_t count_ = 0;
};

RegisterJumps Scanner::decode_region(const Region& region, size_t index, TextFacts::Piece& piece) {
  const CodeBytes& text = *region.text;
  RegisterJumps jumps;
  const size_t first_taken = piece.taken.size();
  StraightCode straight;
  arch::Special before = arch::Special::none;
  for (Address at = region.range.begin; at < region.range.end;) {
    const auto bytes = text.bytes.subspan(at - text.address, region.range.end - at);
    const auto instruction = arch::decode(bytes, at);
    if (!instruction) {
      ++at;
      straight = {};
      continue;
    }
    if (instruction->flow == arch::Flow::call)
      targets_.add_callee(instruction->target);
    else if (instruction->has_target())
      targets_.add(instruction->target);
    if (instruction->has_rip_operand) {
      if (instruction->special == arch::Special::lea)
        piece.taken.push_back(instruction->memory);
      else if (instruction->memory - text.address < text.bytes.size())
        targets_.add(instruction->memory);  // data among the code, which must stay as it is
    }
    if (object_.fixed_addresses && instruction->immediate_size >= 4)
      piece.taken.push_back(instruction->immediate);
    // table(,%reg,8), and `lea label(%reg), %reg` before a jump there. The operand of a jump counts
    // in all objects: in assembly even position-independent ones have it.
    if (instruction->has_memory_operand && !instruction->has_rip_operand &&
        instruction->displacement_size == 4 &&
        (object_.fixed_addresses || instruction->flow == arch::Flow::jump_indirect)) {
      piece.taken.push_back(static_cast<Address>(instruction->displacement));
      piece.indexed.push_back(piece.taken.back());
    }
    if (instruction->flow == arch::Flow::jump_indirect && !instruction->has_memory_operand) {
      const bool by_sum = before == arch::Special::add_register;
      const auto among_blocks = by_sum || before == arch::Special::lea
                                    ? straight.explain(text, *instruction)
                                    : std::nullopt;
      if (among_blocks) {
        piece.block_jumps.emplace_back(index, *among_blocks);
      } else {
        jumps.any = true;
        jumps.by_sum |= by_sum;
        jumps.by_wide_sum |= before == arch::Special::add_memory;
      }
    }
    straight.pass(*instruction);
    before = instruction->special;
    at = instruction->end();
  }
  for (Address address : std::span(piece.taken).subspan(first_taken)) targets_.add_callee(address);
  return jumps;
}

void Scanner::follow_table_from(Address base, Address table, Address end) {
  const CodeBytes* part = containing(object_.data, table);
  if (part == nullptr) return;
  const uint64_t last = std::min(end, part->range().end) - part->address;
  for (uint64_t at = table - part->address; at + 4 <= last; at += 4)
    targets_.add(base + static_cast<uint64_t>(int64_t{load<int32_t>(part->bytes, at)}));
}

bool Scanner::leads_into(Range range, Address base, Address table, Address end) const {
  constexpr uint64_t kEntries = 2;
  const CodeBytes* part = containing(object_.data, table);
  if (part == nullptr || std::min(end, part->range().end) - table < 4 * kEntries) return false;
  for (uint64_t i = 0; i < kEntries; ++i) {
    const auto distance = load<int32_t>(part->bytes, table - part->address + 4 * i);
    if (!range.contains(base + static_cast<uint64_t>(int64_t{distance}))) return false;
  }
  return true;
}

bool Scanner::may_change(Address table) const {
  return std::any_of(object_.changing.begin(), object_.changing.end(),
                     [&](Range range) { return range.contains(table); });
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
  return any && !may_change(table);
}

void Scanner::follow_half_words(Address table) {
  const CodeBytes* part = containing(object_.data, table);
  if (part == nullptr || !object_.fixed_addresses) return;
  for (uint64_t at = table - part->address; at + 4 <= part->bytes.size(); at += 4) {
    const Address target = load<uint32_t>(part->bytes, at);
    if (!in_text(target)) return;
    targets_.add(target);
  }
}

void Scanner::follow_half_words_after(Address table) {
  constexpr uint64_t kFar = 4096;
  const CodeBytes* part = containing(object_.data, table);
  if (part == nullptr || !object_.fixed_addresses) return;
  const uint64_t first = table - part->address;
  const uint64_t last = std::min<uint64_t>(part->bytes.size(), first + kFar);
  for (uint64_t at = first; at + 4 <= last; at += 4)
    if (const Address target = load<uint32_t>(part->bytes, at); in_text(target))
      targets_.add(target);
}

void Scanner::scan_words(const CodeBytes& part) {
  for (Address at = align_up(part.address, 8); at + 8 <= part.range().end; at += 8) {
    const Address to = load<uint64_t>(part.bytes, at - part.address) - object_.bias;
    if (!in_text(to)) continue;
    targets_.add(to);
    // Elsewhere a relocation makes a word an address, and its addend looks like one, too.
    if (object_.fixed_addresses) pointers_.push_back({at, to});
  }
}

void Scanner::tell_pointers_from_labels(const FunctionTable& functions,
                                        std::span<const Relocation> relocations) {
  for (const Relocation& relocation : relocations) {
    const auto to = static_cast<Address>(relocation.addend);
    if (relocation.kind == Relocation::Kind::relative && in_text(to))
      pointers_.push_back({relocation.address, to});
  }
  std::sort(pointers_.begin(), pointers_.end());
  pointers_.erase(std::unique(pointers_.begin(), pointers_.end()), pointers_.end());
  const auto leads_to_function = [&](const Pointer& pointer) {
    return functions.starts_at(pointer.to);
  };
  for (auto run = pointers_.begin(); run != pointers_.end();) {
    auto end = std::next(run);
    while (end != pointers_.end() && end->at - std::prev(end)->at <= 8) ++end;
    if (std::all_of(run, end, leads_to_function))
      for (; run != end; ++run) targets_.add_callee(run->to);
    run = end;
  }
}

void Scanner::scan_half_words(const CodeBytes& part, Range range) {
  if (!object_.fixed_addresses) return;
  for (Address at = align_up(range.begin, 4); at + 4 <= range.end; at += 4)
    targets_.add(load<uint32_t>(part.bytes, at - part.address));
}

void add_regions_of(const CodeBytes& text, const FunctionTable& functions,
                    std::vector<Region>& regions) {
  const Range range = text.range();
  Address at = range.begin;
  const auto& all = functions.functions();
  auto next = std::lower_bound(
      all.begin(), all.end(), range.begin,
      [](const Function& function, Address a) { return function.range.begin < a; });
  Address owned = 0;  // up to here, by functions that start before
  for (auto before = all.begin(); before != next; ++before)
    owned = std::max(owned, before->range.end);
  for (; next != all.end() && next->range.begin < range.end; ++next) {
    if (at < next->range.begin) regions.push_back({&text, {at, next->range.begin}, owned > at});
    Address end = std::min(next->range.end, range.end);
    if (std::next(next) != all.end()) end = std::min(end, std::next(next)->range.begin);
    regions.push_back({&text, {next->range.begin, end}, true});
    at = std::max(at, end);
    owned = std::max(owned, next->range.end);
  }
  if (at < range.end) regions.push_back({&text, {at, range.end}, owned > at});
}

// Returns where pieces of regions start that take about the same time, and the end of the last.
std::vector<size_t> pieces_of(const std::vector<Region>& regions) {
  constexpr uint64_t kPieceBytes = 256 << 10;  // about a millisecond
  std::vector<size_t> starts;
  uint64_t bytes = 0;
  for (size_t i = 0; i < regions.size(); ++i) {
    if (starts.empty() || bytes >= kPieceBytes) {
      starts.push_back(i);
      bytes = 0;
    }
    bytes += regions[i].range.size();
  }
  starts.push_back(regions.size());
  return starts;
}

// The functions that a piece of text belongs to: both, where one lies inside another.
class Owners {
 public:
  explicit Owners(const std::vector<Function>& functions) : functions_(functions) {
    Address last = 0;
    for (const Function& function : functions)
      ends_.push_back(last = std::max(last, function.range.end));
  }

  // use(index into the functions)
  template <class F>
  void for_each(Range region, F&& use) const {
    const auto above =
        std::lower_bound(functions_.begin(), functions_.end(), region.end,
                         [](const Function& f, Address a) { return f.range.begin < a; });
    for (auto i = static_cast<size_t>(above - functions_.begin());
         i-- > 0 && ends_[i] > region.begin;)
      if (functions_[i].range.overlaps(region)) use(i);
  }

 private:
  const std::vector<Function>& functions_;
  std::vector<Address> ends_;  // the highest end of the functions up to this one
};

// Decodes all text, on all threads.
TextFacts decode_text(Scanner& scanner, const std::vector<Region>& regions, size_t threads) {
  const auto starts = pieces_of(regions);
  TextFacts facts;
  facts.pieces.resize(starts.size() - 1);
  facts.regions.resize(regions.size());
  for_each_piece(facts.pieces.size(), threads, [&](size_t number) {
    TextFacts::Piece& piece = facts.pieces[number];
    const size_t first = starts[number], end = starts[number + 1];
    std::vector<std::pair<size_t, size_t>> ends;  // for each region, in the piece's addresses
    ends.reserve(end - first);
    for (size_t i = first; i < end; ++i) {
      const Region& region = regions[i];
      advance(region.range.size());
      if (!region.owned) scanner.scan_half_words(*region.text, region.range);
      facts.regions[i].jumps = scanner.decode_region(region, i, piece);
      ends.emplace_back(piece.taken.size(), piece.indexed.size());
    }
    size_t taken = 0, indexed = 0;
    for (size_t i = first; i < end; ++i) {
      const auto [end_of_taken, end_of_indexed] = ends[i - first];
      facts.regions[i].taken = std::span(piece.taken).subspan(taken, end_of_taken - taken);
      facts.regions[i].indexed =
          std::span(piece.indexed).subspan(indexed, end_of_indexed - indexed);
      taken = end_of_taken;
      indexed = end_of_indexed;
    }
  });
  return facts;
}

std::vector<Address> taken_by(const TextFacts& facts) {
  std::vector<Address> all;
  for (const TextFacts::Piece& piece : facts.pieces)
    all.insert(all.end(), piece.taken.begin(), piece.taken.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

// Returns the functions that jump to computed addresses, by index, with what decoding all of their
// text found.
std::map<size_t, FunctionJumps> computed_jumps(const std::vector<Region>& regions,
                                               const TextFacts& facts,
                                               const std::vector<Function>& functions,
                                               const Owners& owners) {
  std::map<size_t, FunctionJumps> of_function;
  for (size_t i = 0; i < regions.size(); ++i)
    if (facts.regions[i].jumps.any)
      owners.for_each(regions[i].range, [&](size_t owner) { of_function.try_emplace(owner); });
  std::vector<Function> those;
  std::vector<FunctionJumps*> jumps;
  for (auto& [function, its_jumps] : of_function) {
    those.push_back(functions[function]);
    jumps.push_back(&its_jumps);
  }
  if (those.empty()) return of_function;
  const Owners owners_that_jump(those);
  for (size_t i = 0; i < regions.size(); ++i)
    owners_that_jump.for_each(regions[i].range,
                              [&](size_t owner) { jumps[owner]->merge(facts.regions[i]); });
  return of_function;
}

}  // namespace

BranchTargets find_branch_targets(const ObjectBytes& object, const FunctionTable& functions,
                                  std::span<const Relocation> relocations,
                                  std::span<const Address> landing_pads, size_t threads) {
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
  // In the file of a position-independent object only relocations make addresses, and small numbers
  // look like addresses.
  const bool as_loaded = object.fixed_addresses || object.bias != 0;
  if (as_loaded || relocations.empty()) {
    for (const CodeBytes& part : object.data) scanner.scan_words(part);
    // In objects with only one segment, read-only data is in the text. Code hardly ever looks like
    // an 8-byte address; it often does like a 4-byte one, so these count only between functions.
    for (const CodeBytes& part : object.text) scanner.scan_words(part);
  }
  check_cancelled();
  scanner.tell_pointers_from_labels(functions, relocations);
  check_cancelled();

  std::vector<Region> regions;
  regions.reserve(2 * functions.functions().size() + object.text.size());
  for (const CodeBytes& part : object.text) add_regions_of(part, functions, regions);
  const Owners owners(functions.functions());
  const TextFacts facts = decode_text(scanner, regions, threads);

  // Tables lie back to back: one ends at the next address that any instruction takes, in any
  // function, since one function may set up the base for a jump in another.
  const std::vector<Address> taken = taken_by(facts);
  const auto end_of_table = [&](Address table) {
    const auto next = std::upper_bound(taken.begin(), taken.end(), table);
    return next == taken.end() ? UINT64_MAX : *next;
  };
  const auto follow = [&](Address table) {
    return scanner.follow_relative_table(table, end_of_table(table));
  };
  // In text, too: in objects with only one segment, read-only data is there. Code that is not a
  // table nearly always ends at the first word.
  for (Address table : taken) {
    check_cancelled();
    follow(table);
    scanner.follow_half_words(table);
  }
  for (size_t i = 0; i < regions.size(); ++i)  // code between functions
    if (facts.regions[i].jumps.any && !regions[i].owned)
      for (Address table : facts.regions[i].indexed) scanner.follow_half_words_after(table);
  facts.for_each_block_jump([&](size_t at, const BlockJump& among) {
    const auto add_around = [&](Range region) {
      scanner.add_blocks(among.jump, region);
      owners.for_each(region, [&](size_t owner) {
        scanner.add_blocks(among.jump, functions.functions()[owner].range);
      });
    };
    add_around(regions[at].range);
    for (const Region& region : regions)
      if (region.range.contains(among.jump.base)) add_around(region.range);
  });
  for (const auto& [function, found] :
       computed_jumps(regions, facts, functions.functions(), owners)) {
    check_cancelled();
    const auto& own = found.taken;
    const bool by_sum = found.jumps.by_sum;
    const Range range = functions.functions()[function].range;
    for (Address table : found.indexed) scanner.follow_half_words_after(table);
    const bool has_table = by_sum && std::any_of(own.begin(), own.end(), follow);
    std::vector<Address> labels, tables;
    for (Address address : own) {
      if (range.contains(address)) labels.push_back(address);
      if (scanner.in_data(address)) tables.push_back(address);
    }
    const bool computes_own_inside = std::any_of(
        labels.begin(), labels.end(), [&](Address label) { return label != range.begin; });
    // goto *(&&label + table[i]): which label belongs to which table is not visible, so that all
    // pairs are taken.
    constexpr size_t kMostPairs = 4096;
    const auto is_table_from = [&](Address table, Address label) {
      return scanner.leads_into(range, label, table, end_of_table(table));
    };
    const auto leads_by_distance = [&](Address table) {
      return std::any_of(labels.begin(), labels.end(),
                         [&](Address label) { return is_table_from(table, label); });
    };
    const bool may_have_distances =
        by_sum && computes_own_inside && labels.size() * tables.size() <= kMostPairs;
    if (!may_have_distances || std::none_of(tables.begin(), tables.end(), leads_by_distance))
      tables.clear();
    for (Address table : tables)
      for (Address label : labels) scanner.follow_table_from(label, table, end_of_table(table));
    const bool by_distance = std::any_of(tables.begin(), tables.end(), [&](Address table) {
      return !scanner.may_change(table) && leads_by_distance(table);
    });
    if ((by_sum && !has_table && !by_distance) || (computes_own_inside && !by_distance) ||
        found.jumps.by_wide_sum)
      targets.mark_unresolved_jump(range.begin);
  }
  // Now all targets are known.
  facts.for_each_block_jump([&](size_t at, const BlockJump& among) {
    owners.for_each(regions[at].range, [&](size_t owner) {
      targets.mark_unresolved_jump_if_entered(functions.functions()[owner].range.begin,
                                              {among.code.begin + 1, among.code.end});
    });
  });
  return targets;
}

namespace {

bool any_contains(std::span<const Range> ranges, Address address) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const Range& range) { return range.contains(address); });
}

}  // namespace

std::vector<Address> find_pointers_to_text(std::span<const CodeBytes> data, uint64_t bias,
                                           std::span<const Range> text) {
  std::vector<Address> found;
  for (const CodeBytes& part : data) {
    check_cancelled();
    for (Address at = align_up(part.address, 8); at + 8 <= part.range().end; at += 8) {
      const Address to = load<uint64_t>(part.bytes, at - part.address) - bias;
      if (any_contains(text, to)) found.push_back(to);
    }
  }
  return found;
}

namespace {

using CodeAt = std::function<std::span<const uint8_t>(Range)>;

// struct rseq_cs: u32 version, u32 flags, u64 start, u64 length, u64 abort. In a file, the
// addresses may be addends of relocations.
class SequenceSearch {
 public:
  static constexpr uint64_t kSize = 32, kStart = 8, kLength = 16, kAbort = 24;
  static constexpr uint64_t kSignature = 4;   // its size
  static constexpr uint64_t kLongest = 4096;  // of a sequence; real ones have 10 instructions

  SequenceSearch(std::span<const Range> text, const CodeAt& code_at)
      : text_(text), code_at_(code_at) {}

  void consider(Address start, uint64_t length, Address abort);
  bool follows_signature(Address abort) const;
  void search(const CodeBytes& part, uint64_t bias);
  std::vector<Range> take() { return std::move(ranges_); }

 private:
  std::span<const Range> text_;
  const CodeAt& code_at_;
  std::vector<Range> ranges_;
};

void SequenceSearch::consider(Address start, uint64_t length, Address abort) {
  constexpr uint64_t kAnnouncement = 16;  // the store of the descriptor's address, before start
  if (length == 0 || length > kLongest || !any_contains(text_, start) || !follows_signature(abort))
    return;
  ranges_.push_back({start - kAnnouncement, start + length});
  ranges_.push_back({abort - kSignature, abort + 1});
}

bool SequenceSearch::follows_signature(Address abort) const {
  if (abort < kSignature) return false;
  const auto signature = code_at_({abort - kSignature, abort});
  return signature.size() == kSignature && load<uint32_t>(signature, 0) == arch::kRseqSignature;
}

void SequenceSearch::search(const CodeBytes& part, uint64_t bias) {
  check_cancelled();
  const uint64_t first = align_up(part.address, 8) - part.address;
  for (uint64_t at = first; at + kSize <= part.bytes.size(); at += 8) {
    if (load<uint64_t>(part.bytes, at) != 0) continue;
    consider(load<uint64_t>(part.bytes, at + kStart) - bias,
             load<uint64_t>(part.bytes, at + kLength),
             load<uint64_t>(part.bytes, at + kAbort) - bias);
  }
}

}  // namespace

std::vector<Range> find_restartable_sequences_in_data(std::span<const CodeBytes> data,
                                                      uint64_t bias, std::span<const Range> text,
                                                      const CodeAt& code_at) {
  SequenceSearch sequences(text, code_at);
  for (const CodeBytes& part : data) sequences.search(part, bias);
  return sequences.take();
}

std::vector<Range> find_restartable_sequences(const ObjectBytes& object,
                                              std::span<const Relocation> relocations) {
  using Search = SequenceSearch;
  std::vector<Range> text;
  for (const CodeBytes& part : object.text) text.push_back(part.range());
  const CodeAt code_at = [&](Range range) -> std::span<const uint8_t> {
    const CodeBytes* const part = containing(object.text, range.begin);
    if (part == nullptr || !part->range().contains(range)) return {};
    return part->bytes.subspan(range.begin - part->address, range.size());
  };
  Search sequences(text, code_at);
  for (const CodeBytes& part : object.data) sequences.search(part, object.bias);
  // Read-only data, if it is in the same segment.
  for (const CodeBytes& part : object.text) sequences.search(part, object.bias);
  if (object.bias != 0) return sequences.take();
  // A library may have millions of relocations, and most numbers that follow an address are short
  // enough for a length. Signatures are rare: those before an abort address come first.
  std::map<Address, Address> aborts;  // by the descriptor's address
  for (const Relocation& relocation : relocations) {
    const auto abort = static_cast<Address>(relocation.addend);
    if (relocation.kind == Relocation::Kind::relative && sequences.follows_signature(abort))
      aborts.emplace(relocation.address - Search::kAbort, abort);
  }
  if (aborts.empty()) return sequences.take();
  for (const Relocation& relocation : relocations) {
    const auto found = aborts.find(relocation.address - Search::kStart);
    if (relocation.kind != Relocation::Kind::relative || found == aborts.end()) continue;
    const auto& [descriptor, abort] = *found;
    const CodeBytes* part = containing(object.data, descriptor);
    if (part == nullptr || descriptor + Search::kSize > part->range().end) continue;
    sequences.consider(static_cast<Address>(relocation.addend),
                       load<uint64_t>(part->bytes, descriptor + Search::kLength - part->address),
                       abort);
  }
  return sequences.take();
}

}  // namespace pinprick::image
