// Events in the rings of a session file.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <vector>

#include "layout/runtime_data.h"
#include "layout/session_file.h"
#include "ledger/session_file.h"

namespace pinprick::ledger {
namespace {

using layout::EventRing;
using layout::EventRings;

constexpr uint64_t kWord = sizeof(uint64_t);
constexpr uint64_t kHeaderWords = PP_EVENT_VALUES / kWord;
constexpr uint64_t kAtOnce = 4 << 20;

bool is_size_of_event(uint64_t words) {
  return words >= kHeaderWords && words <= layout::kMostEventWords;
}

// Takes the words of an event, and what follows them.
void add_event(std::span<const uint64_t> words, uint64_t size, uint64_t area, Events& events) {
  events.add({.tsc = words[1],
              .probe = static_cast<uint32_t>(words[0] >> 32) & ~(1U << PP_EVENT_TRIGGERS_BIT),
              .tid = static_cast<uint32_t>(words[0] >> 8) & 0xffffff,
              .area = area},
             words.subspan(kHeaderWords, size - kHeaderWords));
}

uint64_t ring_of(const layout::FileHeader& header, uint64_t area) {
  return layout::area_offset(header, area) + layout::ring_offset(header);
}

// Where events begin that a ring still has, as far as it says.
class Starts {
 public:
  Starts(const EventRing& ring, uint64_t capacity) : ring_(ring) {
    const auto part_log2 = std::countr_zero(capacity / PP_RING_PARTS);
    // At the head there may be an event that was never finished, over the oldest ones.
    const uint64_t intact = capacity - layout::kMostEventWords * kWord;
    const uint64_t first = ring.head - std::min(ring.head, intact);
    for (uint64_t i = 0; i < PP_RING_PARTS; ++i) {
      const uint64_t start = ring.starts[i];
      if (start >= first && start < ring.head && start % kWord == 0 &&
          (start >> part_log2) % PP_RING_PARTS == i)
        starts_.push_back(start);
    }
    std::ranges::sort(starts_);
  }

  // Returns the first one from `position` on, and the head if there is none.
  uint64_t next(uint64_t position) const {
    const auto found = std::ranges::lower_bound(starts_, position);
    return found == starts_.end() ? ring_.head : *found;
  }

 private:
  const EventRing& ring_;
  std::vector<uint64_t> starts_;
};

}  // namespace

// Merges neighbouring runs that are in order, until there is one.
void Events::sort_by_time() {
  const auto is_earlier = [](const Event& a, const Event& b) { return a.tsc < b.tsc; };
  using Iterator = std::vector<Event>::iterator;
  std::vector<Iterator> ends = {all_.begin()};
  while (ends.back() != all_.end())
    ends.push_back(std::is_sorted_until(ends.back(), all_.end(), is_earlier));
  while (ends.size() > 2) {
    std::vector<Iterator> merged = {all_.begin()};
    for (size_t i = 2; i < ends.size(); i += 2) {
      std::inplace_merge(ends[i - 2], ends[i - 1], ends[i], is_earlier);
      merged.push_back(ends[i]);
    }
    if (merged.back() != all_.end()) merged.push_back(all_.end());
    ends = std::move(merged);
  }
}

bool SessionFile::take_events(const layout::Session& session, Events& events) {
  const layout::FileHeader& header = session.header;
  if (header.event_log2 == 0) return false;
  bool is_fuller = false;
  for (uint64_t area = 0; area <= header.cpu_count; ++area) {
    if (header.rings == EventRings::oldest)
      is_fuller = take_events_of(header, area, events) || is_fuller;
    else
      read_newest_of(header, area, events);
  }
  return is_fuller;
}

// The head is read first, and the ring only up to it: so the events are complete, or have 0 as
// their first word. The target may have written anything. Words that cannot be events are skipped
// up to the head.
bool SessionFile::take_events_of(const layout::FileHeader& header, uint64_t area, Events& events) {
  const uint64_t ring = ring_of(header, area);
  const uint64_t capacity = uint64_t{1} << header.event_log2;
  EventRing position;
  if (!read_at(fd_.get(), {reinterpret_cast<uint8_t*>(&position), sizeof position}, ring))
    return false;
  uint64_t tail = position.tail;
  const uint64_t begun = tail;
  const auto move_tail = [&](uint64_t to) {
    static_cast<void>(write(ring + offsetof(EventRing, tail), &to, sizeof to));
  };
  if (position.head - tail > capacity || position.head % kWord != 0 || tail % kWord != 0) {
    move_tail(align_down(position.head, kWord));
    return false;
  }
  bool is_complete = true;
  while (tail != position.head && is_complete) {
    const uint64_t from = tail & (capacity - 1);
    // The last event may end after the ring.
    const uint64_t all =
        std::min(from + (position.head - tail), capacity + layout::kMostEventWords * kWord);
    const uint64_t end = std::min(all, from + kAtOnce);
    // A copy need not take words in their order. If a thread completes an event while it is copied,
    // the copy may have its first word, and lack others. The next copy has all words of an event
    // whose first word is in this one.
    std::vector<uint64_t> begun_words((end - from) / kWord), words(begun_words.size());
    const uint64_t offset = ring + sizeof(EventRing) + from;
    for (auto* const copy : {&begun_words, &words})
      if (!read_at(fd_.get(), {reinterpret_cast<uint8_t*>(copy->data()), copy->size() * kWord},
                   offset))
        return false;
    events.begin_part(words.size());
    uint64_t at = 0;
    while (at < words.size() && from + at * kWord < capacity) {
      const uint64_t first = begun_words[at] == 0 ? 0 : words[at], size = first & 0xff;
      if (first != 0 && !is_size_of_event(size)) {
        move_tail(position.head);
        return false;
      }
      // The event reaches past the head that was read: it was begun later.
      const bool fits = size <= words.size() - at;
      is_complete = first != 0 && (fits || end != all);
      if (!is_complete || !fits) break;
      add_event(std::span(words).subspan(at), size, area, events);
      at += size;
    }
    std::fill(words.begin(), words.end(), 0);
    static_cast<void>(write(offset, words.data(), at * kWord));
    tail += at * kWord;
  }
  if (tail != begun) move_tail(tail);
  return position.head - begun > capacity / 4;
}

// Words that cannot be an event are skipped up to the next start that the ring names.
void SessionFile::read_newest_of(const layout::FileHeader& header, uint64_t area,
                                 Events& events) const {
  const uint64_t ring = ring_of(header, area);
  const uint64_t capacity = uint64_t{1} << header.event_log2;
  EventRing position;
  if (!read_at(fd_.get(), {reinterpret_cast<uint8_t*>(&position), sizeof position}, ring) ||
      position.head % kWord != 0)
    return;
  const Starts starts(position, capacity);
  uint64_t next = starts.next(0);
  while (next != position.head) {
    const uint64_t from = next & (capacity - 1);
    // The last event may end after the ring.
    const uint64_t most = capacity - from + layout::kMostEventWords * kWord;
    std::vector<uint64_t> words(std::min({position.head - next, most, kAtOnce}) / kWord);
    if (!read_at(fd_.get(), {reinterpret_cast<uint8_t*>(words.data()), words.size() * kWord},
                 ring + sizeof position + from))
      return;
    events.begin_part(words.size());
    uint64_t at = 0;
    bool is_event = true;
    while (at < words.size() && from + at * kWord < capacity) {
      const uint64_t size = words[at] & 0xff;
      const bool fits = size <= words.size() - at;
      is_event = is_size_of_event(size) && (fits || next + words.size() * kWord != position.head);
      if (!is_event || !fits) break;
      add_event(std::span(words).subspan(at), size, area, events);
      at += size;
    }
    next = is_event ? next + at * kWord : starts.next(next + at * kWord + kWord);
  }
}

void SessionFile::stop_events(const layout::Session& session) {
  constexpr uint64_t kStopped = 1;
  const layout::FileHeader& header = session.header;
  if (header.event_log2 == 0 || header.rings == EventRings::oldest) return;
  for (uint64_t area = 0; area <= header.cpu_count; ++area)
    static_cast<void>(
        write(ring_of(header, area) + offsetof(EventRing, tail), &kStopped, sizeof kStopped));
}

bool SessionFile::is_triggered(const layout::Session& session) const {
  const layout::FileHeader& header = session.header;
  if (header.event_log2 == 0 || header.rings == EventRings::oldest) return false;
  uint64_t triggered = 0;
  return read_at(fd_.get(), {reinterpret_cast<uint8_t*>(&triggered), sizeof triggered},
                 ring_of(header, 0) + offsetof(EventRing, triggered)) &&
         triggered != 0;
}

bool SessionFile::has_overwritten_events(const layout::Session& session) const {
  const layout::FileHeader& header = session.header;
  if (header.event_log2 == 0 || header.rings == EventRings::oldest) return false;
  for (uint64_t area = 0; area <= header.cpu_count; ++area) {
    uint64_t head = 0;
    if (read_at(fd_.get(), {reinterpret_cast<uint8_t*>(&head), sizeof head},
                ring_of(header, area) + offsetof(EventRing, head)) &&
        head > uint64_t{1} << header.event_log2)
      return true;
  }
  return false;
}

}  // namespace pinprick::ledger
