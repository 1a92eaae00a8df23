// What holds for all probes of the program at once.
//
// They change with the registry's lock held, in one call with the text (Registry::change_all).
#pragma once

namespace pinprick::library {

struct Modes {
  bool optimised = true;  // jumps are written where they fit; else breakpoints (optimise())
  bool armed = true;      // else nothing is in the text, and no handler runs (disarm_all())
};

}  // namespace pinprick::library
