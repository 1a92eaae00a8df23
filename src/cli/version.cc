#include "cli/version.h"

#include <fmt/format.h>

#include "base/build_id.h"
#include "pinprick/version.h"

namespace pinprick::cli {

std::string version_text() {
  const std::string id = own_build_id();
  return fmt::format("pinprick {}\ncommit {}\nbuild ID {}", kVersion, kCommit,
                     id.empty() ? "none" : id);
}

}  // namespace pinprick::cli
