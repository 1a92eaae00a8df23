// What a program says about its own probes: a page and a table in its memory, which it may write at
// any time.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "fuzzer.h"
#include "patch/text_owner.h"

namespace {

using namespace pinprick;

uint8_t* map(size_t size) {
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(memory != MAP_FAILED);
  return static_cast<uint8_t*>(memory);
}

constexpr size_t kSites = 16, kCode = 4;
constexpr size_t kTable = sizeof(layout::OwnTable), kCodeBytes = kCode * sizeof(Range),
                 kSiteBytes = kSites * sizeof(layout::OwnSite);

}  // namespace

// An input is the table's head, code ranges and sites, as far as it goes; the rest is zero.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static uint8_t* const page = map(kPageSize);
  static uint8_t* const table = map(layout::kOwnTableSize);
  static const auto memory = target::Memory::open(::getpid());
  CHECK(memory);
  const auto take = [&](uint8_t* to, size_t most) {
    const size_t some = std::min(size, most);
    std::memset(to, 0, most);
    std::memcpy(to, data, some);
    data += some;
    size -= some;
  };
  take(table, kTable);
  take(table + layout::kOwnCodeOffset, kCodeBytes);
  take(table + layout::kOwnSitesOffset, kSiteBytes);
  layout::OwnPage announced;
  announced.table = reinterpret_cast<Address>(table);
  std::memcpy(page, &announced, sizeof announced);
  image::Mapping mapping;
  mapping.range = {reinterpret_cast<Address>(page), reinterpret_cast<Address>(page) + kPageSize};
  mapping.shared = true;
  mapping.path = "/dev/zero";

  auto own = patch::OwnProbes::read(*memory, {mapping});
  CHECK(own.is_there());
  if (own.is_closed()) return 0;
  own.read_changes(*memory);
  CHECK(std::is_sorted(own.sites().begin(), own.sites().end(),
                       [](const auto& a, const auto& b) { return a.address < b.address; }));
  for (const Range& code : own.code()) CHECK(!code.empty());
  uint8_t text[64];
  for (size_t i = 0; i < own.sites().size() && i < kSites; ++i) {
    const layout::OwnSite& site = own.sites()[i];
    CHECK(site.written <= layout::OwnSite::kMostWritten && site.touched >= site.written);
    const Range bytes = {site.address, site.address + 1};
    const bool is_used = site.state == layout::OwnSite::State::in_use && site.touched != 0;
    CHECK(!is_used || (own.takes(bytes) && own.needs_any_of(bytes)));
    CHECK(!own.has_probe_at(bytes) || own.takes(bytes));
    for (const Address from : {site.address - 7, site.address, site.address + 3}) {
      std::fill(std::begin(text), std::end(text), uint8_t{0xcc});
      for (const uint64_t changes : {own.changes_now(*memory), uint64_t{1} << 60})
        own.put_back(::getpid(), from, text, changes);
    }
  }
  return 0;
}

std::vector<Input> seeds() {
  Input one(kTable + kCodeBytes + kSiteBytes);
  layout::OwnTable table;
  table.site_count = kSites;
  table.code_count = kCode;
  table.slots_count = 1;
  std::memcpy(one.data(), &table, sizeof table);
  for (size_t i = 0; i < kCode; ++i) {
    const Range range = {0x10000 * (i + 1), 0x10000 * (i + 1) + 0x800};
    std::memcpy(one.data() + kTable + i * sizeof range, &range, sizeof range);
  }
  static const uint8_t code[kSites * 16] = {};
  for (size_t i = 0; i < kSites; ++i) {
    layout::OwnSite site;
    site.address = reinterpret_cast<Address>(code) + 16 * i;
    site.name = i % 2 == 0 ? site.address : 0;
    site.written = site.touched = 5;
    site.ends[0] = 5;
    site.state = i % 3 == 0 ? layout::OwnSite::State::former : layout::OwnSite::State::in_use;
    std::memcpy(one.data() + kTable + kCodeBytes + i * sizeof site, &site, sizeof site);
  }
  return {one};
}
