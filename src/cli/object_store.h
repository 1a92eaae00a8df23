// What is known of objects is kept until pinprick ends, and after use_cache() in the user's cache.
#pragma once

#include "image/object_store.h"

namespace pinprick::cli {

// Call it before any process or file is looked at.
void use_cache();
image::ObjectStore& object_store();

}  // namespace pinprick::cli
