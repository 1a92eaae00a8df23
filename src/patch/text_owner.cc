#include "patch/text_owner.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "arch/code.h"
#include "target/procfs.h"

namespace pinprick::patch {
namespace {

using layout::OwnPage;
using layout::OwnSite;
using layout::OwnTable;

// The kernel's name for shared anonymous memory, which never merges with its neighbours.
constexpr std::string_view kSharedMemory = "/dev/zero";
// More libpinpricks than any process has.
constexpr size_t kMostTables = 4;
// The first byte of a jump in the text.
constexpr uint8_t kJump = 0xe9;

// Several if there are several libpinpricks, one of which is a part of a library, say.
std::vector<OwnPage> find_pages(const target::Memory& memory,
                                const std::vector<image::Mapping>& maps) {
  std::vector<OwnPage> pages;
  for (const image::Mapping& mapping : maps) {
    OwnPage page;
    if (!mapping.shared || mapping.path != kSharedMemory || mapping.range.size() != kPageSize ||
        !memory.read_value(mapping.range.begin, page))
      continue;
    if (page.magic == layout::kOwnPageMagic) pages.push_back(page);
    if (page.magic == layout::kFormerOwnPageMagic) pages.push_back({page.magic, 0});
  }
  return pages;
}

template <class T>
bool read_array(const target::Memory& memory, Address address, std::vector<T>& out) {
  return memory.read(address, {reinterpret_cast<uint8_t*>(out.data()), out.size() * sizeof(T)});
}

bool is_valid_site(const OwnSite& site) {
  return site.written <= OwnSite::kMostWritten && site.touched >= site.written &&
         site.address < UINT64_MAX - UINT8_MAX &&
         (site.state == OwnSite::State::in_use || site.state == OwnSite::State::former);
}

bool by_address(const OwnSite& a, const OwnSite& b) {
  return a.address < b.address;
}

}  // namespace

OwnProbes OwnProbes::read(const target::Memory& memory, const std::vector<image::Mapping>& maps) {
  OwnProbes own;
  const auto pages = find_pages(memory, maps);
  const bool are_open = std::all_of(pages.begin(), pages.end(), [&](const OwnPage& page) {
    return own.read_table(memory, page.table);
  });
  if (are_open && own.read_sites(memory)) return own;
  own = {};
  own.is_closed_ = true;
  return own;
}

bool OwnProbes::read_table(const target::Memory& memory, Address address) {
  OwnTable table;
  if (address == 0 || address % kPageSize != 0 || tables_.size() == kMostTables ||
      !memory.read_value(address, table) || table.magic != layout::kOwnTableMagic ||
      table.code_count > layout::kMostOwnCode || table.slots_count > std::size(table.slots))
    return false;
  std::vector<Range> code(table.code_count);
  if (!read_array(memory, address + layout::kOwnCodeOffset, code)) return false;
  tables_.push_back(address);
  const Range library = {table.libpinprick_begin,
                         std::max(table.libpinprick_begin, table.libpinprick_end)};
  if (!library.empty()) {
    libraries_.push_back(library);
    code.push_back(library);
  }
  std::copy_if(code.begin(), code.end(), std::back_inserter(code_),
               [](Range range) { return !range.empty(); });
  slots_.insert(slots_.end(), table.slots, table.slots + table.slots_count);
  return true;
}

uint64_t OwnProbes::changes_now(const target::Memory& memory) const {
  uint64_t sum = 0;
  for (const Address table : tables_) {
    uint64_t changes = 0;
    memory.read_value(table + offsetof(OwnTable, changes), changes);
    sum += changes;
  }
  return sum;
}

// Until nothing has changed meanwhile, but not for ever.
bool OwnProbes::read_sites(const target::Memory& memory) {
  constexpr int kAttempts = 10;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const uint64_t before = changes_now(memory);
    std::vector<OwnSite> sites;
    for (const Address table : tables_) {
      uint64_t count = 0;
      if (!memory.read_value(table + offsetof(OwnTable, site_count), count) ||
          count > layout::kMostOwnSites)
        return false;
      std::vector<OwnSite> some(count);
      if (!read_array(memory, table + layout::kOwnSitesOffset, some)) return false;
      std::copy_if(some.begin(), some.end(), std::back_inserter(sites), is_valid_site);
    }
    sites_ = std::move(sites);
    changes_ = changes_now(memory) == before ? std::optional(before) : std::nullopt;
    if (changes_) break;
  }
  std::stable_sort(sites_.begin(), sites_.end(), by_address);
  return true;
}

void OwnProbes::read_changes(const target::Memory& memory) {
  if (changes_ != changes_now(memory)) read_sites(memory);
}

bool OwnProbes::needs_any_of(Range window) const {
  const Address from = window.begin - std::min<Address>(window.begin, UINT8_MAX);
  OwnSite first;
  first.address = from;
  for (auto site = std::lower_bound(sites_.begin(), sites_.end(), first, by_address);
       site != sites_.end() && site->address < window.end; ++site) {
    if (site->state == OwnSite::State::in_use && site->range().overlaps(window)) return true;
    for (uint8_t end : site->ends) {
      const Address at = site->address + end;
      if (end != 0 && at > window.begin && at < window.end) return true;
    }
  }
  return std::any_of(libraries_.begin(), libraries_.end(),
                     [&](Range library) { return window.overlaps(library); });
}

template <class F>
bool OwnProbes::any_in_use(Range bytes, F&& f) const {
  OwnSite first;
  first.address = bytes.begin - std::min<Address>(bytes.begin, UINT8_MAX);
  for (auto site = std::lower_bound(sites_.begin(), sites_.end(), first, by_address);
       site != sites_.end() && site->address < bytes.end; ++site)
    if (site->state == OwnSite::State::in_use && site->range().overlaps(bytes) && f(*site))
      return true;
  return false;
}

// Sites of tracepoints have no name.
bool OwnProbes::has_probe_at(Range bytes) const {
  return any_in_use(bytes, [](const OwnSite& site) { return site.name != 0; });
}

bool OwnProbes::takes(Range bytes) const {
  return any_in_use(bytes, [](const OwnSite&) { return true; });
}

// A page that is still the file's was never written to: what was probed there was unloaded. While
// the program changes a site, any of its bytes may be new already; the first one then is a
// breakpoint, as it is in the last step of a removal. Sites are chosen by the text as it was read,
// before any of them is put back: several may have the same bytes, and the latest has the last
// word.
void OwnProbes::put_back(pid_t pid, Address address, std::span<uint8_t> bytes,
                         uint64_t changes) const {
  const Range read = {address, address + bytes.size()};
  const bool is_quiet = changes_ == changes;
  OwnSite first;
  first.address = address - std::min<Address>(address, OwnSite::kMostWritten);
  std::map<Address, bool> is_written;  // by page
  std::vector<const OwnSite*> chosen;
  for (auto site = std::lower_bound(sites_.begin(), sites_.end(), first, by_address);
       site != sites_.end() && site->address < read.end; ++site) {
    if (is_quiet && site->state != OwnSite::State::in_use) continue;
    if (!Range{site->address, site->address + site->written}.overlaps(read)) continue;
    if (read.contains(site->address)) {
      const uint8_t byte = bytes[site->address - address];
      if (byte != site->original[0] && byte != kJump && byte != arch::kBreakpoint) continue;
    }
    const auto [page, is_new] = is_written.try_emplace(align_down(site->address, kPageSize));
    if (is_new) page->second = target::is_private_copy(pid, site->address);
    if (page->second) chosen.push_back(&*site);
  }
  for (const OwnSite* site : chosen)
    for (uint8_t i = 0; i < site->written; ++i)
      if (read.contains(site->address + i)) bytes[site->address + i - address] = site->original[i];
}

std::string name_of(const target::Memory& memory, Address name) {
  constexpr size_t kMostRead = 512;
  std::string text;
  while (name != 0 && text.size() < kMostRead) {
    // Not past the end of a page, after which there may be none.
    char some[64];
    const size_t size = std::min<size_t>(sizeof some, kPageSize - name % kPageSize);
    if (!memory.read(name, {reinterpret_cast<uint8_t*>(some), size})) break;
    const char* const end = std::find(some, some + size, '\0');
    text.append(some, static_cast<size_t>(end - some));
    if (end != some + size) break;
    name += size;
  }
  return text;
}

std::optional<layout::FileHeader> mapped_session(const target::Memory& memory,
                                                 const image::Mapping& mapping) {
  layout::FileHeader header;
  if (!mapping.shared || mapping.writable || mapping.offset != 0 ||
      mapping.path.find(layout::kFileSuffix) == mapping.path.npos ||
      !memory.read_value(mapping.range.begin, header) || header.magic != layout::kFileMagic)
    return std::nullopt;
  return header;
}

}  // namespace pinprick::patch
