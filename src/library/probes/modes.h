// Settings for all probes of the program at once.
//
// They are changed with the registry's lock held, together with the text (Registry::change_all).
#pragma once

namespace pinprick::library {

struct Modes {
  bool optimised = true;  // jumps are written where they fit; if false, breakpoints (optimise())
  bool armed = true;      // if false, nothing is in the text, and no handler runs (disarm_all())
};

}  // namespace pinprick::library
