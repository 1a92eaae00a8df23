// The version of pinprick, as the command line and the shared-memory header report it.
#pragma once

namespace pinprick {

inline constexpr int kVersionMajor = 0;
inline constexpr int kVersionMinor = 1;
inline constexpr int kVersionPatch = 0;
inline constexpr const char* kVersion = "0.1.0";

}  // namespace pinprick
