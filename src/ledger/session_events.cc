// Events in the rings of a session file.
#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "layout/runtime_data.h"
#include "layout/session_file.h"
#include "ledger/event_words.h"
#include "ledger/newest_events.h"
#include "ledger/session_file.h"

namespace pinprick::ledger {
namespace {

using layout::EventRing;
using layout::EventRings;

constexpr uint64_t kAtOnce = 4 << 20;

// Takes the words of an event, and what follows them.
void add_event(std::span<const uint64_t> words, uint64_t size, uint64_t area, Events& events) {
  events.add(event_from(words, area), words.subspan(kHeaderWords, size - kHeaderWords));
}

bool keeps_newest(const layout::Session& session) {
  return session.header.event_log2 != 0 && session.header.rings != EventRings::oldest;
}

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
  if (header.event_log2 == 0 || header.rings != EventRings::oldest) return false;
  bool is_fuller = false;
  for (uint64_t area = 0; area <= header.cpu_count; ++area)
    is_fuller = take_events_of(header, area, events) || is_fuller;
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

NewestEvents SessionFile::newest_events(const layout::Session& session) {
  NewestEvents events(fd_.get(), session.header, rings_begin_);
  rings_end_ = events.ends();
  return events;
}

void SessionFile::write_to_rings(const layout::FileHeader& header, size_t member, uint64_t value) {
  for (uint64_t area = 0; area <= header.cpu_count; ++area)
    static_cast<void>(write(ring_of(header, area) + member, &value, sizeof value));
}

void SessionFile::stop_events(const layout::Session& session) {
  if (keeps_newest(session)) write_to_rings(session.header, offsetof(EventRing, tail), 1);
}

// First the mark of the trigger: a hit that finds its ring going on sets it again.
void SessionFile::restart_events(const layout::Session& session) {
  if (!keeps_newest(session)) return;
  pass_over_events();
  was_restarted_ = true;
  write_to_rings(session.header, offsetof(EventRing, triggered), 0);
  write_to_rings(session.header, offsetof(EventRing, tail), 0);
}

// A hit sets the mark of the trigger before it stops a ring. So it is read after the others.
void SessionFile::undo_late_stops(const layout::Session& session) {
  if (!was_restarted_) return;
  bool is_stopped = false;
  for (uint64_t area = 0; area <= session.header.cpu_count && !is_stopped; ++area)
    is_stopped = read_word(ring_of(session.header, area) + offsetof(EventRing, tail)) != 0;
  if (is_stopped && !is_triggered(session))
    write_to_rings(session.header, offsetof(EventRing, tail), 0);
}

uint64_t SessionFile::read_word(uint64_t offset) const {
  uint64_t word = 0;
  return read_at(fd_.get(), {reinterpret_cast<uint8_t*>(&word), sizeof word}, offset) ? word : 0;
}

bool SessionFile::is_triggered(const layout::Session& session) const {
  return keeps_newest(session) &&
         read_word(ring_of(session.header, 0) + offsetof(EventRing, triggered)) != 0;
}

bool SessionFile::has_overwritten_events(const layout::Session& session) const {
  if (!keeps_newest(session)) return false;
  const uint64_t capacity = uint64_t{1} << session.header.event_log2;
  for (uint64_t area = 0; area <= session.header.cpu_count; ++area) {
    const uint64_t begin = area < rings_begin_.size() ? rings_begin_[area] : 0;
    const uint64_t head = read_word(ring_of(session.header, area) + offsetof(EventRing, head));
    if (head - std::min(head, begin) > capacity) return true;
  }
  return false;
}

}  // namespace pinprick::ledger
