// The words of events in rings (runtime/events.inc), for those who read them. Of the ledger alone.
#pragma once

#include <cstdint>
#include <span>

#include "layout/runtime_data.h"
#include "layout/session_file.h"
#include "ledger/session_file.h"

namespace pinprick::ledger {

inline constexpr uint64_t kWord = sizeof(uint64_t);
inline constexpr uint64_t kHeaderWords = PP_EVENT_VALUES / kWord;

inline bool is_size_of_event(uint64_t words) {
  return words >= kHeaderWords && words <= layout::kMostEventWords;
}

// Returns the event that begins with these words, without its values.
inline Event event_from(std::span<const uint64_t> words, uint64_t area) {
  return {.tsc = words[1],
          .probe = static_cast<uint32_t>(words[0] >> 32) & ~(1U << PP_EVENT_TRIGGERS_BIT),
          .tid = static_cast<uint32_t>(words[0] >> 8) & 0xffffff,
          .area = area};
}

inline uint64_t ring_of(const layout::FileHeader& header, uint64_t area) {
  return layout::area_offset(header, area) + layout::ring_offset(header);
}

}  // namespace pinprick::ledger
