// What the caller that arms a session has chosen, as the parts of arming take it.
#pragma once

namespace pinprick::engine {

// Are there switches in stubs (switches.h)?
enum class Switches : bool { none, for_each_probe };

// What forked children do.
enum class Children : bool { count, forget };

}  // namespace pinprick::engine
