// The result type is part of the public interface.
#pragma once

#include "pinprick/result.h"  // IWYU pragma: export
