// The store for what is known of objects: in memory, and after use_cache() in the user's cache,
// too.
#pragma once

#include "image/store/object_store.h"

namespace pinprick::cli {

// To be called before any process or file is looked at.
void use_cache();
image::ObjectStore& object_store();

}  // namespace pinprick::cli
