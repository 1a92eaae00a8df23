#include "debug/member_path.h"

#include <algorithm>

namespace pinprick::debug {

std::optional<Member> find_path(DebugInfo& info, Type structure, std::string_view path) {
  std::optional<Member> found;
  uint64_t offset = 0;
  while (!path.empty()) {
    const size_t end = std::min(path.find('.'), path.size());
    found = info.find_member(structure, path.substr(0, end));
    if (!found || found->bits != 0) return std::nullopt;
    offset += found->offset;
    structure = found->type;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  if (found) found->offset = offset;
  return found;
}

}  // namespace pinprick::debug
