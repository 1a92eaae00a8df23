// All that one owner has in one process, and the one way to change it.
//
// A change adds probes, removes some, enables and disables others, while the process runs. What is
// added at one time is a batch, with a session of its own (session.h); batches come and go in any
// order, and those of other owners do not matter. The process stands still only while text is
// written: once for what is added, and once for each batch of which probes are switched or removed.
//
// Not thread-safe: one thread of the controller uses it.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/removal.h"
#include "engine/session.h"
#include "image/process.h"

namespace pinprick::engine {

// Names a batch for as long as its engine lives. Never used again.
enum class BatchId : uint32_t {};

// One probe: its position in Session::probes() of its batch.
struct ProbeId {
  BatchId batch = {};
  uint32_t probe = 0;
};

// Probes of `set` in `image`, which was read in the same turn by reader_without_jumps().
struct Addition {
  std::shared_ptr<image::ProcessImage> image;
  placement::ProbeSet set;
  ArmOptions options;
};

struct Change {
  std::optional<Addition> add = {};
  std::vector<ProbeId> remove = {};
  // These need batches that were added with ArmOptions::has_switches. A probe that is in the state
  // already stays in it.
  std::vector<ProbeId> enable = {};
  std::vector<ProbeId> disable = {};
  // The target's image, if objects have come or gone since the batches were added.
  const image::ProcessImage* now = nullptr;
};

// Probes of one owner that were added together.
struct Batch {
  BatchId id = {};
  std::shared_ptr<image::ProcessImage> image;  // shared with those of forked children
  Session session;
};

struct ChangeReport {
  // What was added, valid until it is erased; its session says what of it is armed. Null if nothing
  // was to be added.
  Batch* added = nullptr;
  size_t enabled = 0;   // probes that were disabled before
  size_t disabled = 0;  // the other way round
  size_t removed = 0;
  // Probes that a change names and that it could not change: they have no switch, they cannot be
  // taken out without others that stay, or they were removed before.
  size_t unchanged = 0;
  // Of batches that have lost their last probe, and have no hooks that others need. Their figures
  // stay until they are erased. If memory had to be left, another removal of them all tries again.
  DisarmReport ended;
  uint64_t stopped_ns = 0;  // the process as a whole
};

class Engine {
 public:
  using Batches = std::list<Batch>;

  explicit Engine(target::RemoteTarget target) : target_(std::move(target)) {}

  const target::RemoteTarget& target() const { return target_; }

  // Adds first, then enables, disables and removes. Takes the process's turn for all of it. Fails
  // if the addition fails; then nothing was changed. Also fails if the process cannot be stopped,
  // or has executed another program: what was added is taken out again then, but probes of some
  // batches may be switched or removed.
  Result<ChangeReport, ledger::SessionError> apply(Change change);

  // In the order in which they were added. The first one has the hook in the loader.
  Batches& batches() { return batches_; }
  const Batches& batches() const { return batches_; }
  // All probes of a batch, for a change that removes or switches it as a whole.
  static std::vector<ProbeId> all_of(const Batch& batch);

  // What the batches have in common. Null if what the process loads is not tracked.
  LoaderWatch* loader() const;
  // Where they have code in the process.
  std::vector<Range> code() const;
  // How many calls were missed for lack of memory for histograms.
  uint64_t refused() const;
  // How many slots to start with next time, if calls found none.
  uint64_t slots_to_ask_for() const;
  bool has_hits() const;

  // Gives the batches of `parent` that are in this process, by a fork, sessions of their own here
  // (Session::fork_to). Fails with Busy if the first one cannot be had just now. Those that fail
  // later stay with the parent.
  Result<void, ledger::SessionError> take_over_forked(const Engine& parent);

  // The process runs another program. To be called when the batches of the old one are erased.
  void change_program(target::RemoteTarget target) { target_ = std::move(target); }

 private:
  Batch* find(BatchId id);
  Batch& append(std::shared_ptr<image::ProcessImage> image, Session session);
  Result<void, ledger::SessionError> change_placed(const Change& change, ChangeReport& report);
  Result<void, ledger::SessionError> turn(std::span<const ProbeId> probes, Switched to,
                                          ChangeReport& report);
  Result<void, ledger::SessionError> remove(const Change& change, ChangeReport& report);

  target::RemoteTarget target_;
  Batches batches_;
  uint32_t next_ = 0;
};

}  // namespace pinprick::engine
