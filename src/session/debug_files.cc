#include "session/debug_files.h"

#include <fmt/format.h>

#include <list>
#include <mutex>
#include <utility>

#include "base/file_version.h"

namespace pinprick::session {
namespace {

constexpr size_t kMostKept = 16;

struct Kept {
  FileVersion version;
  std::shared_ptr<debug::DebugInfo> info;
};

}  // namespace

std::shared_ptr<debug::DebugInfo> debug_info_of(image::Object& object) {
  static std::mutex mutex;
  static std::list<Kept> kept;  // the last ones first
  const image::ElfFile* const file = object.file_with_debug_information();
  const auto version = file != nullptr ? version_of(file->fd()) : std::nullopt;
  if (!version) return nullptr;
  const std::scoped_lock lock(mutex);
  for (auto one = kept.begin(); one != kept.end(); ++one) {
    if (one->version != *version) continue;
    kept.splice(kept.begin(), kept, one);
    return kept.front().info;
  }
  kept.push_front({*version, debug::DebugInfo::open(file->fd())});
  if (kept.size() > kMostKept) kept.pop_back();
  return kept.front().info;
}

std::string line_name(const debug::LineCode& line) {
  return fmt::format("{}:{}", line.file.substr(line.file.rfind('/') + 1), line.line);
}

}  // namespace pinprick::session
