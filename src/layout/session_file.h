// The file that controller and target share: journal, probe table, cells. Versioned; offsets, never
// pointers. docs/data.md describes it for other readers.
//
//     FileHeader | mappings | objects | sites | probes |    mapped read-only in the target
//     functions | spans | switches | names |                not mapped
//     cells                                                 mapped read-write
//
// The cells are one region per CPU, behind one for threads that have to lock:
//
//     region 0 (locked) | CPU 0 | CPU 1 | ...       each: counters | TimeCells (runtime_data.h)
//
// After them come the loader's cell, where the session follows what is loaded, and the pool. A
// histogram of a region is a block of the pool once something was recorded there. Its place is the
// distance from the pool's beginning to that block, and 0 before. As much of the pool is reserved
// as its header says; the rest is a hole in the file, which nobody touches.
//
// The target, and everybody else with the user's rights, may write anything here at any time.
// Readers take a copy and parse that (parse_session); nothing is used unchecked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "layout/runtime_data.h"
#include "layout/runtime_offsets.h"
#include "stats/histogram.h"

namespace pinprick::layout {

inline constexpr uint64_t kFileMagic = 0x4b43'4952'504e'4950;  // "PINPRICK"
inline constexpr uint32_t kFileVersion = 14;
inline constexpr std::string_view kFileSuffix = ".session";

enum class SessionState : uint32_t {
  preparing = 1,  // memory may be mapped; the text is untouched
  armed = 2,      // the text may hold what the sites say
  disarmed = 3,   // the text is the program's own again; memory may still be mapped
};

// Memory that pinprick mapped, or is about to map, in the target.
struct MappingEntry {
  uint64_t address = 0;
  uint64_t size = 0;
  enum class Kind : uint32_t {
    scratch = 1,       // anonymous, during attach
    tables = 2,        // of this file, read-only
    cells = 3,         // of this file, read-write
    stubs = 4,         // anonymous, executable
    runtime_data = 5,  // anonymous, read-write: slots
    runtime_code = 6,  // anonymous, executable
    islands = 7,       // anonymous, executable: where puns lead; at 0: not to be had
  } kind = Kind::scratch;
  enum class Progress : uint32_t {
    none = 0,    // not begun: whatever is there is not ours
    mapped = 1,  // and marked (engine/ownership.h)
    begun = 2,   // mapped or not, marked or not
  } progress = Progress::none;
};

constexpr bool is_code(MappingEntry::Kind kind) {
  return kind == MappingEntry::Kind::stubs || kind == MappingEntry::Kind::runtime_code ||
         kind == MappingEntry::Kind::islands;
}

struct ObjectEntry {
  uint64_t bias = 0;
  uint32_t name = 0;  // offsets in names
  uint32_t path = 0;
  char build_id[48] = {};
};

// The journal: what is written where, and what was there. Packed, as there may be millions.
//
// What is written is a jump: of two bytes to a trampoline nearby, else of five, behind prefixes
// that mean nothing to it.
inline constexpr size_t kMaxSiteLength = 8;
inline constexpr uint8_t kShortSiteLength = 2;
inline constexpr uint8_t kLongSiteLength = 5;
inline constexpr uint8_t kPhases = 6;
#pragma pack(push, 4)
struct SiteEntry {
  uint64_t address = 0;
  uint8_t original[kMaxSiteLength] = {};
  int32_t jump = 0;  // how far it leads, from its end
  int32_t body = 0;  // from the address to the copy of the first displaced instruction; 0: none
  uint8_t length : 4 = 0;
  // So many bytes are written, from the first; the others of the jump are there already, as part of
  // another one's that it relies on.
  uint8_t own : 4 = 0;
  uint8_t tactic : 7 = 0;
  uint8_t at_begin : 1 = 0;  // of its function
  uint8_t displaced = 0;     // bytes from address whose instructions run in the stub
  // Written in this order, and put back in the other.
  enum class Phase : uint8_t {
    unwinder_hook = 0,  // nobody may unwind over slots without, nor children count
    usual = 1,
    dependent = 2,  // a jump that needs one of the usual: a trampoline, or its last bytes
    loader_hook = 3,
    gone = 4,      // unloaded: what is there now is not what was probed
    left_out = 5,  // arming has left it as it was
  } phase : 4 = Phase::usual;
  // Where the stub has a link (arch/jump.h), by which another session's stub for the same site is
  // led in; session/shared_sites.h.
  enum class Link : uint8_t {
    none = 0,
    before_body = 1,
    at_begin = 2,
  } link : 2 = Link::none;
  uint8_t unused : 2 = 0;

  Address end() const { return address + length; }
  Address target() const { return end() + static_cast<uint64_t>(int64_t{jump}); }
  Address copy() const { return address + static_cast<uint64_t>(int64_t{body}); }
};
#pragma pack(pop)

// A counting probe has the counter with its own number, a latency or value probe the TimeCells, of
// which values need no more than `missed`. Points of spans have nothing of their own. All probes of
// a session are of one kind. Its name is that of a FunctionEntry.
struct ProbeEntry {
  uint32_t site = 0;
  uint32_t body = 0;  // from the copy of the site's first instruction to that of the probed one
  uint16_t object = 0;
  enum class Kind : uint8_t { count = 1, latency = 2, value = 3, span = 4 } kind = Kind::count;
  uint8_t offset = 0;  // of the probed instruction, from the site's address
};

// Names probes, from one on up to the next entry's: the function's name, and how far they are
// behind its begin. Millions of instructions have the names of some ten thousand functions.
struct FunctionEntry {
  uint64_t begin = 0;        // what the name alone stands for
  uint32_t first_probe = 0;  // ascending
  uint32_t name = 0;         // offset in names
  uint32_t value = 0;        // of value probes: what they record, as the user wrote it; in names
  uint32_t unused = 0;
};

// From a hit of one probe to the next hit of another, or of the same, in the same thread. Has the
// SpanCells with its own number.
struct SpanEntry {
  uint32_t start = 0;  // probes
  uint32_t end = 0;
  uint32_t name = 0;  // as the user wrote it; offset in names
  uint32_t unused = 0;
};

// Of the probe with its number, in a session that was armed with switches: by it the probe is
// turned off and on (engine/switches.h). Both are from the copy of the first instruction that its
// site displaced.
struct SwitchEntry {
  int32_t at = 0;      // where the switch lies
  int32_t past = 0;    // where it leads while the probe is off
  uint32_t is_on = 1;  // as it was last known to be
  uint32_t unused = 0;
};

// Bytes of the target's code that a hijacked thread runs on, while one is hijacked.
inline constexpr size_t kHijackSize = 320;
struct HijackEntry {
  uint64_t address = 0;
  uint32_t active = 0;
  uint32_t unused = 0;
  uint8_t original[kHijackSize] = {};
};

// Where a thread that loads or unloads libraries tells the controller, and waits until it has
// looked (runtime/loader_handshake.S). By futex(2): shared words.
struct LoaderCell {
  uint32_t requests = 0;         // the thread's: one more
  uint32_t answered = 0;         // the controller's: the last request it has dealt with
  uint32_t heartbeat = 0;        // changes while the controller is at it
  uint32_t controller_gone = 0;  // not 0: nobody waits
  uint64_t timeout = 0;          // TSC ticks without a heartbeat until it counts as absent
};

// At the beginning of the pool. Its blocks follow a page later, one after the other, each as large
// as its histogram. Sizes are bytes of blocks.
struct PoolHeader {
  uint64_t taken = 0;      // by the target
  uint64_t limit = 0;      // what is reserved; written by the controller
  uint64_t own_limit = 0;  // the same for regions of CPUs; the rest is for region 0
  uint64_t refused = 0;    // calls that were recorded nowhere, for want of a block
};

struct Section {
  uint64_t offset = 0;
  uint64_t count = 0;  // entries; bytes for names
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
  uint32_t cpu_count = 0;      // regions of cells besides the first: one per CPU, or fewer
  uint32_t fraction_bits = 0;
  int32_t controller = 0;  // pid of the last one
  int32_t handover_descriptors[3] = {-1, -1,
                                     -1};  // open in the target, while the file is handed over
  Section mappings;
  Section objects;
  Section sites;
  Section probes;
  Section functions;
  Section spans;
  Section switches;  // one for each probe, or none
  Section names;
  uint64_t counter_count = 0;
  uint64_t histogram_count = 0;
  uint64_t cells_offset = 0;
  uint64_t region_size = 0;
  uint64_t loader_cell_offset = 0;  // 0: none
  uint64_t pool_offset = 0;         // 0: none, and no histograms
  uint64_t pool_size = 0;           // bytes of blocks that there are addresses for
  HijackEntry hijack;
};

static_assert(offsetof(LoaderCell, requests) == PP_LOADER_REQUESTS);
static_assert(offsetof(LoaderCell, answered) == PP_LOADER_ANSWERED);
static_assert(offsetof(LoaderCell, heartbeat) == PP_LOADER_HEARTBEAT);
static_assert(offsetof(LoaderCell, controller_gone) == PP_LOADER_CONTROLLER_GONE);
static_assert(offsetof(LoaderCell, timeout) == PP_LOADER_TIMEOUT);
static_assert(offsetof(PoolHeader, taken) == PP_POOL_TAKEN);
static_assert(offsetof(PoolHeader, limit) == PP_POOL_LIMIT);
static_assert(offsetof(PoolHeader, own_limit) == PP_POOL_OWN_LIMIT);
static_assert(offsetof(PoolHeader, refused) == PP_POOL_REFUSED);
static_assert(sizeof(PoolHeader) <= PP_POOL_BLOCKS && PP_POOL_BLOCKS == kPageSize);
static_assert(sizeof(MappingEntry) == 24);
static_assert(sizeof(ObjectEntry) == 64);
static_assert(sizeof(SiteEntry) == 28);
static_assert(sizeof(ProbeEntry) == 12);
static_assert(sizeof(FunctionEntry) == 24);
static_assert(sizeof(SpanEntry) == 16);
static_assert(sizeof(SwitchEntry) == 16);
static_assert(sizeof(FileHeader) <= kPageSize);

struct SessionCounts {
  uint64_t mappings = 0;
  uint64_t objects = 0;
  uint64_t sites = 0;
  uint64_t probes = 0;
  uint64_t functions = 0;
  uint64_t spans = 0;
  uint64_t switches = 0;
  uint64_t counters = 0;
  uint64_t histograms = 0;
  uint64_t pool_size = 0;
  uint64_t name_bytes = 0;
  uint32_t cpus = 0;
  uint32_t fraction_bits = 0;
  bool loader_cell = false;
};

// A header whose sections have room for these; everything else at its default.
FileHeader lay_out(const SessionCounts& counts);

inline constexpr uint64_t kBlockAlignment = 64;
// Of a block.
constexpr uint64_t histogram_size(uint32_t fraction_bits) {
  return align_up(uint64_t{stats::slot_count(fraction_bits)} * sizeof(stats::Cell),
                  kBlockAlignment);
}
// Offsets inside a region.
constexpr uint64_t counter_offset(uint64_t counter) {
  return counter * sizeof(uint64_t);
}
constexpr uint64_t time_cells_offset(const FileHeader& header, uint64_t histogram) {
  return counter_offset(header.counter_count) + histogram * sizeof(TimeCells);
}
// Returns the offset in the file of the block at that place, which may hold anything; nullopt if no
// block of that many fraction bits can be there.
std::optional<uint64_t> block_at(const FileHeader& header, uint64_t place, uint32_t fraction_bits);
// Returns the end in the file of that many bytes of blocks.
constexpr uint64_t end_of_blocks(const FileHeader& header, uint64_t bytes) {
  return header.pool_offset + PP_POOL_BLOCKS + bytes;
}
// Offset of a region in the file. Region 0 is the locked one, region 1 + n is CPU n's.
constexpr uint64_t region_offset(const FileHeader& header, uint64_t region) {
  return header.cells_offset + region * header.region_size;
}
// End of what the target sees read-only.
constexpr uint64_t tables_size(const FileHeader& header) {
  return align_up(header.probes.offset + header.probes.count * sizeof(ProbeEntry), kPageSize);
}

struct ProbeName {
  std::string_view function;
  uint64_t offset = 0;
  std::string_view value = {};
};

// A session file's tables, copied and checked.
struct Session {
  FileHeader header;
  std::vector<MappingEntry> mappings;
  std::vector<ObjectEntry> objects;
  std::vector<SiteEntry> sites;
  std::vector<ProbeEntry> probes;
  std::vector<FunctionEntry> functions;
  std::vector<SpanEntry> spans;
  std::vector<SwitchEntry> switches;
  std::vector<char> names;

  // A name by its offset; "?" for offsets that lead nowhere.
  std::string_view name(uint64_t offset) const;
  // Of the probe with that number; "?" for one that no function has.
  ProbeName probe_name(size_t probe) const;
};

enum class ParseError : uint8_t {
  not_a_session,  // other magic
  version,        // of another pinprick
  truncated,      // the file is shorter than it says
  inconsistent,   // sections outside of the file, or absurd numbers
};

// Checks a header alone, against the size of the file it was read from.
std::optional<ParseError> check_header(const FileHeader& header, uint64_t file_size);

// `bytes`: the file up to header.cells_offset. Entries that point nowhere are refused.
std::optional<ParseError> parse_session(std::span<const uint8_t> bytes, uint64_t file_size,
                                        Session& out);

}  // namespace pinprick::layout
