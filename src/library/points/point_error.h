// Why a call about tracepoints has failed: an errno for programs, and a sentence for people.
//
// The sentence of the last failed call is kept for each thread. Any thread may call these.
#pragma once

#include <string>

#include "base/result.h"
#include "pinprick/error.h"

namespace pinprick::library {

struct PointError {
  int number = 0;
  std::string sentence;  // with the remedy
};

// The errno is EBUSY for what keeps the text from being changed.
PointError point_error(const Error& error);

// Keeps the sentence, and sets errno. Returns -1.
int note_point_error(const PointError& error) noexcept;
// Returns the sentence of the calling thread's last failure; "" if there was none.
const char* last_point_error() noexcept;

}  // namespace pinprick::library
