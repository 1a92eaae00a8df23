#include "engine/text/point_sites.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "arch/jump.h"
#include "patch/point_nop.h"

namespace pinprick::engine {
namespace {

using image::PointRecord;
using layout::PointSiteEntry;
using patch::PointNop;

bool is_in_two_pages(Address nop) {
  return nop % kPageSize > kPageSize - arch::kLinkLength;
}

Range nop_range(const PointRecord& record, const image::Object& object) {
  const Address nop = record.nop + object.bias();
  return {nop, nop + arch::kLinkLength};
}

Address block_of(const PointSiteEntry& site) {
  return site.address + static_cast<uint64_t>(int64_t{site.block});
}

// The tracepoint of ours whose hits the probe sees: its address in the object; 0: none.
Address point_of(const placement::ProbeSet& set, const placement::Probe& probe) {
  const image::Match& match = set.matches[probe.match];
  return match.point == nullptr ? 0 : match.point->point;
}

class RecordsByPoint {
 public:
  std::span<const PointRecord> of(image::Object& object, Address point) {
    const auto [known, is_new] = sorted_.try_emplace(&object);
    std::vector<PointRecord>& records = known->second;
    if (is_new) {
      records = object.point_records();
      std::stable_sort(records.begin(), records.end(), by_point);
    }
    PointRecord wanted;
    wanted.point = point;
    const auto [begin, end] = std::equal_range(records.begin(), records.end(), wanted, by_point);
    return {begin, end};
  }

 private:
  static bool by_point(const PointRecord& a, const PointRecord& b) { return a.point < b.point; }

  std::map<const image::Object*, std::vector<PointRecord>> sorted_;
};

class HeldPoints {
 public:
  HeldPoints(RecordsByPoint& records, const OtherSites& others, const target::Memory& memory)
      : records_(records), others_(others), memory_(memory) {}

  // Why the point cannot be turned on; nullopt if it can.
  std::optional<plan::Reason> why(image::Object& object, Address point) {
    const auto [known, is_new] = known_.try_emplace({&object, point});
    if (is_new)
      for (const PointRecord& record : records_.of(object, point))
        if (!known->second) known->second = why(object, record);
    return known->second;
  }

 private:
  std::optional<plan::Reason> why(const image::Object& object, const PointRecord& record) const {
    const Range bytes = nop_range(record, object);
    if (is_in_two_pages(bytes.begin)) return plan::Reason::page_edge;
    if (others_.program().has_probe_at(bytes)) return plan::Reason::probed_by_program;
    switch (patch::look_at_nop(memory_, bytes.begin, record.block + object.bias())) {
      case PointNop::off:
      case PointNop::on:
        return std::nullopt;
      case PointNop::changing:
        if (others_.program().takes(bytes)) return std::nullopt;
        return plan::Reason::foreign_breakpoint;
      case PointNop::other:
        break;
    }
    return plan::Reason::neighbour;
  }

  RecordsByPoint& records_;
  const OtherSites& others_;
  const target::Memory& memory_;
  std::map<std::pair<const image::Object*, Address>, std::optional<plan::Reason>> known_;
};

// Drops the probes of points of which a nop is held.
bool drop_held_points(ArmingPlan& plan, const layout::Session& journal, plan::Reason reason,
                      const std::function<bool(const PointSiteEntry&)>& is_held) {
  std::vector<Address> held;  // counts
  for (const PointSiteEntry& site : journal.point_sites)
    if (is_held(site)) held.push_back(journal.semaphores[site.semaphore].address);
  if (held.empty()) return false;
  std::sort(held.begin(), held.end());
  bool is_any = false;
  for (const placement::Probe& probe : plan.set.probes) {
    const Address point = point_of(plan.set, probe);
    if (point == 0) continue;
    const image::Match& match = plan.set.matches[probe.match];
    if (std::binary_search(held.begin(), held.end(), match.point->count() + match.object->bias()))
      is_any = plan.drop(probe.patch, reason) || is_any;
  }
  return is_any;
}

}  // namespace

std::vector<PointSiteEntry> point_sites_of(const placement::ProbeSet& set,
                                           const IndexRange& patches,
                                           std::span<const layout::SemaphoreEntry> semaphores,
                                           uint32_t first) {
  std::vector<PointSiteEntry> sites;
  if (semaphores.empty()) return sites;
  image::Object& object = *set.patches[*patches.begin()].object;
  for (const PointRecord& record : object.point_records()) {
    const Address nop = record.nop + object.bias();
    const auto semaphore = std::lower_bound(
        semaphores.begin(), semaphores.end(), record.count() + object.bias(),
        [](const layout::SemaphoreEntry& one, Address a) { return one.address < a; });
    if (semaphore == semaphores.end() || semaphore->address != record.count() + object.bias() ||
        is_in_two_pages(nop))
      continue;
    sites.push_back({nop, static_cast<int32_t>(record.block - record.nop),
                     first + static_cast<uint32_t>(semaphore - semaphores.begin())});
  }
  return sites;
}

void leave_out_held_points(ArmingPlan& plan, const OtherSites& others,
                           const target::Memory& memory) {
  RecordsByPoint records;
  HeldPoints held(records, others, memory);
  std::vector<Range> wanted;
  std::map<std::pair<const image::Object*, Address>, bool> seen;
  for (const placement::Probe& probe : plan.set.probes) {
    const Address point = point_of(plan.set, probe);
    if (point == 0) continue;
    image::Object& object = *plan.set.matches[probe.match].object;
    if (const auto reason = held.why(object, point)) {
      plan.in_the_way.emplace(probe.patch, *reason);
      continue;
    }
    if (!seen.try_emplace({&object, point}).second) continue;
    for (const PointRecord& record : records.of(object, point))
      wanted.push_back(nop_range(record, object));
  }
  if (wanted.empty()) return;
  std::sort(wanted.begin(), wanted.end());
  for (size_t i = 0; i < plan.set.patches.size(); ++i) {
    const placement::SitePatch& patch = plan.set.patches[i];
    const uint64_t bias = patch.object->bias();
    const Range own = {patch.plan.claimed().begin + bias, patch.plan.claimed().end + bias};
    const auto next =
        std::lower_bound(wanted.begin(), wanted.end(), own.begin,
                         [](const Range& one, Address begin) { return one.end <= begin; });
    if (next != wanted.end() && next->begin < own.end)
      plan.in_the_way.emplace(i, plan::Reason::neighbour);
  }
}

bool drop_changed_points(ArmingPlan& plan, const layout::Session& journal,
                         const target::Memory& memory) {
  return drop_held_points(plan, journal, plan::Reason::text_changed, [&](const auto& site) {
    return patch::look_at_nop(memory, site.address, block_of(site)) == PointNop::other;
  });
}

bool drop_points_probed_by(const patch::OwnProbes& program, ArmingPlan& plan,
                           const layout::Session& journal) {
  return drop_held_points(plan, journal, plan::Reason::probed_by_program, [&](const auto& site) {
    return program.has_probe_at({site.address, site.address + arch::kLinkLength});
  });
}

bool follow_counts(const layout::Session& journal, std::span<const uint32_t> counts,
                   const target::Memory& memory) {
  // All threads are stopped meanwhile.
  std::vector<bool> is_asked(journal.semaphores.size());
  for (const uint32_t count : counts) is_asked[count] = true;
  for (const PointSiteEntry& site : journal.point_sites) {
    if (!is_asked[site.semaphore]) continue;
    const Address block = block_of(site);
    uint16_t count = 0;
    if (!memory.read_value(journal.semaphores[site.semaphore].address, count)) continue;
    const PointNop now = patch::look_at_nop(memory, site.address, block);
    const bool is_wrong = count == 0 ? now == PointNop::on : now == PointNop::off;
    if (!is_wrong) continue;
    const auto bytes = arch::encode_link(site.address, count == 0 ? 0 : block);
    if (bytes && !memory.write(site.address, *bytes)) return false;
  }
  return true;
}

}  // namespace pinprick::engine
