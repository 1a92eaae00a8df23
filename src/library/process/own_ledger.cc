#include "library/process/own_ledger.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "arch/jump.h"
#include "library/process/own_code.h"

namespace pinprick::library {
namespace {

using layout::OwnSite;
using layout::OwnTable;

Range* own_code_in(OwnTable* table) {
  return reinterpret_cast<Range*>(reinterpret_cast<Address>(table) + layout::kOwnCodeOffset);
}

OwnSite* sites_of(OwnTable* table) {
  return reinterpret_cast<OwnSite*>(reinterpret_cast<Address>(table) + layout::kOwnSitesOffset);
}

bool is_in_use(const Site& site) {
  return !site.attachments.empty() || site.in_place != nullptr;
}

}  // namespace

OwnSite describe(const Site& site) {
  OwnSite entry;
  entry.address = site.address;
  entry.name = reinterpret_cast<Address>(site.name.c_str());
  entry.object_name = reinterpret_cast<Address>(site.object_name.c_str());
  const plan::Patch& breakpoint = site.breakpoint.patch;
  const plan::Patch& widest = site.jump ? site.jump->patch : breakpoint;
  entry.written = std::min<uint8_t>(widest.written, OwnSite::kMostWritten);
  entry.touched =
      static_cast<uint8_t>(std::max(widest.touched().size(), breakpoint.touched().size()));
  std::copy_n(widest.original.begin(), entry.written, entry.original);
  if (site.jump) entry.ends[0] = site.jump->patch.displaced;
  // As long as it has never been a breakpoint, no stub goes on after the first instruction alone.
  if (!site.jump || !site.breakpoint.stubs.empty()) entry.ends[1] = breakpoint.displaced;
  return entry;
}

OwnLedger& OwnLedger::get() {
  static auto* const ledger = new OwnLedger;
  return *ledger;
}

OwnLedger::OwnLedger() : library_(own_code()) {}

Result<void, SystemError> OwnLedger::open() {
  if (table_ != nullptr) return {};
  void* const page =
      ::mmap(nullptr, kPageSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return fail(SystemError{errno});
  void* const memory = ::mmap(nullptr, layout::kOwnTableSize, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    const int error = errno;
    ::munmap(page, kPageSize);
    return fail(SystemError{error});
  }
  OwnTable table;
  table.libpinprick_begin = library_.begin;
  table.libpinprick_end = library_.end;
  table_ = static_cast<OwnTable*>(memory);
  std::memcpy(memory, &table, sizeof table);
  for (Range code : code_) note_code(code);
  for (const layout::OwnSlots& slots : slots_) note_slots(slots);
  layout::OwnPage announced;
  announced.table = is_shared() ? reinterpret_cast<Address>(memory) : 0;
  // The magic comes last: a page with it is complete.
  std::memcpy(static_cast<uint8_t*>(page) + offsetof(layout::OwnPage, table), &announced.table,
              sizeof announced.table);
  __atomic_store_n(static_cast<uint64_t*>(page), announced.magic, __ATOMIC_SEQ_CST);
  return {};
}

Result<OwnSite*, SystemError> OwnLedger::new_entry(const OwnSite& entry, OwnSite::State state) {
  if (auto opened = open(); !opened) return fail(opened.error());
  const uint64_t count = table_->site_count;
  if (count == layout::kMostOwnSites) return fail(SystemError{ENOSPC});
  OwnSite* const added = &sites_of(table_)[count];
  *added = entry;
  added->state = state;
  change(table_->site_count, count + 1);
  return added;
}

template <class T>
void OwnLedger::change(T& part, T value) {
  if (part == value) return;
  const std::atomic_ref changes(table_->changes);
  ++changes;
  std::atomic_ref(part).store(value);
  ++changes;
}

void OwnLedger::set_state(OwnSite& entry, OwnSite::State state) {
  change(entry.state, state);
}

Result<bool, SystemError> OwnLedger::enter(Site& site) {
  if (site.entry != nullptr && site.entry->state == OwnSite::State::in_use) return false;
  entered_.push_back(&site);
  if (site.entry == nullptr) {
    OwnSite entry = describe(site);
    entry.written = 0;
    const auto entered = new_entry(entry, OwnSite::State::in_use);
    if (!entered) return fail(entered.error());
    site.entry = *entered;
  }
  set_state(*site.entry, OwnSite::State::in_use);
  return true;
}

void OwnLedger::confirm(Site& site) {
  change(site.entry->written, describe(site).written);
}

// No jump in the program leads to the block. Even so, the instruction at its start must not be
// displaced together with one before it.
Result<bool, SystemError> OwnLedger::enter(const PointSite& point) {
  Point& known = points_[point.nop];
  known.site = point;
  if (known.nop != nullptr && known.nop->state == OwnSite::State::in_use) return false;
  if (known.block == nullptr) {
    OwnSite entry;
    entry.address = point.block - 1;
    entry.ends[0] = 1;
    const auto made = new_entry(entry, OwnSite::State::former);
    if (!made) return fail(made.error());
    known.block = *made;
  }
  if (known.nop == nullptr) {
    const auto nop = arch::encode_link(point.nop, 0);
    OwnSite entry;
    entry.address = point.nop;
    entry.written = entry.touched = entry.ends[0] = arch::kLinkLength;
    std::copy(nop->begin(), nop->end(), entry.original);
    const auto made = new_entry(entry, OwnSite::State::in_use);
    if (!made) return fail(made.error());
    known.nop = *made;
  }
  set_state(*known.nop, OwnSite::State::in_use);
  return true;
}

void OwnLedger::settle(std::span<Site* const> sites) {
  const auto settle = [&](const Site& site) {
    if (site.entry == nullptr) return;
    change(site.entry->ends[1], describe(site).ends[1]);
    set_state(*site.entry, site.gone         ? OwnSite::State::gone
                           : is_in_use(site) ? OwnSite::State::in_use
                                             : OwnSite::State::former);
  };
  for (const Site* site : entered_) settle(*site);
  for (const Site* site : sites) settle(*site);
  entered_.clear();
}

void OwnLedger::settle_point(const PointSite& point, OwnSite::State state) {
  if (const auto known = points_.find(point.nop);
      known != points_.end() && known->second.nop != nullptr)
    set_state(*known->second.nop, state);
}

void OwnLedger::settle_points(const std::function<OwnSite::State(const PointSite&)>& state_of) {
  for (auto one = points_.begin(); one != points_.end();) {
    const Point& point = one->second;
    const OwnSite::State state = state_of(point.site);
    const bool is_gone = state == OwnSite::State::gone;
    if (point.nop != nullptr) set_state(*point.nop, state);
    if (is_gone && point.block != nullptr) set_state(*point.block, state);
    one = is_gone ? points_.erase(one) : std::next(one);
  }
}

void OwnLedger::note_code(Range code) {
  if (table_ == nullptr) {
    code_.push_back(code);
    return;
  }
  const uint64_t count = table_->code_count;
  // A pinprick that attaches leaves alone a table with more entries than there is room for.
  if (count < layout::kMostOwnCode) own_code_in(table_)[count] = code;
  if (count > layout::kMostOwnCode) return;
  __atomic_store_n(&table_->code_count, count + 1, __ATOMIC_SEQ_CST);
}

void OwnLedger::note_trampolines(Range code) {
  const uint64_t noted = table_ == nullptr ? code_.size() : table_->code_count;
  if (noted < layout::kMostOwnCode / 2) note_code(code);
}

void OwnLedger::note_slots(const layout::OwnSlots& slots) {
  if (table_ == nullptr) {
    slots_.push_back(slots);
    return;
  }
  const uint64_t count = table_->slots_count;
  if (count < std::size(table_->slots)) table_->slots[count] = slots;
  if (count > std::size(table_->slots)) return;
  __atomic_store_n(&table_->slots_count, count + 1, __ATOMIC_SEQ_CST);
}

}  // namespace pinprick::library
