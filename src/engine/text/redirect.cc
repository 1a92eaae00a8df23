#include "engine/text/redirect.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "arch/code.h"
#include "arch/stub.h"
#include "arch/syscall.h"

namespace pinprick::engine {
namespace {

// Out-of-line copies of the instructions between two probes of a site.
struct CopiedRun {
  Address address = 0;
  const layout::SiteEntry* site = nullptr;
  uint8_t begin = 0;  // of the instructions, from the site's address
  uint8_t end = 0;
};

std::vector<CopiedRun> copied_runs(const layout::Session& journal) {
  std::vector<CopiedRun> runs;
  for (const layout::SiteEntry& site : journal.sites)
    // The text of hooks in unwinders is only restored when no thread is in their stubs, and that of
    // unloaded objects never. Where text was restored before the session ended, another one may
    // have displaced other instructions since.
    if (site.displaced != 0 && site.copy_distance != 0 &&
        site.phase != layout::SiteEntry::Phase::unwinder_hook && site.is_in_text())
      runs.push_back(
          {site.address + static_cast<uint64_t>(int64_t{site.copy_distance}), &site, 0, 0});
  for (const layout::ProbeEntry& probe : journal.probes) {
    const layout::SiteEntry& site = journal.sites[probe.site];
    const Address first = site.address + static_cast<uint64_t>(int64_t{site.copy_distance});
    if (probe.offset != 0 && site.copy_distance != 0 &&
        site.phase != layout::SiteEntry::Phase::removed)
      runs.push_back({first + probe.copy_offset, &site, probe.offset, 0});
  }
  std::sort(runs.begin(), runs.end(),
            [](const CopiedRun& a, const CopiedRun& b) { return a.address < b.address; });
  for (size_t i = 0; i < runs.size(); ++i) {
    const bool more = i + 1 < runs.size() && runs[i + 1].site == runs[i].site;
    runs[i].end = more ? runs[i + 1].begin : runs[i].site->displaced;
  }
  return runs;
}

// The address in the original code that corresponds to one in a stub.
struct Original {
  Address address = 0;
  bool after_system_call = false;
};

// A thread in the copy of instructions.
struct Inside {
  target::StoppedThread* thread = nullptr;
  const CopiedRun* run = nullptr;
};

// What the program has at the sites whose copies threads are in.
class Originals {
 public:
  Originals(std::span<const Inside> inside, const layout::Session& journal,
            const target::Memory& memory, const OtherSites& others);

  // Where `at` is the start of a copy, or the end of a copied system call, returns its original.
  std::optional<Original> of(Address at, const CopiedRun& run) const;

 private:
  bool read_displaced(const layout::SiteEntry& site, std::span<uint8_t> bytes) const;
  std::optional<Original> in_program(Address at, const CopiedRun& run) const;
  bool is_under_jump(const Original& original) const;
  std::optional<Original> in_last_stub(const Original& original, const layout::SiteEntry& site,
                                       const OtherSite& last) const;

  const layout::Session& journal_;
  const target::Memory& memory_;
  const OtherSites& others_;
  std::vector<const layout::SiteEntry*> near_;  // our sites that may touch these
};

// By one pass: there may be millions of sites, and all threads are stopped.
Originals::Originals(std::span<const Inside> inside, const layout::Session& journal,
                     const target::Memory& memory, const OtherSites& others)
    : journal_(journal), memory_(memory), others_(others) {
  using Phase = layout::SiteEntry::Phase;
  constexpr uint64_t kLongest = UINT8_MAX;  // of a site, and of what it displaces
  std::vector<Address> begins;
  for (const Inside& one : inside) {
    const Address begin = one.run->site->address;  // nothing can refer to a packed member
    begins.push_back(begin);
  }
  std::sort(begins.begin(), begins.end());
  if (begins.empty()) return;
  for (const layout::SiteEntry& site : journal.sites) {
    const Address address = site.address;
    if (address + kLongest < begins.front() || address > begins.back() + kLongest) continue;
    // What was not written, or has gone, says nothing about what lies there.
    if (site.phase == Phase::gone || site.phase == Phase::left_out) continue;
    const auto next = std::lower_bound(begins.begin(), begins.end(),
                                       address - std::min(Address{address}, kLongest));
    if (next != begins.end() && *next <= address + kLongest) near_.push_back(&site);
  }
}

// Reads the program's own instructions that the site displaces, whatever is in the text: jumps of
// ours, or of others since ours have gone; there may be a trampoline among the instructions, too.
// Returns false if they cannot be read.
bool Originals::read_displaced(const layout::SiteEntry& site, std::span<uint8_t> bytes) const {
  if (!memory_.read(site.address, bytes)) return false;
  others_.put_all_back(memory_, site.address, bytes);
  for (const layout::SiteEntry* own : near_) put_original_back(*own, site.address, bytes);
  return true;
}

std::optional<Original> Originals::in_program(Address at, const CopiedRun& run) const {
  if (run.end <= run.begin) return std::nullopt;  // the file is not trusted
  std::array<uint8_t, UINT8_MAX> room;
  if (!read_displaced(*run.site, std::span(room).first(run.end))) return std::nullopt;
  const auto bytes = std::span(room).first(run.end).subspan(run.begin);
  const Address first = run.site->address + run.begin;
  const auto copies = arch::copies_of({first, bytes}, run.address);
  if (!copies) return std::nullopt;
  for (const arch::Copy& copy : *copies) {
    const Address begin = run.address + copy.offset;
    const Address original = first + copy.window_offset;
    if (at == begin) return Original{original, false};
    const auto instruction = arch::decode(bytes.subspan(copy.window_offset), original);
    if (instruction && instruction->special == arch::Special::syscall &&
        at == begin + instruction->length)
      return Original{instruction->end(), true};
  }
  return std::nullopt;
}

// Are there other jumps than ours where the thread would go on in the text? A system call that is
// made again is made two bytes before.
bool Originals::is_under_jump(const Original& original) const {
  const auto is_inside = [&](Address at) {
    const auto around = others_.in({at, at + 1});
    return std::any_of(around.begin(), around.end(),
                       [&](const OtherSite* other) { return other->entry.address != at; });
  };
  return is_inside(original.address) ||
         (original.after_system_call && is_inside(original.address - arch::kSyscallLength));
}

// The same instruction in the last stub of the others that have probes at the site: all of their
// actions came before our copies, as ours was the last stub then, and must not run again. Returns
// nullopt if the program's instructions do not lie there one after the other.
std::optional<Original> Originals::in_last_stub(const Original& original,
                                                const layout::SiteEntry& site,
                                                const OtherSite& last) const {
  using Link = layout::SiteEntry::Link;
  if (last.entry.link == Link::at_start) return std::nullopt;
  if (original.address == site.address) return Original{last.entry.copy(), false};
  // Our jump may have gone before theirs came, which then displaces what it likes. The entry of a
  // trampoline does not say what.
  const bool is_same = &head_of(journal_, site) == &site ? last.entry.displaced == site.displaced
                                                         : others_.displace_as_much(site);
  if (!is_same) return std::nullopt;
  if (last.has_inner) return std::nullopt;
  std::array<uint8_t, UINT8_MAX> room;
  const auto bytes = std::span(room).first(site.displaced);
  if (!read_displaced(site, bytes)) return std::nullopt;
  const auto copies = arch::copies_of({site.address, bytes}, last.entry.copy());
  if (!copies) return std::nullopt;
  const uint64_t made = original.after_system_call ? arch::kSyscallLength : 0;
  for (const arch::Copy& copy : *copies)
    if (site.address + copy.window_offset + made == original.address)
      return Original{last.entry.copy() + copy.offset + made, original.after_system_call};
  return std::nullopt;
}

std::optional<Original> Originals::of(Address at, const CopiedRun& run) const {
  const auto original = in_program(at, run);
  if (!original || others_.empty()) return original;
  if (const OtherSite* const last = others_.last_at(memory_, head_of(journal_, *run.site)))
    return in_last_stub(*original, *run.site, *last);
  return is_under_jump(*original) ? std::nullopt : original;
}

// The site of a trampoline in our own memory: a thread there has not executed any of the site's
// instructions yet.
std::optional<Original> site_of_trampoline(Address at, const layout::Session& journal) {
  for (const layout::SiteEntry& site : journal.sites)
    if (site.is_in_text() && site.target() == at) return Original{site.address, false};
  return std::nullopt;
}

}  // namespace

std::vector<Address> redirect_threads(target::Stop& stop, const target::Memory& memory,
                                      const layout::Session& journal, const OtherSites& others) {
  using Kind = layout::MappingEntry::Kind;
  const auto move = [&](target::StoppedThread& thread, const Original& original) {
    if (original.after_system_call) arch::set_returned_to(thread.registers, original.address);
    stop.move(thread, original.address);
  };
  std::optional<std::vector<CopiedRun>> runs;
  std::vector<Inside> inside;
  for (target::StoppedThread& thread : stop.threads()) {
    const Address at = thread.instruction_pointer();
    const auto mapping = std::find_if(journal.mappings.begin(), journal.mappings.end(),
                                      [&](const layout::MappingEntry& candidate) {
                                        return at - candidate.address < candidate.size;
                                      });
    if (mapping == journal.mappings.end()) continue;
    if (mapping->kind == Kind::islands)
      if (const auto original = site_of_trampoline(at, journal)) move(thread, *original);
    if (mapping->kind != Kind::stubs) continue;
    if (!runs) runs = copied_runs(journal);
    const auto above =
        std::upper_bound(runs->begin(), runs->end(), at,
                         [](Address a, const CopiedRun& b) { return a < b.address; });
    if (above != runs->begin()) inside.push_back({&thread, &*std::prev(above)});
  }
  const Originals originals(inside, journal, memory, others);
  std::vector<Address> in_others;
  for (const Inside& one : inside) {
    const auto original = originals.of(one.thread->instruction_pointer(), *one.run);
    if (!original) continue;
    move(*one.thread, *original);
    const auto& code = others.code();
    if (std::any_of(code.begin(), code.end(),
                    [&](Range range) { return range.contains(original->address); }))
      in_others.push_back(original->address);
  }
  return in_others;
}

}  // namespace pinprick::engine
