// In which form a site is to be in the text, and what its stub then has to do.
//
// Pure: reads the site, its attachments and the modes. The caller holds the registry's lock. Cannot
// fail.
#pragma once

#include "library/modes.h"
#include "library/site.h"
#include "library/stub_shape.h"

namespace pinprick::library {

// The form that the site would have if all probes were armed; nullptr if none.
Form* form_when_armed(Site& site, const Modes& modes);
// The form that it is to have now; nullptr if the text is to be the program's own.
Form* wanted_form(Site& site, const Modes& modes);

// What the form's stub has to do. While the form is in place, this is never less than its stub does
// already.
Shape wanted_shape(const Site& site, const Form& form);

// Is the wanted form in the text, and does its stub do all that is needed?
bool is_as_wanted(Site& site, const Modes& modes);

}  // namespace pinprick::library
