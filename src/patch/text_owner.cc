#include "patch/text_owner.h"

#include <algorithm>
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
// The first byte of a jump in the text.
constexpr uint8_t kJump = 0xe9;

std::optional<OwnPage> find_page(const target::Memory& memory,
                                 const std::vector<image::Mapping>& maps) {
  for (const image::Mapping& mapping : maps) {
    OwnPage page;
    if (!mapping.shared || mapping.path != kSharedMemory || mapping.range.size() != kPageSize ||
        !memory.read_value(mapping.range.begin, page))
      continue;
    if (page.magic == layout::kOwnPageMagic) return page;
    if (page.magic == layout::kFormerOwnPageMagic) return OwnPage{page.magic, 0};
  }
  return std::nullopt;
}

template <class T>
bool read_all(const target::Memory& memory, Address address, std::vector<T>& out) {
  return memory.read(address, {reinterpret_cast<uint8_t*>(out.data()), out.size() * sizeof(T)});
}

bool is_valid(const OwnSite& site) {
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
  const auto page = find_page(memory, maps);
  if (!page) return own;
  own.is_there_ = true;
  OwnTable table;
  if (page->table == 0 || page->table % kPageSize != 0 || !memory.read_value(page->table, table) ||
      table.magic != layout::kOwnTableMagic || table.site_count > layout::kMostOwnSites ||
      table.code_count > layout::kMostOwnCode || table.slots_count > std::size(table.slots))
    return own;
  std::vector<Range> code(table.code_count);
  if (!read_all(memory, page->table + layout::kOwnCodeOffset, code)) return own;
  own.table_ = page->table;
  if (!own.read_sites(memory, table.site_count)) {
    own.table_ = 0;
    return own;
  }
  own.library_ = {table.library_begin, std::max(table.library_begin, table.library_end)};
  std::erase_if(code, [](Range range) { return range.empty(); });
  own.code_ = std::move(code);
  if (!own.library_.empty()) own.code_.push_back(own.library_);
  own.slots_.assign(table.slots, table.slots + table.slots_count);
  return own;
}

bool OwnProbes::read_sites(const target::Memory& memory, uint64_t count) {
  std::vector<OwnSite> more(count - sites_read_);
  if (!read_all(memory, table_ + layout::kOwnSitesOffset + sites_read_ * sizeof(OwnSite), more))
    return false;
  sites_read_ = count;
  std::erase_if(more, [](const OwnSite& site) { return !is_valid(site); });
  if (more.empty()) return true;
  sites_.insert(sites_.end(), more.begin(), more.end());
  std::stable_sort(sites_.begin(), sites_.end(), by_address);
  return true;
}

void OwnProbes::read_new(const target::Memory& memory) {
  uint64_t count = 0;
  if (table_ == 0 || !memory.read_value(table_ + offsetof(OwnTable, site_count), count) ||
      count <= sites_read_ || count > layout::kMostOwnSites)
    return;
  read_sites(memory, count);
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
  return window.overlaps(library_);
}

// A page that is still the file's was never written to: what was probed there was unloaded. While
// the program changes a site, any of its bytes may be new already; the first one then is a
// breakpoint, as it is in the last step of a removal.
void OwnProbes::put_back(pid_t pid, Address address, std::span<uint8_t> bytes) const {
  const Range read = {address, address + bytes.size()};
  OwnSite first;
  first.address = address - std::min<Address>(address, OwnSite::kMostWritten);
  std::map<Address, bool> is_written;  // by page
  for (auto site = std::lower_bound(sites_.begin(), sites_.end(), first, by_address);
       site != sites_.end() && site->address < read.end; ++site) {
    if (!Range{site->address, site->address + site->written}.overlaps(read)) continue;
    if (read.contains(site->address)) {
      const uint8_t byte = bytes[site->address - address];
      if (byte != site->original[0] && byte != kJump && byte != arch::kBreakpoint) continue;
    }
    const auto [page, is_new] = is_written.try_emplace(align_down(site->address, kPageSize));
    if (is_new) page->second = target::is_private_copy(pid, site->address);
    if (!page->second) continue;
    for (uint8_t i = 0; i < site->written; ++i)
      if (read.contains(site->address + i)) bytes[site->address + i - address] = site->original[i];
  }
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
