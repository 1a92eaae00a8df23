#include "library/probes/attacher.h"

#include <algorithm>
#include <cstddef>
#include <memory>

#include "library/api/error.h"
#include "library/probes/handler_lists.h"
#include "runtime/activations.h"

namespace pinprick::library {
namespace {

constexpr size_t kMostData = 4096;
constexpr uint32_t kUsualActive = 1024;

}  // namespace

Result<void, Error> Attacher::attach(Attachment& attachment, Site& site) {
  if (auto* const state = dynamic_cast<detail::ReturnState*>(&attachment))
    if (auto ready = prepare(*state, site); !ready) return ready;
  if (attachment.features().counts && !site.counter) {
    site.counter = stubs_.new_counter();
    if (!site.counter) return fail(error_of(Cause::too_many, site.name));
  }
  if (attachment.features().times) {
    if (auto made = histograms_.make_slots(); !made) return fail(system_error(made.error()));
    if (!site.histogram) site.histogram = histograms_.new_histogram();
    if (!site.histogram) return fail(error_of(Cause::too_many, site.name));
    site.metric = HistogramStore::metric_of(*site.histogram);
  }
  attachment.site = &site;
  // Nothing counts for it yet; its hits count from before its handlers are published.
  Counts counts = counts_of(attachment);
  if (auto* const counting = dynamic_cast<detail::CountingState*>(&attachment))
    counting->hits.reset(counts.hits);
  if (auto* const latency = dynamic_cast<detail::LatencyState*>(&attachment))
    latency->timings.reset(counts.timings);
  if (attachment.enabled) start(attachment, counts);
  const auto next =
      std::find_if(site.attachments.begin(), site.attachments.end(),
                   [&](const Attachment* other) { return other->priority < attachment.priority; });
  site.attachments.insert(next, &attachment);
  return {};
}

Result<void, Error> Attacher::prepare(detail::ReturnState& probe, const Site& site) {
  if (probe.data_size > kMostData) return fail(error_of(Cause::data_too_large, site.name));
  if (probe.data_size != 0 || probe.max_active != 0) {
    const uint32_t count = probe.max_active != 0 ? probe.max_active : kUsualActive;
    if (count > runtime::kSlots) return fail(error_of(Cause::too_many, site.name));
    const size_t size = align_up(probe.data_size, alignof(std::max_align_t));
    probe.item_links.resize(count);
    probe.item_data.resize(size * count);
    probe.items = std::make_unique<runtime::ItemPool>(probe.item_links.data(),
                                                      probe.item_data.data(), size, count);
  }
  probe.shared = return_states_.take();
  probe.generation = probe.shared->generation.load();
  probe.shared->on_entry = untyped(probe.on_entry);
  probe.shared->on_return = untyped(probe.on_return);
  probe.shared->items = probe.items.get();
  for (auto& count : probe.shared->missed.counts) count = 0;
  probe.shared->unwound = 0;
  probe.shared->abandoned = 0;
  return {};
}

Attacher::Counts Attacher::counts_of(const Attachment& attachment) const {
  Counts counts;
  const Site& site = *attachment.site;
  const StubFeatures features = attachment.features();
  if (features.counts) counts.hits = stubs_.count(*site.counter);
  if (features.times)
    counts.timings = {histograms_.read(*site.histogram), histograms_.missed(*site.histogram),
                      histograms_.unwound(*site.histogram), histograms_.abandoned(*site.histogram)};
  return counts;
}

void Attacher::start(Attachment& attachment, const Counts& from) {
  if (auto* const counting = dynamic_cast<detail::CountingState*>(&attachment))
    counting->hits.start(from.hits);
  if (auto* const latency = dynamic_cast<detail::LatencyState*>(&attachment))
    latency->timings.start(from.timings);
}

void Attacher::stop(Attachment& attachment, const Counts& from) {
  if (auto* const counting = dynamic_cast<detail::CountingState*>(&attachment))
    counting->hits.stop(from.hits);
  if (auto* const latency = dynamic_cast<detail::LatencyState*>(&attachment))
    latency->timings.stop(from.timings);
}

void Attacher::detach(Attachment& attachment) {
  if (attachment.site == nullptr) return;
  std::erase(attachment.site->attachments, &attachment);
  // Calls in flight are not measured any more.
  if (auto* const state = dynamic_cast<detail::ReturnState*>(&attachment))
    state->shared->generation.fetch_add(1);
}

void Attacher::give_back(Attachment& attachment) {
  if (auto* const state = dynamic_cast<detail::ReturnState*>(&attachment))
    return_states_.give(state->shared);
}

runtime::ReturnProbeState* ReturnStates::take() {
  if (free_.empty()) return new runtime::ReturnProbeState{};
  runtime::ReturnProbeState* const state = free_.back();
  free_.pop_back();
  return state;
}

void ReturnStates::give(runtime::ReturnProbeState* state) {
  free_.push_back(state);
}

}  // namespace pinprick::library
