// What the caller that arms a session has chosen, in the form that the parts of arming take.
#pragma once

namespace pinprick::engine {

// Are there switches in stubs (switches.h)?
enum class Switches : bool { none, for_each_probe };

// What forked children do.
enum class Children : bool { count, forget };

}  // namespace pinprick::engine
