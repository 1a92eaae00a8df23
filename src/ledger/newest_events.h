// The events in rings that keep the newest ones, in the order of time over all CPUs.
//
// Reads each ring piece by piece, so that it takes little memory, however large the rings are. The
// rings are stopped before (SessionFile::stop_events). Their words are what the target has written:
// what cannot be an event is skipped up to the next start that the ring names. One thread uses it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "layout/runtime_data.h"
#include "layout/session_file.h"
#include "ledger/session_file.h"

namespace pinprick::ledger {

class NewestEvents {
 public:
  // Reads from these positions on, one for each area, or from the oldest event that is left.
  // `descriptor` is that of the session's file, which must stay open.
  NewestEvents(int descriptor, const layout::FileHeader& header,
               const std::vector<uint64_t>& begins);

  // The time of the next event; UINT64_MAX if there is none.
  uint64_t next_tsc() const { return rings_[current_].next_tsc(); }
  // Returns it. There has to be one. Its values are valid until the next call.
  Event take();

  // Where each ring ended when its reading began.
  std::vector<uint64_t> ends() const;

 private:
  // The rest of one ring.
  class Ring {
   public:
    Ring(int descriptor, const layout::FileHeader& header, uint64_t area, uint64_t begin);

    uint64_t next_tsc() const {
      return size_ == 0 ? UINT64_MAX : std::min(words_[at_ + 1], UINT64_MAX - 1);
    }
    // `values` get those of the event.
    Event take(std::vector<uint64_t>& values);
    uint64_t end() const { return position_.head; }

   private:
    void find_starts(uint64_t begin);
    uint64_t next_start(uint64_t position) const;
    void find();
    bool load();

    int descriptor_;
    uint64_t area_, offset_, capacity_;
    layout::EventRing position_ = {};
    std::vector<uint64_t> starts_;  // where events begin, in order, as far as the ring says
    uint64_t next_ = 0;             // the position of words_[0]
    std::vector<uint64_t> words_;   // a piece of the ring
    size_t at_ = 0;                 // of the next event in it
    size_t size_ = 0;               // its words; 0: there is none
  };
  void choose();

  std::vector<Ring> rings_;  // at least one
  size_t current_ = 0;       // the one that has the next event
  uint64_t others_tsc_ = 0;  // the time of the first event of the others
  std::vector<uint64_t> values_;
};

}  // namespace pinprick::ledger
