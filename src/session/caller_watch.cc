#include "session/caller_watch.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/shared_sites.h"
#include "image/loader.h"
#include "image/maps.h"

namespace pinprick::session {

bool CallerWatch::is_news(const target::RemoteTarget& target, Address caller,
                          const std::vector<image::Mapping>& maps) {
  bool is_new = false;
  // A file may hold generated code, so each is news only once.
  for (const image::Mapping& mapping : maps)
    if (mapping.inode != 0 && mapping.range.contains(caller))
      is_new |= files_.insert(mapping.range.begin).second;
  // If a function that another owner times tail calls one of ours, the caller is a slot.
  const auto others = engine::OtherSites::find(target.pid(), target.memory());
  return is_new || std::any_of(others.code().begin(), others.code().end(),
                               [&](Range code) { return code.contains(caller); });
}

bool CallerWatch::finds_new(const target::RemoteTarget& target, Batches& batches) {
  constexpr uint64_t kPauseNs = 100'000'000;
  if (monotonic_ns() - looked_ns_ < kPauseNs) return false;
  looked_ns_ = monotonic_ns();
  bool is_new = false;
  std::optional<std::vector<image::Mapping>> maps;
  for (Batch& batch : batches)
    if (const auto caller = batch.session.take_unknown_caller()) {
      if (!maps)
        if (auto read = image::read_maps(target.pid())) maps = *std::move(read);
      if (!maps) return false;
      is_new |= is_news(target, *caller, *maps);
    }
  return is_new && !image::loader_is_at_work(target.pid(), target.reader());
}

}  // namespace pinprick::session
