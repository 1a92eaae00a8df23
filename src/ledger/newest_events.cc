#include "ledger/newest_events.h"

#include <algorithm>
#include <bit>
#include <span>

#include "base/address.h"
#include "base/fd.h"
#include "ledger/event_words.h"

namespace pinprick::ledger {

using layout::EventRing;

// More would be faster by little, and there is a piece for each CPU.
static constexpr uint64_t kPiece = 256 << 10;

NewestEvents::Ring::Ring(int descriptor, const layout::FileHeader& header, uint64_t area,
                         uint64_t begin)
    : descriptor_(descriptor),
      area_(area),
      offset_(ring_of(header, area)),
      capacity_(uint64_t{1} << header.event_log2) {
  const auto is_read =
      read_at(descriptor_, {reinterpret_cast<uint8_t*>(&position_), sizeof position_}, offset_);
  if (!is_read || position_.head % kWord != 0) {
    position_.head = begin;
    return;
  }
  find_starts(begin);
  next_ = next_start(0);
  find();
}

void NewestEvents::Ring::find_starts(uint64_t begin) {
  const auto part_log2 = std::countr_zero(capacity_ / PP_RING_PARTS);
  // At the head there may be an event that was never finished, over the oldest ones.
  const uint64_t intact = capacity_ - layout::kMostEventWords * kWord;
  const uint64_t head = position_.head, oldest = head - std::min(head, intact);
  if (begin >= oldest && begin < head) starts_.push_back(begin);
  for (uint64_t i = 0; i < PP_RING_PARTS; ++i) {
    const uint64_t start = position_.starts[i];
    if (start >= std::max(oldest, begin) && start < head && start % kWord == 0 &&
        (start >> part_log2) % PP_RING_PARTS == i)
      starts_.push_back(start);
  }
  std::ranges::sort(starts_);
}

// Returns the first one from `position` on, and the head if there is none.
uint64_t NewestEvents::Ring::next_start(uint64_t position) const {
  const auto found = std::ranges::lower_bound(starts_, position);
  return found == starts_.end() ? position_.head : *found;
}

// Reads the piece at next_. Returns false if there is none.
bool NewestEvents::Ring::load() {
  at_ = 0;
  words_.clear();
  if (next_ >= position_.head) return false;
  const uint64_t from = next_ & (capacity_ - 1);
  // The last event may end after the ring.
  const uint64_t most = capacity_ - from + layout::kMostEventWords * kWord;
  words_.resize(std::min({position_.head - next_, most, kPiece}) / kWord);
  const auto is_read =
      read_at(descriptor_, {reinterpret_cast<uint8_t*>(words_.data()), words_.size() * kWord},
              offset_ + sizeof position_ + from);
  return static_cast<bool>(is_read);
}

// Finds the event at at_, or the first one after it.
void NewestEvents::Ring::find() {
  for (;;) {
    const bool is_in_ring = (next_ & (capacity_ - 1)) + at_ * kWord < capacity_;
    if (at_ < words_.size() && is_in_ring) {
      size_ = words_[at_] & 0xff;
      const bool fits = size_ <= words_.size() - at_;
      const bool is_at_end = next_ + words_.size() * kWord == position_.head;
      if (is_size_of_event(size_) && fits) return;
      if (!is_size_of_event(size_) || is_at_end)
        next_ = next_start(next_ + at_ * kWord + kWord);
      else
        next_ += at_ * kWord;
    } else {
      next_ += at_ * kWord;
    }
    size_ = 0;
    if (!load()) return;
  }
}

Event NewestEvents::Ring::take(std::vector<uint64_t>& values) {
  const auto words = std::span<const uint64_t>(words_).subspan(at_, size_);
  values.assign(words.rbegin(), words.rend() - kHeaderWords);
  Event event = event_from(words, area_);
  event.values = values;
  at_ += size_;
  find();
  return event;
}

NewestEvents::NewestEvents(int descriptor, const layout::FileHeader& header,
                           const std::vector<uint64_t>& begins) {
  rings_.reserve(header.cpu_count + 1);
  for (uint64_t area = 0; area <= header.cpu_count; ++area)
    rings_.emplace_back(descriptor, header, area, area < begins.size() ? begins[area] : 0);
  choose();
}

void NewestEvents::choose() {
  uint64_t first = UINT64_MAX;
  others_tsc_ = UINT64_MAX;
  for (size_t i = 0; i < rings_.size(); ++i) {
    const uint64_t tsc = rings_[i].next_tsc();
    if (tsc < first) {
      others_tsc_ = first;
      first = tsc;
      current_ = i;
    } else {
      others_tsc_ = std::min(others_tsc_, tsc);
    }
  }
}

Event NewestEvents::take() {
  const Event event = rings_[current_].take(values_);
  if (rings_[current_].next_tsc() > others_tsc_ || next_tsc() == UINT64_MAX) choose();
  return event;
}

std::vector<uint64_t> NewestEvents::ends() const {
  std::vector<uint64_t> ends;
  for (const Ring& ring : rings_) ends.push_back(ring.end());
  return ends;
}

}  // namespace pinprick::ledger
