#include "engine/memory/kept_memory.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <set>

#include "arch/jump.h"
#include "arch/stub.h"
#include "base/task.h"
#include "image/moved_text.h"
#include "placement/island_space.h"

namespace pinprick::engine {
namespace {

using layout::MappingEntry;
using layout::SiteEntry;
using KeptJump = std::array<uint8_t, kKeptJumpLength>;

constexpr uint64_t kKeptStubs = 0x3154'5045'4b4e'5050;  // "PPNKEPT1"
constexpr uint64_t kKeptCode = 0x3254'5045'4b4e'5050;   // "PPNKEPT2"
constexpr uint64_t kMostMarked = 256 << 20;

struct KeptMark {
  uint64_t magic = 0;
  uint64_t size = 0;
};
static_assert(sizeof(KeptMark) == placement::kKeptMarkSize);

// Returns the size of the kept memory that starts there, and ends before `end`; 0: none does.
uint64_t marked_size(const target::Memory& memory, Address at, Address end, uint64_t magic) {
  KeptMark mark;
  const bool is_marked = memory.read_value(at, mark) && mark.magic == magic &&
                         mark.size % kPageSize == 0 && mark.size <= kMostMarked &&
                         mark.size <= end - at;
  return is_marked ? mark.size : 0;
}

bool by_address(Range a, Range b) {
  return a.begin < b.begin;
}

const MappingEntry* mapping_around(const layout::Session& journal, MappingEntry::Kind kind,
                                   Address address) {
  const auto found = std::find_if(
      journal.mappings.begin(), journal.mappings.end(), [&](const MappingEntry& entry) {
        return entry.kind == kind && address - entry.address < entry.size;
      });
  return found == journal.mappings.end() ? nullptr : &*found;
}

// Adds the pages to `kept`: one range from the first to the last, and the unused gaps in it.
void keep_pages(const std::set<Address>& pages, KeptMemory& kept) {
  if (pages.empty()) return;
  // Each unused gap costs the target a system call.
  constexpr uint64_t kWorthwhile = 4 * kPageSize;
  Address end = *pages.begin();
  for (Address page : pages) {
    if (page - end >= kWorthwhile) kept.unused.push_back({end, page});
    end = page + kPageSize;
  }
  kept.ranges.push_back({*pages.begin(), end});
  kept.slot_bytes += pages.size() * kPageSize;
}

Result<void, SystemError> keep_slots(const target::Memory& memory, const layout::Session& journal,
                                     const SlotUse& use, KeptMemory& kept) {
  std::set<Address> data, code;
  for (size_t i : use.kept) {
    const Address slot = use.address + i * sizeof(layout::Slot);
    const Address code_of_slot = use.first_code() + i * arch::kSlotCodeSize;
    // The target's memory is not trusted.
    if (mapping_around(journal, MappingEntry::Kind::runtime_data, slot) == nullptr ||
        mapping_around(journal, MappingEntry::Kind::runtime_code, code_of_slot) == nullptr)
      continue;
    if (auto written = memory.write_value(code_of_slot + arch::kSlotLeaves, arch::kSlotReturns);
        !written)
      return written;
    data.insert(align_down(slot, kPageSize));
    code.insert(align_down(code_of_slot, kPageSize));
  }
  keep_pages(data, kept);
  if (code.empty()) return {};
  // No thread gets to the code of other slots any more, so that the mark may lie there.
  const Address first = *code.begin();
  const bool is_free = std::none_of(use.kept.begin(), use.kept.end(), [&](size_t i) {
    return use.first_code() + i * arch::kSlotCodeSize < first + sizeof(KeptMark) &&
           first < use.first_code() + (i + 1) * arch::kSlotCodeSize;
  });
  const bool has_more =
      mapping_around(journal, MappingEntry::Kind::runtime_code, first - kPageSize) != nullptr;
  if (!is_free && has_more) code.insert(first - kPageSize);
  keep_pages(code, kept);
  if (is_free || has_more) kept.code.push_back(kept.ranges.back());
  return {};
}

// Is the site the first byte of a function, where our jump may have been taken for the function's?
bool may_site_be_known(const SiteEntry& site) {
  using Phase = SiteEntry::Phase;
  // A removed probe was in the text as well.
  const auto phase = site.phase == Phase::removed ? static_cast<Phase>(site.before) : site.phase;
  return site.at_start != 0 && site.length == layout::kLongSiteLength && site.displaced != 0 &&
         (phase == Phase::usual || phase == Phase::dependent);
}

std::optional<KeptJump> jump_back(Address from, Address to) {
  if (!arch::reaches(from + kKeptJumpLength, to)) return std::nullopt;
  KeptJump jump{};
  arch::encode_jump(jump, static_cast<int32_t>(to - from - kKeptJumpLength));
  return jump;
}

Result<void, SystemError> keep_stubs(const target::Memory& memory, const layout::Session& journal,
                                     const std::vector<Range>& own, KeptMemory& kept) {
  std::map<Address, Address> end_of;  // end of the kept part of an arena, by the arena's address
  std::map<Address, bool> has_mark;   // may a page of islands have a mark at its start?
  for (const SiteEntry& site : journal.sites) {
    if (!may_site_be_known(site)) continue;
    const Address at = site.target();
    if (std::none_of(own.begin(), own.end(), [&](Range range) { return range.contains(at); }))
      continue;
    if (const auto* arena = mapping_around(journal, MappingEntry::Kind::stubs, at)) {
      const auto jump = jump_back(at, site.address);
      if (!jump) continue;
      if (auto written = memory.write(at, *jump); !written) return written;
      Address& end = end_of[arena->address];
      end = std::max(end, align_up(at + jump->size(), kPageSize));
    } else if (mapping_around(journal, MappingEntry::Kind::islands, at) != nullptr) {
      // A pun's island: an indirect jump, through the word after it. At the end of the pun's reach
      // there may be none back.
      const auto jump = jump_back(at, site.address);
      const Address home = site.address;  // which is packed
      const auto written =
          jump ? memory.write(at, *jump) : memory.write_value(at + arch::kIndirectJumpLength, home);
      if (!written) return written;
      const Address page = align_down(at, kPageSize);
      has_mark.try_emplace(page, true).first->second &= at - page >= sizeof(KeptMark);
    }
  }
  for (const auto& [page, is_marked] : has_mark) {
    kept.ranges.push_back({page, page + kPageSize});
    if (is_marked) kept.stubs.push_back(kept.ranges.back());
  }
  for (const auto& [begin, end] : end_of) {
    kept.ranges.push_back({begin, end});
    kept.stubs.push_back({begin, end});
  }
  return {};
}

}  // namespace

Result<KeptMemory, SystemError> keep_what_is_needed(const target::Memory& memory,
                                                    const layout::Session& journal,
                                                    const SlotUse& use,
                                                    const std::vector<image::Mapping>& maps,
                                                    const SessionCode& code) {
  KeptMemory kept;
  // Text that was moved is what it was in its file.
  std::vector<Range> known = image::moved_text(maps);
  known.insert(known.end(), code.all.begin(), code.all.end());
  if (has_generated_code(memory, maps, known))
    if (auto done = keep_stubs(memory, journal, code.own, kept); !done) return fail(done.error());
  std::sort(kept.ranges.begin(), kept.ranges.end(), by_address);
  Address end = 0;  // puns share pages
  for (Range range : kept.ranges) {
    kept.stub_bytes += range.end - std::min(range.end, std::max(range.begin, end));
    end = std::max(end, range.end);
  }
  if (auto done = keep_slots(memory, journal, use, kept); !done) return fail(done.error());
  std::sort(kept.ranges.begin(), kept.ranges.end(), by_address);
  return kept;
}

void mark_kept(const target::Memory& memory, const KeptMemory& kept) {
  for (Range range : kept.stubs)
    static_cast<void>(memory.write_value(range.begin, KeptMark{kKeptStubs, range.size()}));
  for (Range range : kept.code)
    static_cast<void>(memory.write_value(range.begin, KeptMark{kKeptCode, range.size()}));
}

bool has_generated_code(const target::Memory& memory, const std::vector<image::Mapping>& maps,
                        std::span<const Range> ours) {
  // Adjacent anonymous memory appears as one mapping, ours together with the program's.
  for (const image::Mapping& mapping : maps) {
    if (!image::is_anonymous_code(mapping)) continue;
    for (Address at = mapping.range.begin; at < mapping.range.end;) {
      const auto own =
          std::find_if(ours.begin(), ours.end(), [&](Range range) { return range.contains(at); });
      if (own != ours.end()) {
        at = own->end;
        continue;
      }
      uint64_t size = marked_size(memory, at, mapping.range.end, kKeptStubs);
      if (size == 0) size = marked_size(memory, at, mapping.range.end, kKeptCode);
      if (size == 0 || mapping.writable) return true;
      at += size;
    }
  }
  return false;
}

std::vector<Range> not_kept(Range whole, const KeptMemory& kept) {
  std::vector<Range> parts;
  Address at = whole.begin;
  for (Range range : kept.ranges) {
    if (!range.overlaps(whole)) continue;
    if (range.begin > at) parts.push_back({at, range.begin});
    at = std::max(at, range.end);
  }
  if (at < whole.end) parts.push_back({at, whole.end});
  return parts;
}

std::map<Address, Address> kept_stubs(pid_t pid, const target::Memory& memory,
                                      const std::vector<image::Mapping>& maps) {
  // A process may map any amount, and a look at a page that it has not touched gives it memory.
  uint64_t left = uint64_t{16} << 30;
  std::map<Address, Address> found;
  std::vector<uint8_t> bytes;
  const auto look_through = [&](Range range) {
    bytes.resize(range.size());
    if (!memory.read(range.begin, bytes)) return;
    for (size_t i = 0; i + kKeptJumpLength <= bytes.size(); ++i) {
      const auto distance = arch::jump_distance(std::span(bytes).subspan(i, kKeptJumpLength));
      if (!distance) continue;
      const Address at = range.begin + i;
      found.emplace(at + kKeptJumpLength + static_cast<uint64_t>(int64_t{*distance}), at);
    }
  };
  // Some pages of what is marked may never have been written: the stubs of an object are built in
  // several pieces, each with some room to spare.
  Address end_of_marked = 0;
  const auto look_at = [&](Range pages, Address end_of_mapping) {
    for (Address at = pages.begin; at < pages.end;) {
      check_cancelled();
      if (at >= end_of_marked) {
        const uint64_t size = marked_size(memory, at, end_of_mapping, kKeptStubs);
        end_of_marked = size != 0 ? at + size : 0;
      }
      const Address end = end_of_marked == 0 ? at + kPageSize : std::min(pages.end, end_of_marked);
      if (end_of_marked != 0) look_through({at, end});
      at = end;
    }
  };
  for (const image::Mapping& mapping : maps) {
    if (!image::is_anonymous_code(mapping) || mapping.writable || mapping.inode != 0) continue;
    const uint64_t size = std::min(mapping.range.size(), left);
    left -= size;
    const Range some = {mapping.range.begin, mapping.range.begin + size};
    const auto pages = image::own_pages(pid, some);
    if (pages)
      for (const Range run : *pages) look_at(run, mapping.range.end);
    else if (size <= kMostMarked)  // this kernel does not tell
      look_at(some, mapping.range.end);
  }
  return found;
}

}  // namespace pinprick::engine
