#include "cli/object_store.h"

#include <memory>
#include <optional>
#include <utility>

#include "base/cache_folder.h"

namespace pinprick::cli {
namespace {

std::unique_ptr<image::ObjectStore>& store() {
  static auto one = std::make_unique<image::ObjectStore>();
  return one;
}

}  // namespace

void use_cache() {
  const auto path = user_cache_path("pinprick");
  auto folder = path ? CacheFolder::open(*path) : std::nullopt;
  if (folder) store() = std::make_unique<image::ObjectStore>(*std::move(folder));
}

image::ObjectStore& object_store() {
  return *store();
}

}  // namespace pinprick::cli
