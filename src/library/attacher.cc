#include "library/attacher.h"

#include <algorithm>
#include <cstddef>
#include <memory>

#include "library/error.h"
#include "library/handler_lists.h"
#include "runtime/activations.h"

namespace pinprick::library {
namespace {

constexpr size_t kMostData = 4096;
constexpr uint32_t kUsualActive = 1024;

}  // namespace

Result<void, Error> Attacher::attach(Attachment& attachment, Site& site) {
  if (auto* const state = dynamic_cast<detail::ReturnState*>(&attachment)) {
    const auto others = std::count_if(
        site.attachments.begin(), site.attachments.end(),
        [](Attachment* other) { return dynamic_cast<detail::ReturnState*>(other) != nullptr; });
    if (others == runtime::kMostReturnProbes) return fail(error_of(Cause::too_many, site.name));
    if (state->data_size > kMostData) return fail(error_of(Cause::data_too_large, site.name));
    if (state->data_size != 0 || state->max_active != 0) {
      const uint32_t count = state->max_active != 0 ? state->max_active : kUsualActive;
      if (count > runtime::kSlots) return fail(error_of(Cause::too_many, site.name));
      const size_t size = align_up(state->data_size, alignof(std::max_align_t));
      state->item_links.resize(count);
      state->item_data.resize(size * count);
      state->items = std::make_unique<runtime::ItemPool>(state->item_links.data(),
                                                         state->item_data.data(), size, count);
    }
    state->shared = return_states_.take();
    state->generation = state->shared->generation.load();
    state->shared->on_entry = untyped(state->on_entry);
    state->shared->on_return = untyped(state->on_return);
    state->shared->items = state->items.get();
    for (auto& count : state->shared->missed.counts) count = 0;
    state->shared->unwound = 0;
    state->shared->abandoned = 0;
  }
  if (auto* const counter = dynamic_cast<detail::CounterState*>(&attachment)) {
    if (!site.counter) site.counter = stubs_.new_counter();
    if (!site.counter) return fail(error_of(Cause::too_many, site.name));
    counter->at_start = stubs_.count(*site.counter);
  }
  if (auto* const latency = dynamic_cast<detail::LatencyState*>(&attachment)) {
    if (auto made = histograms_.make_slots(); !made) return fail(system_error(made.error()));
    if (!site.histogram) site.histogram = histograms_.new_histogram();
    if (!site.histogram) return fail(error_of(Cause::too_many, site.name));
    site.metric = HistogramStore::metric_of(*site.histogram);
    latency->at_start = histograms_.read(*site.histogram);
    latency->missed_at_start = histograms_.missed(*site.histogram);
    latency->unwound_at_start = histograms_.unwound(*site.histogram);
    latency->abandoned_at_start = histograms_.abandoned(*site.histogram);
  }
  attachment.site = &site;
  const auto next =
      std::find_if(site.attachments.begin(), site.attachments.end(),
                   [&](const Attachment* other) { return other->priority < attachment.priority; });
  site.attachments.insert(next, &attachment);
  return {};
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
