#include "patch/live_edit.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>

#include "arch/code.h"

namespace pinprick::patch {
Result<void, SystemError> write_text(const target::Memory& memory,
                                     std::vector<ByteChange> changes) {
  std::sort(changes.begin(), changes.end(),
            [](const ByteChange& a, const ByteChange& b) { return a.address < b.address; });
  std::vector<uint8_t> bytes;
  for (size_t first = 0; first < changes.size();) {
    size_t last = first + 1;
    while (last < changes.size() && changes[last].address == changes[last - 1].address + 1) ++last;
    bytes.clear();
    for (size_t i = first; i < last; ++i) bytes.push_back(changes[i].value);
    if (auto written = memory.write(changes[first].address, bytes); !written) return written;
    first = last;
  }
  return {};
}

namespace {

template <class Step>
Result<void, SystemError> run(const target::SelfTarget& self, std::span<const LiveEdit> edits,
                              Step&& step_of) {
  if (edits.empty()) return {};
  for (int step = 0; step < kLiveSteps; ++step) {
    std::vector<ByteChange> changes;
    for (const LiveEdit& edit : edits) {
      const auto some = step_of(edit, step);
      changes.insert(changes.end(), some.begin(), some.end());
    }
    if (auto written = write_text(self.memory(), std::move(changes)); !written) return written;
    self.synchronize_threads();
  }
  return {};
}

using Bytes = std::span<const uint8_t>;

// `before` are the bytes that are there. The part that lies in the first page can be put back: that
// page is a copy by then.
Result<void, SystemError> write_whole(const target::Memory& memory, Address at, Bytes before,
                                      Bytes after) {
  auto written = memory.write(at, after);
  const Address next_page = align_up(at + 1, kPageSize);
  if (!written && next_page - at < before.size())
    static_cast<void>(memory.write(at, before.first(next_page - at)));
  return written;
}

// `bytes_of` selects what an edit writes.
Result<void, SystemError> write_each(const target::SelfTarget& self,
                                     std::span<const LiveEdit> edits,
                                     std::array<uint8_t, arch::kJumpLength> LiveEdit::*bytes_of) {
  Result<void, SystemError> written;
  for (const LiveEdit& edit : edits) {
    assert(!edit.to_breakpoint);
    std::array<uint8_t, arch::kJumpLength> there;
    const auto before = std::span(there).first(edit.length);
    written = self.memory().read(edit.site, before)
                  ? write_whole(self.memory(), edit.site, before,
                                Bytes(edit.*bytes_of).first(edit.length))
                  : fail(SystemError{EFAULT});
    if (!written) break;
  }
  target::SelfTarget::synchronize_this_thread();
  return written;
}

}  // namespace

bool LiveEdit::is_boundary(size_t offset) const {
  return std::find(boundaries.begin(), boundaries.end(), offset) != boundaries.end();
}

std::vector<ByteChange> placing_step(const LiveEdit& edit, int step) {
  std::vector<ByteChange> changes;
  if (edit.length == 1) {
    if (step == 0) changes.push_back({edit.site, arch::kBreakpoint});
    return changes;
  }
  if (step == 0) {
    changes.push_back({edit.site, arch::kBreakpoint});
    for (uint8_t offset : edit.boundaries) {
      assert(edit.jump[offset] == arch::kBreakpoint);
      changes.push_back({edit.site + offset, arch::kBreakpoint});
    }
  } else if (step == 1) {
    for (size_t i = 1; i < edit.length; ++i)
      if (!edit.is_boundary(i)) changes.push_back({edit.site + i, edit.jump[i]});
  } else {
    changes.push_back({edit.site, edit.jump[0]});
  }
  return changes;
}

std::vector<ByteChange> removing_step(const LiveEdit& edit, int step) {
  std::vector<ByteChange> changes;
  if (step == 0 && edit.length != 1) changes.push_back({edit.site, arch::kBreakpoint});
  for (size_t i = 1; i < edit.length; ++i) {
    const int when = edit.is_boundary(i) ? 2 : 1;
    if (step == when) changes.push_back({edit.site + i, edit.original[i]});
  }
  if (step == 2 && !edit.to_breakpoint) changes.push_back({edit.site, edit.original[0]});
  return changes;
}

Result<void, SystemError> place_live(const target::SelfTarget& self,
                                     std::span<const LiveEdit> edits, Order order) {
  return order == Order::in_steps ? run(self, edits, placing_step)
                                  : write_each(self, edits, &LiveEdit::jump);
}

Result<void, SystemError> remove_live(const target::SelfTarget& self,
                                      std::span<const LiveEdit> edits, Order order) {
  return order == Order::in_steps ? run(self, edits, removing_step)
                                  : write_each(self, edits, &LiveEdit::original);
}

}  // namespace pinprick::patch
