#include "patch/text_edit.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "arch/code.h"
#include "arch/jump.h"
#include "arch/syscall.h"
#include "base/parallel.h"
#include "image/maps.h"
#include "patch/thread_stacks.h"

namespace pinprick::patch {
namespace {

TextEdit edit_of(const layout::SiteEntry& site) {
  TextEdit edit;
  edit.address = site.address;
  edit.length = site.own;
  edit.phase = static_cast<uint8_t>(site.phase);
  return edit;
}

// How much is read and written in one piece: enough for few system calls, but little enough to stay
// in the processor's cache between reading and writing, as the target is stopped meanwhile.
constexpr uint64_t kPageRun = 256 << 10;

using Numbers = std::vector<uint32_t>;

Numbers numbers_of(std::span<const TextEdit> edits) {
  Numbers all(edits.size());
  std::iota(all.begin(), all.end(), uint32_t{0});
  return all;
}

// The edits of a session are a few ascending runs, one after the other: those of each object, or of
// each round of planning. Merging the runs takes a fraction of the time of std::sort(), for which
// they are nearly the worst case.
Numbers in_address_order(std::span<const TextEdit> edits, Numbers some) {
  const auto by_address = [&](uint32_t a, uint32_t b) {
    return edits[a].address < edits[b].address;
  };
  std::vector<Numbers::iterator> ends = {some.begin()};
  while (ends.back() != some.end())
    ends.push_back(std::is_sorted_until(ends.back(), some.end(), by_address));
  while (ends.size() > 2) {
    std::vector<Numbers::iterator> merged = {ends.front()};
    for (size_t i = 1; i < ends.size(); i += 2) {
      const size_t last = std::min(i + 1, ends.size() - 1);
      std::inplace_merge(ends[i - 1], ends[i], ends[last], by_address);
      merged.push_back(ends[last]);
    }
    ends = std::move(merged);
  }
  return some;
}

// Calls f(run of adjacent pages, indices of the edits in them) until it returns false. Two pages
// that share an edit are in one run.
template <class F>
void for_each_run(std::span<const TextEdit> edits, const Numbers& order, F&& f) {
  for (size_t first = 0; first < order.size();) {
    Range run = {align_down(edits[order[first]].address, kPageSize), 0};
    size_t last = first;
    for (; last < order.size(); ++last) {
      const TextEdit& edit = edits[order[last]];
      const Address page = align_down(edit.address, kPageSize);
      if (last != first && (page > run.end || (page == run.end && run.size() >= kPageRun))) break;
      run.end = std::max(run.end, align_up(edit.address + edit.length, kPageSize));
    }
    if (!f(run, std::span(order).subspan(first, last - first))) return;
    first = last;
  }
}

// Makes the edit in a copy of the text.
EditOutcome edit_bytes(const TextEdit& edit, uint8_t* site) {
  if (std::memcmp(site, edit.before, edit.length) == 0) {
    std::memcpy(site, edit.after, edit.length);
    return EditOutcome::written;
  }
  if (std::memcmp(site, edit.after, edit.length) == 0) return EditOutcome::already;
  return EditOutcome::different;
}

// Those of these breakpoints that are outside the written ranges. One inside is gone, since the
// site holds the bytes that were expected.
std::vector<Address> still_there(std::span<const Address> foreign, std::span<const Range> written) {
  std::vector<Address> left;
  for (Address at : foreign) {
    const auto after = std::upper_bound(written.begin(), written.end(), at,
                                        [](Address a, Range range) { return a < range.begin; });
    if (after == written.begin() || !std::prev(after)->contains(at)) left.push_back(at);
  }
  return left;
}

// Writes the run, except for the bytes at `foreign`. The kernel takes a page's size at a time, from
// the first byte on, and a signal may end the write in between. So a piece that does not begin with
// a page ends with it: no edit lies in two.
Result<void, SystemError> write_around(const target::Memory& memory, Range run,
                                       std::span<const uint8_t> bytes,
                                       std::span<const Address> foreign) {
  auto next = std::lower_bound(foreign.begin(), foreign.end(), run.begin);
  for (Address at = run.begin; at < run.end; ++at) {
    const Address end = next != foreign.end() ? std::min(run.end, *next++) : run.end;
    while (at < end) {
      const Address page = align_down(at, kPageSize);
      const Address until = page == at ? end : std::min(end, page + kPageSize);
      if (auto written = memory.write(at, bytes.subspan(at - run.begin, until - at)); !written)
        return written;
      at = until;
    }
  }
  return {};
}

// Threads of ours write runs in parallel. Fewer runs than this are written faster than a thread is
// created.
constexpr size_t kRunsWorthAThread = 4;

using Run = WritingOrder::Run;

// `bytes` is a buffer.
Result<void, SystemError> apply_run(const target::Memory& memory, const Run& run,
                                    std::span<const TextEdit> edits,
                                    std::span<const Address> foreign,
                                    std::vector<EditOutcome>& outcomes,
                                    std::vector<uint8_t>& bytes) {
  bytes.resize(run.pages.size());
  if (!memory.read(run.pages.begin, bytes)) return {};
  std::vector<Range> changed;
  for (uint32_t i : run.edits) {
    outcomes[i] = edit_bytes(edits[i], bytes.data() + (edits[i].address - run.pages.begin));
    if (outcomes[i] == EditOutcome::written)
      changed.push_back({edits[i].address, edits[i].address + edits[i].length});
  }
  if (changed.empty()) return {};
  return write_around(memory, run.pages, bytes, still_there(foreign, changed));
}

std::optional<size_t> boundary_at(std::span<const Boundary> boundaries, Address address) {
  const auto found =
      std::lower_bound(boundaries.begin(), boundaries.end(), address,
                       [](const Boundary& boundary, Address a) { return boundary.address < a; });
  if (found == boundaries.end() || found->address != address) return std::nullopt;
  return static_cast<size_t>(found - boundaries.begin());
}

}  // namespace

TextEdit arming(const layout::SiteEntry& site) {
  TextEdit edit = edit_of(site);
  std::memcpy(edit.before, site.original, sizeof edit.before);
  std::memcpy(edit.after, site.original, sizeof edit.after);
  arch::encode_jump(std::span(edit.after).first(site.length), site.jump);
  return edit;
}

TextEdit disarming(const layout::SiteEntry& site) {
  TextEdit edit = arming(site);
  std::swap(edit.before, edit.after);
  return edit;
}

std::vector<EditOutcome> examine(const target::Memory& memory, std::span<const TextEdit> edits) {
  std::vector<EditOutcome> outcomes(edits.size(), EditOutcome::unreadable);
  std::vector<uint8_t> bytes;
  const auto order = in_address_order(edits, numbers_of(edits));
  for_each_run(edits, order, [&](Range range, std::span<const uint32_t> some) {
    bytes.resize(range.size());
    if (!memory.read(range.begin, bytes)) return true;
    for (uint32_t i : some)
      outcomes[i] = edit_bytes(edits[i], bytes.data() + (edits[i].address - range.begin));
    return true;
  });
  return outcomes;
}

std::vector<Address> foreign_breakpoints(const image::ProcessImage& image,
                                         const target::Memory& memory,
                                         std::span<const TextEdit> edits) {
  std::vector<Address> found;
  std::vector<uint8_t> bytes;
  const auto order = in_address_order(edits, numbers_of(edits));
  for_each_run(edits, order, [&](Range run, std::span<const uint32_t> of) {
    bytes.resize(run.size());
    if (!memory.read(run.begin, bytes)) return true;
    // Our own jumps may contain such bytes.
    for (uint32_t i : of) {
      uint8_t* site = bytes.data() + (edits[i].address - run.begin);
      if (edit_bytes(edits[i], site) != EditOutcome::different)
        std::fill_n(site, edits[i].length, uint8_t{0});
    }
    for (const auto& object : image.objects) {
      for (const image::Segment& segment : object->elf().segments()) {
        const Range part = {std::max(run.begin, segment.range.begin + object->bias()),
                            std::min(run.end, segment.range.end + object->bias())};
        if (part.begin >= part.end) continue;
        const auto file =
            object->elf().read({part.begin - object->bias(), part.end - object->bias()});
        const uint8_t* const first = bytes.data() + (part.begin - run.begin);
        const uint8_t* const end = first + file.size();
        for (const uint8_t* at = first;
             (at = static_cast<const uint8_t*>(std::memchr(at, arch::kBreakpoint, end - at))) !=
             nullptr;
             ++at)
          if (file[at - first] != arch::kBreakpoint) found.push_back(part.begin + (at - first));
      }
    }
    return true;
  });
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

WritingOrder::WritingOrder(std::span<const TextEdit> edits, PhaseOrder order) {
  for (uint8_t step = 0; step < layout::kPhases; ++step) {
    const uint8_t phase =
        order == PhaseOrder::upward ? step : static_cast<uint8_t>(layout::kPhases - 1 - step);
    Numbers some;
    for (size_t i = 0; i < edits.size(); ++i)
      if (edits[i].phase == phase) some.push_back(static_cast<uint32_t>(i));
    if (some.empty()) continue;
    edits_.push_back(in_address_order(edits, std::move(some)));
    // The runs refer to the elements of edits_, which stay in place when the vectors are moved.
    std::vector<Run>& runs = steps_.emplace_back();
    for_each_run(edits, edits_.back(), [&](Range pages, std::span<const uint32_t> of) {
      runs.push_back({pages, of});
      return true;
    });
  }
}

Result<std::vector<EditOutcome>, SystemError> apply(const target::Stop& stop,
                                                    const target::Memory& memory,
                                                    std::span<const TextEdit> edits,
                                                    const WritingOrder& order,
                                                    std::span<const Address> foreign) {
  assert(stop.holds());
  std::vector<EditOutcome> outcomes(edits.size(), EditOutcome::unreadable);
  for (const std::vector<Run>& runs : order.steps()) {
    const size_t pieces = std::clamp(runs.size() / kRunsWorthAThread, size_t{1}, usable_threads());
    std::vector<std::optional<SystemError>> errors(pieces);
    for_each_piece(pieces, pieces, [&](size_t piece) {
      std::vector<uint8_t> bytes;
      const size_t end = runs.size() * (piece + 1) / pieces;
      for (size_t i = runs.size() * piece / pieces; i < end && !errors[piece]; ++i)
        if (auto done = apply_run(memory, runs[i], edits, foreign, outcomes, bytes); !done)
          errors[piece] = done.error();
    });
    for (const auto& error : errors)
      if (error) return fail(*error);
  }
  return outcomes;
}

std::vector<size_t> clear_boundaries(target::Stop& stop, const target::Memory& memory,
                                     image::MappingLookup& mappings,
                                     std::span<const Boundary> boundaries) {
  std::vector<size_t> blocked;
  if (boundaries.empty()) return blocked;
  for (target::StoppedThread& thread : stop.threads()) {
    // If the call is made again, it is made two bytes before the instruction pointer. Such a thread
    // is left alone, even if only those two bytes lie inside.
    const bool in_system_call = arch::in_system_call(thread.registers);
    auto inside = boundary_at(boundaries, thread.instruction_pointer());
    if (!inside && in_system_call)
      inside = boundary_at(boundaries, thread.instruction_pointer() - arch::kSyscallLength);
    if (inside) {
      if (in_system_call)
        blocked.push_back(boundaries[*inside].edit);
      else
        stop.move(thread, boundaries[*inside].copy);
    }
    const Address lowest = boundaries.front().address;
    const Address highest = boundaries.back().address;
    read_stacks([&](Address address) { return mappings.range_at(address); }, memory, thread,
                [&](std::span<const uint64_t> words) {
                  for (const uint64_t word : words) {
                    if (word < lowest || word > highest) continue;
                    if (const auto at = boundary_at(boundaries, word))
                      blocked.push_back(boundaries[*at].edit);
                  }
                });
  }
  std::sort(blocked.begin(), blocked.end());
  blocked.erase(std::unique(blocked.begin(), blocked.end()), blocked.end());
  return blocked;
}

}  // namespace pinprick::patch
