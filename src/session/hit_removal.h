// Takes probes out of a process once they have been hit, for MeasurementSpec::once: that something
// was executed is known then, and costs nothing from there on. For the thread that uses the
// measurement.
//
// No hit is lost. The counter of a probe stays when the probe is taken out, and a hit that no look
// has seen, because the process has ended, is in the session file like any other. How often a probe
// was hit until it was out says nothing.
//
// Some probes cannot be taken out alone (engine/removal.h), mostly because their jump displaces an
// instruction that was not executed yet. They stay, and go on counting. Switches
// (engine/switches.h) would turn them off, but each probe would take 21 bytes more, and a nop in
// each hit, for no gain: what takes time at such a site is the way to the stub and back, not the
// counting. With a probe at each instruction of CPython, 9,000 of 130,000 probes that were hit had
// to stay, and made it 2.4 times as slow, with switches and without.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "ledger/session_error.h"

namespace pinprick::session {

class HitRemoval {
 public:
  // Looks for probes that have been hit, and takes them out, all of one batch at once. Does nothing
  // before due_ns(). Returns why not all that could be taken out are; they are tried again.
  //
  // The process stands still once for each batch that has some, so the looks become rare when that
  // takes long. Looks that find nothing stop nothing.
  std::optional<ledger::SessionError> look(engine::Engine& engine);
  // When the next look is due, by monotonic_ns().
  uint64_t due_ns() const { return due_ns_; }

 private:
  struct Unhit {
    uint32_t probe = 0;  // its position in Session::probes()
    uint32_t counter = 0;
  };
  struct Watched {
    std::vector<Unhit> unhit;
    std::vector<uint32_t> staying;  // hit, but they could not be taken out
    uint64_t retry_ns = 0;          // when to try again without any new hit
    uint64_t retry_pause_ns = 0;
  };
  // What a look took.
  struct Effort {
    uint64_t look_ns = 0;
    uint64_t remove_ns = 0;
    uint64_t stopped_ns = 0;
    bool has_news = false;
  };

  static Watched watch(const engine::Session& session);
  static std::vector<uint32_t> take_hit(const engine::Session& session, Watched& watched);
  static std::optional<ledger::SessionError> remove(engine::Session& session, Watched& watched,
                                                    std::vector<uint32_t> hit, Effort& effort);
  void pace(const Effort& effort);

  std::map<engine::BatchId, Watched> batches_;
  uint64_t due_ns_ = 0;
  uint64_t pause_ns_ = 0;
};

}  // namespace pinprick::session
