#include "library/probes/site_stubs.h"

#include <algorithm>
#include <utility>

#include "arch/code.h"
#include "library/api/error.h"
#include "library/probes/wanted_encoding.h"
#include "runtime/handlers.h"
#include "runtime/traps.h"

namespace pinprick::library {

std::vector<arch::StubAction> stub_actions(const Site& site, const StubFeatures& features,
                                           const arch::Displaced& displaced, Address enter) {
  using arch::StackUse;
  std::vector<arch::StubAction> actions;
  if (features.counts && site.counter)
    actions.push_back({.stack = site.stack, .what = arch::CountHit{*site.counter}});
  if (features.before) {
    const auto routine = site.stack == StackUse::keep_red_zone ? pp_hit_inside : pp_hit;
    actions.push_back(
        {.stack = site.stack,
         .what = arch::CallHandlers{.handlers = reinterpret_cast<uint64_t>(&site.before),
                                    .routine = reinterpret_cast<Address>(routine),
                                    .may_enter_slot = features.measures}});
  }
  if (features.times) {
    actions.push_back({.what = arch::TimeCall{.metrics = {&*site.metric, 1}, .enter = enter}});
  }
  if (features.after)
    actions.push_back(
        {.offset = arch::decode(displaced.bytes, displaced.address)->length,
         .stack = StackUse::keep_red_zone,
         .what = arch::CallHandlers{.handlers = reinterpret_cast<uint64_t>(&site.after),
                                    .routine = reinterpret_cast<Address>(pp_hit_inside)}});
  return actions;
}

Result<void, Error> make_stub(Site& site, Encoding& encoding, StubSpace& space,
                              const HistogramStore& histograms) {
  const StubFeatures features = wanted_features(site, encoding);
  const auto has =
      std::find_if(encoding.stubs.begin(), encoding.stubs.end(),
                   [&](const Encoding::Stub& stub) { return stub.features == features; });
  if (has != encoding.stubs.end()) return {};
  const arch::Displaced displaced = {site.address, encoding.patch.displaced_bytes()};
  auto stub = space.place(site.object, stub_actions(site, features, displaced, histograms.enter()),
                          displaced);
  if (stub && !encoding.patch.boundaries.empty() && !encoding.trampoline) {
    encoding.trampoline = space.trampoline(site.object, site.address, encoding.patch.boundaries);
    if (!encoding.trampoline) stub.reset();
  }
  if (!stub) return fail(refused(site.name, plan::Reason::out_of_reach));
  encoding.stubs.push_back({features, *std::move(stub)});
  return {};
}

bool lead_to(Site& site, Encoding& encoding) {
  const StubFeatures features = wanted_features(site, encoding);
  const auto find = [&](const auto& is_right) {
    return std::find_if(encoding.stubs.begin(), encoding.stubs.end(), is_right);
  };
  auto stub = find([&](const Encoding::Stub& one) { return one.features == features; });
  if (stub == encoding.stubs.end())
    stub = find([&](const Encoding::Stub& one) { return one.features.covers(features); });
  if (stub == encoding.stubs.end()) return false;
  encoding.in_use = static_cast<size_t>(stub - encoding.stubs.begin());
  for (const arch::Copy& copy : stub->stub.copies)
    if (copy.window_offset != 0)
      runtime::set_continuation(site.address + copy.window_offset, stub->stub.copy + copy.offset);
  runtime::set_continuation(site.address, stub->stub.begin);
  if (encoding.trampoline) encoding.trampoline->stub->store(stub->stub.begin);
  return true;
}

}  // namespace pinprick::library
