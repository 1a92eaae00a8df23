#include "library/site_stubs.h"

#include <algorithm>
#include <utility>

#include "arch/code.h"
#include "library/error.h"
#include "library/wanted_form.h"
#include "runtime/handlers.h"
#include "runtime/traps.h"

namespace pinprick::library {

std::vector<arch::StubAction> stub_actions(const Site& site, const Shape& shape,
                                           const arch::Displaced& displaced, Address enter) {
  using arch::StackUse;
  std::vector<arch::StubAction> actions;
  if (shape.counts && site.cell)
    actions.push_back({.stack = site.stack, .what = arch::CountHit{*site.cell}});
  if (shape.before) {
    const auto routine = site.stack == StackUse::keep_red_zone ? pp_hit_inside : pp_hit;
    actions.push_back(
        {.stack = site.stack,
         .what = arch::CallHandlers{.handlers = reinterpret_cast<uint64_t>(&site.before),
                                    .routine = reinterpret_cast<Address>(routine),
                                    .may_enter_slot = shape.measures}});
  }
  if (shape.times) {
    actions.push_back({.what = arch::TimeCall{.metrics = {&*site.metric, 1}, .enter = enter}});
  }
  if (shape.behind)
    actions.push_back(
        {.offset = arch::decode(displaced.bytes, displaced.address)->length,
         .stack = StackUse::keep_red_zone,
         .what = arch::CallHandlers{.handlers = reinterpret_cast<uint64_t>(&site.behind),
                                    .routine = reinterpret_cast<Address>(pp_hit_inside)}});
  return actions;
}

Result<void, Error> make_stub(Site& site, Form& form, StubSpace& space, const Timing& timing) {
  const Shape shape = wanted_shape(site, form);
  const auto has = std::find_if(form.stubs.begin(), form.stubs.end(),
                                [&](const Form::Stub& stub) { return stub.shape == shape; });
  if (has != form.stubs.end()) return {};
  const arch::Displaced displaced = {site.address, form.patch.displaced_bytes()};
  auto stub =
      space.place(site.object, stub_actions(site, shape, displaced, timing.enter()), displaced);
  if (stub && !form.patch.interior.empty() && !form.trampoline) {
    form.trampoline = space.trampoline(site.object, site.address, form.patch.interior);
    if (!form.trampoline) stub.reset();
  }
  if (!stub) return fail(refused(site.name, plan::Reason::out_of_reach));
  form.stubs.push_back({shape, *std::move(stub)});
  return {};
}

void lead_to(Site& site, Form& form) {
  const Shape shape = wanted_shape(site, form);
  const auto stub = std::find_if(form.stubs.begin(), form.stubs.end(),
                                 [&](const Form::Stub& one) { return one.shape == shape; });
  form.in_use = static_cast<size_t>(stub - form.stubs.begin());
  for (const arch::Copy& copy : stub->stub.copies)
    if (copy.window_offset != 0)
      runtime::set_continuation(site.address + copy.window_offset, stub->stub.body + copy.offset);
  runtime::set_continuation(site.address, stub->stub.begin);
  if (form.trampoline) form.trampoline->stub->store(stub->stub.begin);
}

}  // namespace pinprick::library
