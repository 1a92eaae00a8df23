#include "library/probes/wanted_encoding.h"

namespace pinprick::library {

Encoding* encoding_when_armed(Site& site, const Modes& modes) {
  if (site.gone || site.needed().empty()) return nullptr;
  return site.jump && !site.no_jump && modes.optimised ? &*site.jump : &site.breakpoint;
}

Encoding* wanted_encoding(Site& site, const Modes& modes) {
  return modes.armed ? encoding_when_armed(site, modes) : nullptr;
}

StubFeatures wanted_features(const Site& site, const Encoding& encoding) {
  const StubFeatures needed = site.needed();
  return site.in_place == &encoding ? needed.with(encoding.stubs[encoding.in_use].features)
                                    : needed;
}

bool is_as_wanted(Site& site, const Modes& modes) {
  const Encoding* const encoding = wanted_encoding(site, modes);
  return site.in_place == encoding &&
         (encoding == nullptr || encoding->stubs[encoding->in_use].features.covers(site.needed()));
}

}  // namespace pinprick::library
