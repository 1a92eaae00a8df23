// The session file, which controller and target share: journal, probe table, counters. Versioned;
// it holds offsets, never pointers. docs/data.md describes it for other readers.
//
//     FileHeader | mappings | objects | sites | probes |    mapped read-only in the target
//     functions | spans | switches | semaphores |           not mapped
//     point sites | names |                                 not mapped
//     areas                                                 mapped read-write
//     baselines                                             not mapped, after `file_size`
//
// There is one area per CPU, after one for threads that have to lock:
//
//     area 0 (locked) | CPU 0 | CPU 1 | ...       each: counters | TimeCounters | GapWord
//                                                       | counters of keys, and of calls whose key
//                                                         has no room, by histogram
//                                                       | the same for the sums of counted hits
//                                                       | TimeCounters of keys
//                                                       | counters of hits, by probe, of which
//                                                         something could not be read
//                                                       | the same of events without room
//                                                       | EventRing
//
// Then come the loader handshake, if the session tracks loading, the table of keys, if hits are
// counted by keys, three tables of Extremes, if they are kept, by counter: of the whole time, of
// intervals with even numbers, and of those with odd ones; the table of texts, if they read any,
// and the pool. An area's histogram is a block of the pool, once something was recorded in it.
// `TimeCounters::block` is its offset from the start of the pool, and 0 before. The pool's header
// says how much of the pool is reserved; the rest is a hole in the file, which nothing touches.
//
// The target, and any other process with the user's rights, may write anything here at any time.
// Readers copy the file and parse the copy (parse_session); nothing is used unchecked. Pure;
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "layout/extremes.h"
#include "layout/runtime_data.h"
#include "layout/runtime_offsets.h"
#include "stats/histogram.h"

namespace pinprick::layout {

inline constexpr uint64_t kFileMagic = 0x4b43'4952'504e'4950;  // "PINPRICK"
inline constexpr uint32_t kFileVersion = 36;
inline constexpr std::string_view kFileSuffix = ".session";

enum class SessionState : uint32_t {
  preparing = 1,  // memory may be mapped; the text is untouched
  armed = 2,      // the text may hold the jumps of the sites
  disarmed = 3,   // the text is the program's own again; memory may still be mapped
};

// Memory in the target that pinprick has mapped, or is about to map.
struct MappingEntry {
  uint64_t address = 0;
  uint64_t size = 0;
  enum class Kind : uint32_t {
    scratch = 1,       // anonymous, during attach
    tables = 2,        // this file, read-only
    areas = 3,         // this file, read-write
    stubs = 4,         // anonymous, executable
    runtime_data = 5,  // anonymous, read-write: slots
    runtime_code = 6,  // anonymous, executable
    islands = 7,       // anonymous, executable: targets of puns; address 0: could not be mapped
  } kind = Kind::scratch;
  enum class Progress : uint32_t {
    none = 0,    // not started: whatever is there is not ours
    mapped = 1,  // mapped and marked (engine/owners/ownership.h)
    begun = 2,   // started: may be mapped, may be marked
  } progress = Progress::none;
};

constexpr bool is_code(MappingEntry::Kind kind) {
  return kind == MappingEntry::Kind::stubs || kind == MappingEntry::Kind::runtime_code ||
         kind == MappingEntry::Kind::islands;
}

struct ObjectEntry {
  uint64_t bias = 0;
  uint32_t name = 0;  // this and `path`: offsets in names
  uint32_t path = 0;
  char build_id[48] = {};
};

// The journal: what is written where, and what was there before. Packed, since there may be
// millions.
//
// What is written is a jump: two bytes long if it leads to a trampoline nearby, else five, after
// prefixes that do not change it.
inline constexpr size_t kMaxSiteLength = 8;
inline constexpr uint8_t kShortSiteLength = 2;
inline constexpr uint8_t kLongSiteLength = 5;
inline constexpr uint8_t kPhases = 7;
#pragma pack(push, 4)
struct SiteEntry {
  uint64_t address = 0;
  uint8_t original[kMaxSiteLength] = {};
  int32_t jump = 0;           // distance from the end of the jump to its target
  int32_t copy_distance = 0;  // from `address` to the copy of the first instruction; 0: none
  uint8_t length : 4 = 0;
  // How many bytes are written, from the first. The rest of the jump is already there: it belongs
  // to another site's jump, which this one depends on.
  uint8_t own : 4 = 0;
  uint8_t tactic : 6 = 0;
  uint8_t has_inner_end : 1 = 0;  // calls end after the first displaced instruction
  uint8_t at_start : 1 = 0;       // at the start of its function
  uint8_t displaced = 0;          // size of the displaced instructions, from `address`
  // Order of writing; bytes are restored in reverse order.
  enum class Phase : uint8_t {
    unwinder_hook = 0,  // before probes: without it nothing may unwind slots, nor children count
    usual = 1,
    dependent = 2,  // a jump that needs a usual one: as its trampoline, or for its own last bytes
    loader_hook = 3,
    gone = 4,      // unloaded: what is there now was not probed
    left_out = 5,  // arming did not touch it
    removed = 6,   // its text was restored while the session goes on (engine/removal.h)
  } phase : 4 = Phase::usual;
  // Whether, and where, the stub has a link (arch/jump.h): through it another session's stub for
  // the same site is chained in (engine/owners/shared_sites.h).
  enum class Link : uint8_t {
    none = 0,
    before_copy = 1,
    at_start = 2,
  } link : 2 = Link::none;
  // Of a site that is gone or was removed: its order before. A process that was forked meanwhile
  // may still have the jump (engine/journal/inherited_journal.h).
  uint8_t before : 2 = 0;

  // `now` is gone or removed.
  void leave_text(Phase now) {
    if (is_in_text()) before = static_cast<uint8_t>(phase) & 3;
    phase = now;
  }
  void return_to_text() {
    if (phase == Phase::gone || phase == Phase::removed) phase = static_cast<Phase>(before);
  }
  // Is the session's jump there, if it is armed and has not been overwritten?
  bool is_in_text() const {
    return phase != Phase::gone && phase != Phase::left_out && phase != Phase::removed;
  }
  Address end() const { return address + length; }
  Address target() const { return end() + static_cast<uint64_t>(int64_t{jump}); }
  Address copy() const { return address + static_cast<uint64_t>(int64_t{copy_distance}); }
};
#pragma pack(pop)

// A probe. One that counts hits has a counter, and one that records latency or values, or acts at
// the return of calls, has TimeCounters (of which the values of hits use only `missed`), each in
// the order of the probes. Points of spans have neither, and a probe that records events at its
// hits has neither. FunctionEntry has the names.
struct ProbeEntry {
  uint32_t site = 0;
  uint32_t copy_offset = 0;  // from the copy of the site's first instruction to the probed one's
  uint16_t object = 0;
  enum class Kind : uint8_t {
    count = 1,
    latency = 2,
    value = 3,
    span = 4,
    event = 5,
  } kind : 7 = Kind::count;
  uint8_t at_return : 1 = 0;  // it acts when the call that starts there returns; not for spans
  uint8_t offset = 0;         // of the probed instruction, from the address of the site

  bool times_calls() const { return kind == Kind::latency || at_return != 0; }
  bool has_counter() const { return kind == Kind::count && at_return == 0; }
  bool has_histogram() const {
    return kind == Kind::event ? at_return != 0 : kind != Kind::span && !has_counter();
  }
};

// The types of the parts of a key that is a list, which a stack alone is, too. Such a key is the
// number of a pair: its second number is the last part, and its first one is the first part, or the
// pair of all parts before.
struct KeyParts {
  enum class Is : uint8_t { number, signed_number, text, code, stack, real };
  uint16_t count = 0;  // 0: it is no list
  uint16_t is = 0;     // four bits for each, the first one in the lowest

  static constexpr size_t kMost = 4;
  // A file may say that there are more than there can be.
  Is at(size_t part) const {
    return part < kMost ? static_cast<Is>(is >> 4 * part & 15) : Is::number;
  }
  void add(Is one) {
    is = static_cast<uint16_t>(is | static_cast<unsigned>(one) << 4 * count);
    ++count;
  }
  friend bool operator==(const KeyParts&, const KeyParts&) = default;
};

// Names the probes from first_probe up to the next entry's first_probe: the function's name, and
// their distance from its start. Millions of instructions share the names of some ten thousand
// functions.
struct FunctionEntry {
  uint64_t begin = 0;        // the address that the bare name stands for
  uint32_t first_probe = 0;  // ascending
  uint32_t name = 0;         // offset in names
  uint32_t value = 0;        // what is recorded, as the user wrote it; offset in names
  uint32_t condition = 0;    // which hits contribute, as the user wrote it; empty: all
  uint16_t is_point = 0;     // 1: an SDT point, whose sites all have this name
  // Which numbers of 2^63 and more are negative, in two's complement: bit 0 for values, bit 1 for
  // sums, bit 2 for keys. Bit 3: keys are numbers of texts. Bit 4: they are
  // addresses in the process's code. Bit 5: they are numbers of pairs, or of stacks (key_parts).
  // Bit 6: sums are floating-point numbers, and bit 7: keys are.
  uint16_t is_signed = 0;
  uint32_t sum = 0;  // what is added up, and the key, as the user wrote them; offsets in names
  uint32_t key = 0;
  KeyParts key_parts = {};  // of a key that is a list
};

inline bool adds_reals(const FunctionEntry& function) {
  constexpr uint16_t kSumsAreReal = 64;
  return (function.is_signed & kSumsAreReal) != 0;
}

// A span, from a hit of one probe to the next hit of another, or of the same, on the same thread.
// The SpanCounters of all spans follow the TimeCounters of probes.
struct SpanEntry {
  uint32_t start = 0;  // index in probes of the point's first site, as is `end`
  uint32_t end = 0;
  uint32_t name = 0;  // as the user wrote it; offset in names
  uint32_t unused = 0;
};

// The switch that turns probe n off and on, if the session was armed with switches
// (engine/switches.h). Both distances are from the copy of the site's first displaced instruction.
struct SwitchEntry {
  int32_t at = 0;      // where the switch lies
  int32_t past = 0;    // where it jumps while the probe is off
  uint32_t is_on = 1;  // last known state
  uint32_t unused = 0;
};

// A semaphore of SDT points, or the count of a tracepoint of ours: 16 bits in the target, which the
// session raises by one while its probes are in (engine/text/semaphores.h).
struct SemaphoreEntry {
  uint64_t address = 0;
  uint32_t object = 0;
  uint16_t before = 0;  // its value before the last change that has begun
  enum class Progress : uint8_t {
    untouched = 0,
    raising = 1,  // begun: it may be raised
    raised = 2,
    lowering = 3,  // begun: it may be lowered
    lowered = 4,   // or its object is gone
  } progress = Progress::untouched;
  uint8_t unused = 0;
};

// A nop of a tracepoint of ours. While the point's count is not 0, it is a jump to `block`
// (engine/text/point_sites.h).
struct PointSiteEntry {
  uint64_t address = 0;
  int32_t block = 0;       // from `address`
  uint32_t semaphore = 0;  // index in semaphores: the point's count
};

// What a session with one metric also records: how long it was from the end of one call or span to
// the next start. The last histogram of the session has these times.
enum class Gap : uint32_t {
  none = 0,
  cpu = 1,     // on the same CPU: how long that CPU did not do this work
  thread = 2,  // on the same thread
};

// The bytes of the target's code that a hijacked thread's code replaces, while a thread is
// hijacked.
inline constexpr size_t kHijackSize = 320;
struct HijackEntry {
  uint64_t address = 0;
  uint32_t active = 0;
  uint32_t unused = 0;
  uint8_t original[kHijackSize] = {};
};

// The loader handshake: a thread that loads or unloads libraries tells the controller, and waits
// until it has looked (runtime/loader_handshake.S). The words are shared futexes (futex(2)).
struct LoaderHandshake {
  uint32_t requests = 0;         // incremented by the thread
  uint32_t answered = 0;         // written by the controller: the last request it has dealt with
  uint32_t heartbeat = 0;        // changes while the controller works on a request
  uint32_t controller_gone = 0;  // not 0: threads do not wait
  uint64_t timeout = 0;          // TSC ticks without a heartbeat: the controller is gone
};

// The exec handshake: a thread that is about to execute a program waits until the controller traces
// it (runtime/exec_handshake.S). No system call is made for that, so nothing is woken.
struct ExecSlot {
  enum State : uint32_t { free, taken, asks, answered };
  uint32_t state = free;
  uint32_t tid = 0;  // of the thread, or of the one whose thread pointer it shares (vfork)
};
inline constexpr size_t kExecSlots = PP_EXEC_SLOT_COUNT;
struct ExecHandshake {
  uint32_t heartbeat = 0;        // changes while the controller is at work
  uint32_t controller_gone = 0;  // not 0: threads do not wait
  uint64_t timeout = 0;          // TSC ticks without a heartbeat: the controller is gone
  uint64_t tid_offset = 0;       // of a thread's TID, from its thread pointer
  uint32_t missed = 0;           // threads that did not wait, or not to the end
  uint32_t unused = 0;
  ExecSlot slots[kExecSlots] = {};
};

// At the start of the pool. Its blocks follow one page later, one after the other, each as large as
// its histogram. Sizes are in bytes of blocks.
struct PoolHeader {
  uint64_t taken = 0;      // given out, by the target
  uint64_t limit = 0;      // reserved, by the controller
  uint64_t own_limit = 0;  // the part of `limit` for areas of CPUs; the rest is for area 0
  uint64_t refused = 0;    // calls that were not recorded because no block was left
};

struct Section {
  uint64_t offset = 0;
  uint64_t count = 0;  // entries; for names: bytes
};

struct FileHeader {
  uint64_t magic = kFileMagic;
  uint32_t version = kFileVersion;
  uint32_t header_size = 0;
  uint64_t file_size = 0;
  SessionState state = SessionState::preparing;
  int32_t pid = 0;
  uint64_t start_time = 0;  // of the process, in clock ticks after boot
  char boot_id[32] = {};
  char command[32] = {};
  uint64_t created_ns = 0;     // CLOCK_REALTIME
  uint64_t ns_multiplier = 0;  // nanoseconds per TSC tick, times 2^32
  uint32_t cpu_count = 0;      // areas besides area 0: one per CPU, or fewer
  uint32_t fraction_bits = 0;
  int32_t controller = 0;  // pid of the latest one
  // 1: the probes stay without a controller, as the statistic `statistic`, until a user removes
  // them. Set last, once they are in place.
  uint32_t is_kept = 0;
  Gap gap = Gap::none;
  uint32_t statistic = 0;  // offset in names
  uint32_t is_stopped = 0;
  uint64_t stopped_ns = 0;  // CLOCK_REALTIME, when it was stopped
  // How often the histograms were reset. What they had then is a baseline, which readers subtract:
  // their cells only grow. Baselines lie at two offsets in turn (baseline_offset).
  uint64_t resets = 0;
  int32_t handover_descriptors[3] = {-1, -1,
                                     -1};  // open in the target, while the file is handed over
  Section mappings;
  Section objects;
  Section sites;
  Section probes;
  Section functions;
  Section spans;
  Section switches;  // one for each probe, or none
  Section semaphores;
  Section point_sites;
  Section names;
  uint64_t counter_count = 0;
  uint64_t histogram_count = 0;
  uint64_t areas_offset = 0;
  uint64_t area_size = 0;
  uint64_t loader_handshake_offset = 0;  // 0: none
  uint64_t exec_handshake_offset = 0;    // 0: none
  uint64_t keys_offset = 0;              // of the table of keys; 0: none
  uint32_t key_log2 = 0;                 // of the number of hashes of keys
  uint32_t has_sums = 0;                 // 1: counted hits, also those without a key, have sums
  uint64_t has_key_times = 0;            // 1: calls or values are recorded by keys
  uint64_t extremes_offset = 0;          // of the tables of Extremes; 0: none
  // The number of the current interval. Hits read it, and the controller raises it.
  uint64_t interval = 0;
  uint64_t texts_offset = 0;  // of the table of texts; 0: none
  uint32_t text_log2 = 0;     // of the number of hashes of texts
  uint32_t has_unread = 0;    // 1: hits follow pointers
  uint64_t event_log2 = 0;    // of a ring's capacity; 0: hits record no events
  EventRings rings = EventRings::oldest;
  uint64_t pool_offset = 0;  // 0: none, and there are no histograms
  uint64_t pool_size = 0;    // bytes of blocks that have addresses
  HijackEntry hijack;
};

static_assert(offsetof(LoaderHandshake, requests) == PP_LOADER_REQUESTS);
static_assert(offsetof(LoaderHandshake, answered) == PP_LOADER_ANSWERED);
static_assert(offsetof(LoaderHandshake, heartbeat) == PP_LOADER_HEARTBEAT);
static_assert(offsetof(LoaderHandshake, controller_gone) == PP_LOADER_CONTROLLER_GONE);
static_assert(offsetof(LoaderHandshake, timeout) == PP_LOADER_TIMEOUT);
static_assert(offsetof(ExecHandshake, heartbeat) == PP_EXEC_HEARTBEAT);
static_assert(offsetof(ExecHandshake, controller_gone) == PP_EXEC_CONTROLLER_GONE);
static_assert(offsetof(ExecHandshake, timeout) == PP_EXEC_TIMEOUT);
static_assert(offsetof(ExecHandshake, tid_offset) == PP_EXEC_TID_OFFSET);
static_assert(offsetof(ExecHandshake, missed) == PP_EXEC_MISSED);
static_assert(offsetof(ExecHandshake, slots) == PP_EXEC_SLOTS);
static_assert(sizeof(ExecSlot) == 8 && offsetof(ExecSlot, tid) == PP_EXEC_SLOT_TID);
static_assert(ExecSlot::taken == PP_EXEC_TAKEN && ExecSlot::asks == PP_EXEC_ASKS);
static_assert(ExecSlot::answered == PP_EXEC_ANSWERED && sizeof(ExecHandshake) <= kPageSize);
static_assert(offsetof(PoolHeader, taken) == PP_POOL_TAKEN);
static_assert(offsetof(PoolHeader, limit) == PP_POOL_LIMIT);
static_assert(offsetof(PoolHeader, own_limit) == PP_POOL_OWN_LIMIT);
static_assert(offsetof(PoolHeader, refused) == PP_POOL_REFUSED);
static_assert(sizeof(PoolHeader) <= PP_POOL_BLOCKS && PP_POOL_BLOCKS == kPageSize);
static_assert(sizeof(MappingEntry) == 24);
static_assert(sizeof(ObjectEntry) == 64);
static_assert(sizeof(SiteEntry) == 28);
static_assert(sizeof(ProbeEntry) == 12);
static_assert(sizeof(FunctionEntry) == 40);
static_assert(sizeof(SpanEntry) == 16);
static_assert(sizeof(SwitchEntry) == 16);
static_assert(sizeof(SemaphoreEntry) == 16);
static_assert(sizeof(PointSiteEntry) == 16);
static_assert(sizeof(FileHeader) <= kPageSize);

struct SessionCounts {
  uint64_t mappings = 0;
  uint64_t objects = 0;
  uint64_t sites = 0;
  uint64_t probes = 0;
  uint64_t functions = 0;
  uint64_t spans = 0;
  uint64_t switches = 0;
  uint64_t semaphores = 0;
  uint64_t point_sites = 0;
  uint64_t counters = 0;
  uint64_t histograms = 0;
  uint64_t pool_size = 0;
  uint64_t name_bytes = 0;
  uint32_t cpus = 0;
  uint32_t fraction_bits = 0;
  uint32_t key_log2 = 0;  // 0: nothing is counted by keys
  bool has_sums = false;
  bool has_extremes = false;
  bool has_key_times = false;
  uint32_t text_log2 = 0;  // 0: no texts are read
  bool has_unread = false;
  uint32_t event_log2 = 0;  // 0: no events are recorded
  EventRings rings = EventRings::oldest;
  bool loader_handshake = false;
  bool exec_handshake = false;
  Gap gap = Gap::none;
};

// Returns a header whose sections have room for these counts. Other fields have their defaults.
FileHeader lay_out(const SessionCounts& counts);

inline constexpr uint64_t kBlockAlignment = 64;
// Returns the size of a histogram's block.
constexpr uint64_t histogram_size(uint32_t fraction_bits) {
  return align_up(uint64_t{stats::slot_count(fraction_bits)} * sizeof(stats::Cell),
                  kBlockAlignment);
}
// Offsets in an area.
constexpr uint64_t counter_offset(uint64_t counter) {
  return counter * sizeof(uint64_t);
}
constexpr uint64_t time_counters_offset(const FileHeader& header, uint64_t histogram) {
  return counter_offset(header.counter_count) + histogram * sizeof(TimeCounters);
}
// Where a CPU keeps the end of its last call or span, for Gap::cpu: after the TimeCounters of the
// gaps.
constexpr uint64_t gap_word_offset(const FileHeader& header) {
  return time_counters_offset(header, header.histogram_count);
}
// Returns the number of entries of the table of keys, each of which has a counter.
constexpr uint64_t key_count(const FileHeader& header) {
  return header.key_log2 == 0 ? 0 : key_entries(header.key_log2);
}
constexpr uint64_t key_counter_offset(const FileHeader& header, uint64_t entry) {
  return gap_word_offset(header) + (header.gap == Gap::none ? 0 : sizeof(uint64_t)) +
         entry * sizeof(uint64_t);
}
// Returns the counter of the calls of a histogram's probe that are counted by keys, and whose key
// has no room.
constexpr uint64_t rest_offset(const FileHeader& header, uint64_t histogram) {
  return key_counter_offset(header, key_count(header)) + histogram * sizeof(uint64_t);
}
// Returns the distance from the counter of a probe or key to the sum of its hits.
constexpr uint64_t sums_offset(const FileHeader& header) {
  return rest_offset(header, header.key_log2 == 0 ? 0 : header.histogram_count);
}
// Returns the number of entries of each table of Extremes: that of a counter has the same number as
// the counter's word in an area.
constexpr uint64_t extremes_count(const FileHeader& header) {
  return sums_offset(header) / sizeof(uint64_t);
}
// Returns where a table of Extremes starts in the file: that of the whole time, or of an interval.
constexpr uint64_t extremes_offset(const FileHeader& header) {
  return header.extremes_offset;
}
constexpr uint64_t extremes_offset(const FileHeader& header, uint64_t interval) {
  return header.extremes_offset + (1 + interval % 2) * extremes_count(header) * sizeof(Extremes);
}
constexpr uint64_t extremes_size(const FileHeader& header) {  // of all three
  return 3 * extremes_count(header) * sizeof(Extremes);
}
constexpr uint64_t key_times_offset(const FileHeader& header, uint64_t entry) {
  return sums_offset(header) * (header.has_sums == 0 ? 1 : 2) + entry * sizeof(TimeCounters);
}
// Returns the counter of a probe's hits of which something could not be read.
constexpr uint64_t unread_offset(const FileHeader& header, uint64_t probe) {
  return key_times_offset(header, header.has_key_times == 0 ? 0 : key_count(header)) +
         probe * sizeof(uint64_t);
}
// Returns the counter of a probe's events that the ring had no room for.
constexpr uint64_t dropped_offset(const FileHeader& header, uint64_t probe) {
  return unread_offset(header, header.has_unread == 0 ? 0 : header.probes.count) +
         probe * sizeof(uint64_t);
}
// Returns the counter of a probe's hits of which only some are recorded as events (--every).
constexpr uint64_t passed_offset(const FileHeader& header, uint64_t probe) {
  return dropped_offset(header, header.probes.count + probe);
}
constexpr uint64_t ring_offset(const FileHeader& header) {
  return align_up(header.event_log2 == 0 ? dropped_offset(header, 0)
                                         : passed_offset(header, header.probes.count),
                  alignof(EventRing));
}
// Returns where an area ends. `event_log2` is at most kMostEventLog2.
inline constexpr uint32_t kLeastEventLog2 = 16, kMostEventLog2 = 32;
constexpr uint64_t end_of_area(const FileHeader& header) {
  return header.event_log2 == 0
             ? dropped_offset(header, 0)
             : ring_offset(header) + event_ring_size(static_cast<uint32_t>(header.event_log2));
}
// An entry of the table of keys names its probe by an offset in an area: that of the probe's own
// counter, rest or TimeCounters. The target writes these entries, so they are checked here.
constexpr bool owns_counter(const FileHeader& header, uint64_t owner) {
  const uint64_t rests = rest_offset(header, 0);
  return owner % sizeof(uint64_t) == 0 &&
         (owner < counter_offset(header.counter_count) ||
          (owner >= rests && owner < rest_offset(header, header.histogram_count)));
}
constexpr bool owns_times(const FileHeader& header, uint64_t owner) {
  const uint64_t first = time_counters_offset(header, 0);
  return owner >= first && owner < time_counters_offset(header, header.histogram_count) &&
         (owner - first) % sizeof(TimeCounters) == 0;
}
// `cell` is the number of the probe's counter or histogram.
inline uint64_t owner_of_keys(const FileHeader& header, const ProbeEntry& probe, uint64_t cell) {
  if (probe.has_counter()) return counter_offset(cell);
  return probe.kind == ProbeEntry::Kind::count ? rest_offset(header, cell)
                                               : time_counters_offset(header, cell);
}
// Returns how many histograms may have blocks in an area.
constexpr uint64_t blocks_in_area(const FileHeader& header) {
  return header.histogram_count + (header.has_key_times == 0 ? 0 : key_count(header));
}
// Returns the number of histograms besides that of the gaps.
constexpr uint64_t metric_count(const FileHeader& header) {
  return header.histogram_count - (header.gap == Gap::none ? 0 : 1);
}
// Returns the histogram of the first span.
constexpr uint64_t first_span_of(const FileHeader& header) {
  return metric_count(header) - header.spans.count;
}
// Returns the offset in the file of the block at `offset` of the pool. `offset` may be any number:
// returns nullopt if no block with that many fraction bits can be there.
std::optional<uint64_t> block_at(const FileHeader& header, uint64_t offset, uint32_t fraction_bits);
// Returns where that many bytes of blocks end in the file.
constexpr uint64_t end_of_blocks(const FileHeader& header, uint64_t bytes) {
  return header.pool_offset + PP_POOL_BLOCKS + bytes;
}
// Returns the offset of an area in the file. Area 0 is the locked one, area 1 + n is CPU n's.
constexpr uint64_t area_offset(const FileHeader& header, uint64_t area) {
  return header.areas_offset + area * header.area_size;
}
// A baseline has for each area, and for each histogram in it, a BaselineEntry and then the
// histogram's cells.
struct BaselineEntry {
  TimeCounters calls;
  uint64_t has_cells = 0;  // 0: there are none, and a hole is left for them
};
constexpr uint64_t baseline_entry_size(const FileHeader& header) {
  return align_up(sizeof(BaselineEntry) + histogram_size(header.fraction_bits), kBlockAlignment);
}
constexpr uint64_t baseline_size(const FileHeader& header) {
  return align_up(
      (uint64_t{header.cpu_count} + 1) * header.histogram_count * baseline_entry_size(header),
      kPageSize);
}
// Returns the offset of the baseline that holds after `resets` resets, at least one.
constexpr uint64_t baseline_offset(const FileHeader& header, uint64_t resets) {
  return align_up(header.file_size, kPageSize) + (resets % 2) * baseline_size(header);
}
// Returns the size of what the target maps read-only.
constexpr uint64_t tables_size(const FileHeader& header) {
  return align_up(header.probes.offset + header.probes.count * sizeof(ProbeEntry), kPageSize);
}

struct ProbeName {
  std::string_view function;
  uint64_t offset = 0;
  std::string_view value = {};
  std::string_view condition = {};
  bool is_point = false;
  bool is_signed = false;
  bool at_return = false;
  std::string_view sum = {};
  bool is_sum_signed = false;
  bool is_sum_real = false;
  std::string_view key = {};
  bool is_key_signed = false;
  bool is_key_real = false;
  bool is_key_text = false;
  bool is_key_code = false;
  KeyParts key_parts = {};
};

// The tables of a session file, copied and checked.
struct Session {
  FileHeader header;
  std::vector<MappingEntry> mappings;
  std::vector<ObjectEntry> objects;
  std::vector<SiteEntry> sites;
  std::vector<ProbeEntry> probes;
  std::vector<FunctionEntry> functions;
  std::vector<SpanEntry> spans;
  std::vector<SwitchEntry> switches;
  std::vector<SemaphoreEntry> semaphores;
  std::vector<PointSiteEntry> point_sites;
  std::vector<char> names;

  // Returns where each probe records: the number of its counter, or of its histogram. Of a point of
  // spans the number means nothing.
  std::vector<uint32_t> cells_of_probes() const;
  // Returns the probe of each histogram that is a probe's.
  std::vector<uint32_t> probes_of_histograms() const;
  // Returns the name at this offset; "?" if the offset is invalid.
  std::string_view name(uint64_t offset) const;
  // Returns the name of a probe, by index; "?" if no FunctionEntry covers it.
  ProbeName probe_name(size_t probe) const;
  // Returns the address of the probed instruction in the file of its object.
  Address address_in_file(const ProbeEntry& probe) const {
    return sites[probe.site].address + probe.offset - objects[probe.object].bias;
  }
};

enum class ParseError : uint8_t {
  not_a_session,  // wrong magic
  version,        // written by another version of pinprick
  truncated,      // the file is shorter than its header says
  inconsistent,   // sections outside the file, or absurd numbers
};

// Checks a header alone, against the size of the file that it was read from.
std::optional<ParseError> check_header(const FileHeader& header, uint64_t file_size);

// Parses a copy of the file up to header.areas_offset into `out`. Entries with invalid references
// are errors.
std::optional<ParseError> parse_session(std::span<const uint8_t> bytes, uint64_t file_size,
                                        Session& out);

}  // namespace pinprick::layout
