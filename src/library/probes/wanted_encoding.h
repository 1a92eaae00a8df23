// In which encoding a site is to be in the text, and what its stub then has to do.
//
// Pure: reads the site, its attachments and the modes. The caller holds the registry's lock. Cannot
// fail.
#pragma once

#include "library/probes/modes.h"
#include "library/probes/site.h"
#include "library/probes/stub_features.h"

namespace pinprick::library {

// The encoding that the site would have if all probes were armed; nullptr if none.
Encoding* encoding_when_armed(Site& site, const Modes& modes);
// The encoding that it is to have now; nullptr if the text is to be the program's own.
Encoding* wanted_encoding(Site& site, const Modes& modes);

// What the encoding's stub has to do. While the encoding is in place, this is never less than its
// stub does already.
StubFeatures wanted_features(const Site& site, const Encoding& encoding);

// Is the wanted encoding in the text, and does its stub do all that is needed?
bool is_as_wanted(Site& site, const Modes& modes);

}  // namespace pinprick::library
