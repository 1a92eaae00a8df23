// Sites as they are after planning, at addresses where nothing is mapped.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "arch/jump.h"
#include "image/match.h"
#include "image/process.h"
#include "library/probes/attachment.h"
#include "library/probes/sites.h"

namespace pinprick::library {

constexpr Address kText = 0x10'000'000;

// A match in any object, of which a site only takes the name and the extent.
inline image::Match any_match() {
  static const image::ProcessImage image = *image::load_file("/proc/self/exe");
  image::Match match;
  match.object = image.objects.front().get();
  match.function = &match.object->functions().functions().front();
  match.site = match.function->range.begin;
  match.function_name = "function";
  return match;
}

// At an instruction of one byte, 0x50, followed by others of one byte, 0x51 and so on.
inline SitePlan planned_breakpoint(Address at, uint8_t first = 0x50) {
  SitePlan planned;
  planned.address = at;
  planned.breakpoint.site = at;
  planned.breakpoint.written = planned.breakpoint.displaced = 1;
  planned.breakpoint.original = {first};
  planned.no_jump = plan::Reason::branch_inside;
  return planned;
}

inline SitePlan planned_jump(Address at, uint8_t first = 0x50) {
  SitePlan planned = planned_breakpoint(at, first);
  planned.no_jump.reset();
  plan::Patch& jump = planned.jump.emplace();
  jump.site = at;
  jump.written = jump.displaced = arch::kJumpLength;
  for (uint8_t i = 0; i < arch::kJumpLength; ++i) {
    jump.original.push_back(static_cast<uint8_t>(first + i));
    if (i != 0) jump.boundaries.push_back(i);
  }
  return planned;
}

enum class MayBeBreakpoint : uint8_t { no, yes };

class MadeSites {
 public:
  Sites sites;

  Site& add(SitePlan planned) { return sites.take(std::move(planned), any_match()); }
  // Adds a site with a counter.
  Site& add_probed(SitePlan planned, MayBeBreakpoint may = MayBeBreakpoint::yes) {
    Site& site = add(std::move(planned));
    attach<detail::CounterState>(site).allow_breakpoint = may == MayBeBreakpoint::yes;
    return site;
  }
  template <class State>
  State& attach(Site& site) {
    auto made = std::make_unique<State>();
    State& state = *made;
    attachments_.push_back(std::move(made));
    state.site = &site;
    site.attachments.push_back(&state);
    return state;
  }

 private:
  std::vector<std::unique_ptr<Attachment>> attachments_;
};

// Makes the encoding the one in place, with a stub with these features.
inline void put_in_place(Site& site, Encoding& encoding, const StubFeatures& features) {
  Encoding::Stub& made = encoding.stubs.emplace_back();
  made.features = features;
  made.stub.begin = made.stub.copy = site.address + 0x1000;
  encoding.in_use = encoding.stubs.size() - 1;
  site.in_place = &encoding;
}

}  // namespace pinprick::library
