#include "library/wanted_form.h"

namespace pinprick::library {

Form* form_when_armed(Site& site, const Modes& modes) {
  if (site.gone || site.needed().empty()) return nullptr;
  return site.jump && !site.no_jump && modes.optimised ? &*site.jump : &site.breakpoint;
}

Form* wanted_form(Site& site, const Modes& modes) {
  return modes.armed ? form_when_armed(site, modes) : nullptr;
}

Shape wanted_shape(const Site& site, const Form& form) {
  const Shape needed = site.needed();
  return site.in_place == &form ? needed.with(form.stubs[form.in_use].shape) : needed;
}

bool is_as_wanted(Site& site, const Modes& modes) {
  const Form* const form = wanted_form(site, modes);
  return site.in_place == form &&
         (form == nullptr || form->stubs[form->in_use].shape.covers(site.needed()));
}

}  // namespace pinprick::library
