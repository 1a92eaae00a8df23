// /proc/PID/maps: the names of files in it are the target's.
#include "image/maps.h"

#include <algorithm>

#include "fuzzer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pinprick;
  const auto maps = image::parse_maps({reinterpret_cast<const char*>(data), size});
  for (const image::Mapping& mapping : maps) CHECK(mapping.range.begin <= mapping.range.end);
  // The kernel sorts them.
  if (!std::is_sorted(maps.begin(), maps.end(),
                      [](const auto& a, const auto& b) { return a.range.begin < b.range.begin; }))
    return 0;
  const Range all = {0x10000, 0x7fff'ffff'f000};
  Address last = all.begin;
  for (Range range : image::free_ranges(maps, all.begin, all.end)) {
    CHECK(!range.empty());
    CHECK(range.begin >= last && range.end <= all.end);
    last = range.end;
    for (const image::Mapping& mapping : maps)
      CHECK(mapping.range.empty() || !mapping.range.overlaps(range));
  }
  return 0;
}

std::vector<Input> seeds() {
  return {pinprick::fuzz::file("/proc/self/maps"),
          pinprick::fuzz::text("1000-2000 r-xp 00001000 fd:01 42   /usr/bin/a b (deleted)\n"
                               "2000-3000 rw-s 00000000 00:05 7    /dev/zero\n"
                               "3000-4000 ---p 00000000 00:00 0 \n"
                               "4000-5000 rw-p 00000000 00:00 0    [stack]\n")};
}
