#include "engine/calls/calls_in_flight.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "arch/stub.h"
#include "base/clock.h"
#include "engine/calls/stack_owners.h"
#include "engine/calls/thread_table.h"
#include "layout/own_probes.h"
#include "layout/runtime_data.h"
#include "patch/text_owner.h"

namespace pinprick::engine {
namespace {

using layout::MappingEntry;
using layout::OpenCall;
using layout::Slot;

constexpr uint64_t kMostSlotsRead = uint64_t{1} << 20;  // of one owner, as of --slots

// A table in the target, copied twice. An entry counts if both copies have it.
template <class Entry>
struct Table {
  Address address = 0;
  std::vector<Entry> before, after;

  static std::vector<Entry> copy(const target::Memory& memory, Address address, size_t count) {
    std::vector<Entry> entries(count);
    if (!memory.read(address, {reinterpret_cast<uint8_t*>(entries.data()), count * sizeof(Entry)}))
      entries.clear();
    return entries;
  }
  void read(const target::Memory& memory, Address at, size_t count) {
    address = at;
    before = copy(memory, at, count);
  }
  void read_again(const target::Memory& memory) {
    after = copy(memory, address, before.size());
    if (after.size() != before.size()) before.clear();
  }
};

// All that is the same as long as one call has the slot.
bool is_same_call(const Slot& a, const Slot& b) {
  return std::tie(a.return_address, a.record, a.tsc, a.stack) ==
         std::tie(b.return_address, b.record, b.tsc, b.stack);
}

// A start of a span, or a thread's identity.
bool is_same_call(uint64_t a, uint64_t b) {
  return a == b;
}

bool is_same_call(const OpenCall& a, const OpenCall& b) {
  return std::tie(a.stack, a.counters, a.tsc, a.return_address) ==
         std::tie(b.stack, b.counters, b.tsc, b.return_address);
}

// One owner's tables.
struct Tables {
  size_t session = CallInFlight::kProgram;
  const layout::Session* journal = nullptr;  // null: the program's own
  std::vector<uint32_t> probes;              // by histogram
  std::vector<Range> code;                   // in which its records lie
  Address first_code = 0;                    // of its slots
  uint64_t room = 0;                         // for slots
  Table<Slot> slots;                         // that were ever used
  Table<OpenCall> open_calls;
  ThreadTable threads;
  Table<uint64_t> thread_words;
};

void add_session(const target::Memory& memory, size_t number, const layout::Session& journal,
                 std::vector<Tables>& all) {
  const MappingEntry* const data = find_mapping(journal, MappingEntry::Kind::runtime_data);
  layout::RuntimeContext context;
  if (data == nullptr || data->size < sizeof context ||
      !memory.read_value(data->address + data->size - sizeof context, context) ||
      context.magic != layout::kContextMagic)
    return;
  Tables& tables = all.emplace_back();
  tables.session = number;
  tables.journal = &journal;
  tables.probes = journal.probes_of_histograms();
  for (const MappingEntry& entry : journal.mappings)
    if (layout::is_code(entry.kind))
      tables.code.push_back({entry.address, entry.address + entry.size});
  tables.room =
      std::min({context.slot_count, (data->size - sizeof context) / sizeof(Slot), kMostSlotsRead});
  tables.slots.read(memory, data->address, std::min(context.fresh, tables.room));
  if (!tables.slots.before.empty()) tables.first_code = tables.slots.before.front().code;
  if (context.open_calls >= data->address && context.open_calls - data->address < data->size &&
      data->size - (context.open_calls - data->address) >= layout::kOpenCallsSize)
    tables.open_calls.read(memory, context.open_calls, layout::kOpenCalls);
  if (const auto threads = thread_table(memory, journal);
      threads && threads->entry_size % sizeof(uint64_t) == 0) {
    tables.threads = *threads;
    tables.thread_words.read(memory, threads->begin, threads->size() / sizeof(uint64_t));
  }
}

void add_program(const target::Memory& memory, const layout::OwnSlots& own,
                 const std::vector<Range>& code, std::vector<Tables>& all) {
  Tables& tables = all.emplace_back();
  tables.code = code;
  tables.first_code = own.code;
  tables.room = std::min(own.count, kMostSlotsRead);
  tables.slots.read(memory, own.address, tables.room);
}

class Look {
 public:
  Look(pid_t pid, const target::Memory& memory, const std::vector<image::Mapping>& maps,
       std::vector<Tables> tables)
      : pid_(pid), memory_(memory), maps_(maps), all_(std::move(tables)) {}

  CallsInFlight take() {
    find_slots();
    find_open_calls();
    find_spans();
    for (Tables& tables : all_) {
      tables.slots.read_again(memory_);
      tables.open_calls.read_again(memory_);
      tables.thread_words.read_again(memory_);
    }
    for (const Found& one : found_)
      if (!one.is_over && is_unchanged(one)) result_.calls.push_back(one.call);
    result_.now = read_tsc();
    return std::move(result_);
  }

 private:
  struct Found {
    CallInFlight call;
    bool is_over = false;
    // The entry where it was found, which has to be the same in the second copy.
    const Tables* tables = nullptr;
    enum class In : uint8_t { slots, open_calls, thread_words } in = In::slots;
    size_t entry = 0, owner = 0;
  };

  StackOwners& owners() {
    if (!owners_) owners_.emplace(pid_, memory_, maps_);
    return *owners_;
  }

  // The return addresses of the calls that have theirs at one place on a stack, innermost first: a
  // call that several owners time has a slot of each, and so has each function that was tail
  // called. Each slot returns to the next one, and the last one to the program. The slots are read
  // once more here, as the innermost may be younger than the copies.
  const std::vector<uint64_t>& line_at(Address stack) {
    constexpr size_t kMostInALine = 4096;
    const auto [known, is_new] = lines_.try_emplace(stack);
    std::vector<uint64_t>& line = known->second;
    uint64_t word = 0;
    if (!is_new || !memory_.read_value(stack, word)) return line;
    while (line.size() < kMostInALine) {
      line.push_back(word);
      const auto address = slot_returned_to(word);
      Slot slot;
      if (!address || !memory_.read_value(*address, slot) || slot.stack != stack ||
          slot.return_address == 0)
        break;
      word = slot.return_address;
    }
    return line;
  }

  // The address of the slot that a call with this return address returns to.
  std::optional<Address> slot_returned_to(uint64_t return_address) const {
    for (const Tables& tables : all_) {
      const uint64_t distance = return_address - arch::kSlotReturn - tables.first_code;
      const uint64_t index = distance / arch::kSlotCodeSize;
      if (tables.first_code != 0 && index < tables.room && distance % arch::kSlotCodeSize == 0)
        return tables.slots.address + index * sizeof(Slot);
    }
    return std::nullopt;
  }

  // Sets which probe the call is of, and where; false if nothing is known of it.
  static bool name_metric(const Tables& tables, uint64_t counters, CallInFlight& call) {
    const layout::Session& journal = *tables.journal;
    const uint64_t distance = counters - layout::time_counters_offset(journal.header, 0);
    const uint64_t histogram = distance / sizeof(layout::TimeCounters);
    if (distance % sizeof(layout::TimeCounters) != 0 || histogram >= tables.probes.size())
      return false;
    call.metric = tables.probes[histogram];
    const layout::ProbeEntry& probe = journal.probes[call.metric];
    call.site = journal.sites[probe.site].address + probe.offset;
    return probe.times_calls();
  }

  bool name_record(const Tables& tables, Address address, CallInFlight& call) {
    const Range whole = {address, address + sizeof(layout::ProbeRecord)};
    const auto known = records_.find(address);
    if (known == records_.end()) {
      layout::ProbeRecord record;
      const bool is_ours = std::any_of(tables.code.begin(), tables.code.end(), [&](Range code) {
        return whole.begin < whole.end && code.contains(whole);
      });
      CallInFlight named;
      const bool is_named =
          is_ours && memory_.read_value(address, record) &&
          (tables.journal == nullptr || name_metric(tables, record.counters, named));
      if (tables.journal == nullptr) named.site = record.site;
      records_[address] = is_named ? std::optional(named) : std::nullopt;
      return name_record(tables, address, call);
    }
    if (!known->second) return false;
    call.metric = known->second->metric;
    call.site = known->second->site;
    return true;
  }

  void find_slots() {
    for (Tables& tables : all_)
      for (size_t i = 0; i < tables.slots.before.size(); ++i) {
        const Slot& slot = tables.slots.before[i];
        // The slots of handlers, in the program itself, have no start.
        if (slot.return_address == 0 || slot.tsc == 0) continue;
        Found found;
        found.call.session = tables.session;
        if (!name_record(tables, slot.record, found.call)) continue;
        found.in = Found::In::slots;
        add(found, tables, i, tables.first_code + i * arch::kSlotCodeSize + arch::kSlotReturn,
            slot.stack, slot.tsc);
      }
  }

  void find_open_calls() {
    for (Tables& tables : all_)
      for (size_t i = 0; i < tables.open_calls.before.size(); ++i) {
        const OpenCall& entry = tables.open_calls.before[i];
        Found found;
        found.call.session = tables.session;
        if (entry.stack <= PP_OPEN_CALL_FREE || (entry.stack & PP_OPEN_CALL_FILLING) != 0 ||
            !name_metric(tables, entry.counters, found.call))
          continue;
        found.in = Found::In::open_calls;
        add(found, tables, i, entry.return_address, entry.stack, entry.tsc);
      }
  }

  // Adds a call if this return address of its own is on its stack.
  void add(Found found, const Tables& tables, size_t entry, uint64_t return_address, Address stack,
           uint64_t tsc) {
    const auto& line = line_at(stack);
    if (std::find(line.begin(), line.end(), return_address) == line.end()) return;
    found.tables = &tables;
    found.entry = entry;
    found.call.stack = stack;
    found.call.caller = line.back();
    found.call.tsc = tsc & ~layout::kTscDropped;
    const auto owner = owners().owner_of(stack, found.call.tsc);
    found.call.thread = owner.thread;
    found.is_over = owner.is_over;
    found_.push_back(found);
  }

  void find_spans() {
    constexpr size_t kTidBits = 22;
    constexpr uint64_t kBeingClaimed = uint64_t{1} << 63;
    for (Tables& tables : all_) {
      const auto& words = tables.thread_words.before;
      const size_t size = tables.threads.entry_size / sizeof(uint64_t);
      const size_t first = sizeof(layout::ThreadEntry) / sizeof(uint64_t);
      for (size_t at = 0; size != 0 && at + size <= words.size(); at += size) {
        layout::ThreadEntry entry;
        std::memcpy(&entry, &words[at], sizeof entry);
        if (entry.owner == 0 || (entry.owner & kBeingClaimed) != 0 || entry.tid == entry.dead ||
            entry.tid >= uint32_t{1} << kTidBits)
          continue;
        const size_t spans = std::min(size - first, tables.journal->spans.size());
        for (size_t span = 0; span < spans; ++span) {
          const uint64_t start = words[at + first + span];
          if (start == 0) continue;
          Found found;
          found.call.session = tables.session;
          found.call.is_span = true;
          found.call.metric = span;
          found.call.tsc = start;
          const layout::ProbeEntry& probe =
              tables.journal->probes[tables.journal->spans[span].start];
          found.call.site = tables.journal->sites[probe.site].address + probe.offset;
          found.call.thread = owners().thread_inside(static_cast<pid_t>(entry.tid), start);
          found.is_over = found.call.thread == 0;
          found.tables = &tables;
          found.in = Found::In::thread_words;
          found.entry = at + first + span;
          found.owner = at;
          found_.push_back(found);
        }
      }
    }
  }

  static bool is_unchanged(const Found& found) {
    const auto is_same = [](const auto& table, size_t i) {
      return i < table.before.size() && is_same_call(table.before[i], table.after[i]);
    };
    switch (found.in) {
      case Found::In::slots:
        return is_same(found.tables->slots, found.entry);
      case Found::In::open_calls:
        return is_same(found.tables->open_calls, found.entry);
      case Found::In::thread_words:
        return is_same(found.tables->thread_words, found.entry) &&
               is_same(found.tables->thread_words, found.owner);
    }
    return false;
  }

  pid_t pid_;
  const target::Memory& memory_;
  const std::vector<image::Mapping>& maps_;
  std::vector<Tables> all_;
  std::optional<StackOwners> owners_;
  std::unordered_map<Address, std::vector<uint64_t>> lines_;
  std::unordered_map<Address, std::optional<CallInFlight>> records_;
  std::vector<Found> found_;
  CallsInFlight result_;
};

bool times(const layout::Session& journal) {
  return !journal.spans.empty() ||
         std::any_of(journal.probes.begin(), journal.probes.end(),
                     [](const auto& probe) { return probe.times_calls(); });
}

}  // namespace

CallsInFlight look_at_calls(pid_t pid, const target::Memory& memory,
                            const std::vector<image::Mapping>& maps,
                            std::span<const layout::Session* const> sessions) {
  const auto program = patch::OwnProbes::read(memory, maps);
  std::vector<Tables> all;
  bool is_timed = !program.slots().empty();
  for (size_t i = 0; i < sessions.size(); ++i) {
    if (!times(*sessions[i])) continue;
    is_timed = true;
    add_session(memory, i, *sessions[i], all);
  }
  for (const layout::OwnSlots& own : program.slots()) add_program(memory, own, program.code(), all);
  CallsInFlight found = Look(pid, memory, maps, std::move(all)).take();
  found.is_timed = is_timed;
  for (const CallInFlight& call : found.calls)
    for (const layout::OwnSite& site : program.sites())
      if (call.session == CallInFlight::kProgram && site.address == call.site && site.name != 0 &&
          !found.program_names.contains(call.site))
        found.program_names[call.site] = patch::name_of(memory, site.name);
  return found;
}

}  // namespace pinprick::engine
