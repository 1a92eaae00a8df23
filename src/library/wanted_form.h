// In which form a site is to be in the text, and what its stub then has to do.
//
// Pure: reads the site, what is attached to it, and the modes. The registry's lock is held.
// Nothing can go wrong.
#pragma once

#include "library/modes.h"
#include "library/site.h"
#include "library/stub_shape.h"

namespace pinprick::library {

// The form that the site would have if all probes were armed; null: none.
Form* form_when_armed(Site& site, const Modes& modes);
// The form that it is to have now; null: the text is to be the program's own.
Form* wanted_form(Site& site, const Modes& modes);

// What the form's stub has to do. While the form is in place this is never less than its stub does
// already.
Shape wanted_shape(const Site& site, const Form& form);

// The text holds the wanted form, and its stub does all that is needed.
bool is_as_wanted(Site& site, const Modes& modes);

}  // namespace pinprick::library
