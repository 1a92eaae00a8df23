// Writes the text of a session: announces it in the file, stops the process, and writes what can be
// written, all or nothing where patches depend on each other.
//
//     1  announce(): the file says `armed`, and what each site will hold; sites that the program
//        itself has probes at are left out, and functions whose text is not as it was planned for
//     2  prepare_edits(), prepare_stop(): what need not be done while the process is stopped
//     3  try_to_write(): all threads stop, where they are is looked at, the text is written, and
//     the
//        semaphores of SDT points are raised
//     4  note_left_out(): the file says which sites were left as they were
//
// For arming, with the process's turn held, once all stubs are there; no task can cancel it. The
// controller may die at any point: what a site holds is one of the two that the file names. Fails
// if the process ends, or cannot be stopped or written; what was written goes with a disarm.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "arch/stub.h"
#include "base/address.h"
#include "base/result.h"
#include "engine/plan/arming_plan.h"
#include "engine/plan/dependence.h"
#include "engine/text/read_permission.h"
#include "engine/text/text_edits.h"
#include "image/maps.h"
#include "image/process.h"
#include "layout/session_file.h"
#include "ledger/session_error.h"
#include "ledger/session_file.h"
#include "patch/text_edit.h"
#include "target/remote_target.h"
#include "target/stop.h"

namespace pinprick::engine {

enum class TextStop : uint8_t {
  written,
  thread_in_hook,  // nothing was written: a thread is in the way of a hook
  other_rseq,      // nothing was written: not all threads have rseq as the stubs would have it
};

// Is a hook left out that a thread is in the way of, or tried again?
enum class Attempt : uint8_t { another_follows, last };

// Where the runtime is told where threads have their TIDs, and whether it can do without.
struct TidOffset {
  Address at = 0;
  enum class Use : uint8_t {
    to_tell_apart,  // threads are told apart by them
    to_tell,        // it is good to know: events name their thread, and reads are faster
  } use = Use::to_tell_apart;
};

// Returns the function that the patch is in, to its limit, in the process's addresses.
Range function_at(const placement::SitePatch& patch);

class TextWriter {
 public:
  struct Parts {
    const target::RemoteTarget& target;
    const image::ProcessImage& image;
    ledger::SessionFile& file;
    layout::Session& journal;
    ArmingPlan& plan;
  };
  // `tid_offset`: of sessions that need TIDs. `reads`: where the runtime is told that hits may read
  // what pointers lead to; only if they want to.
  TextWriter(const Parts& parts, std::optional<TidOffset> tid_offset, std::optional<Address> reads)
      : parts_(parts), tid_offset_(tid_offset), reads_(reads) {}

  // Drops what must not be armed alone. `boundaries` are those of the stubs that are there, and
  // `rseq` what they count by. To be called again for other stubs.
  Result<void, ledger::SessionError> announce(std::vector<patch::Boundary> boundaries,
                                              std::optional<arch::RseqArea> rseq);
  void prepare_edits();
  // Finds others' breakpoints in the pages of the edits, and prepares looking mappings up.
  void prepare_stop();
  Result<TextStop, ledger::SessionError> try_to_write(Attempt attempt);
  Result<void, ledger::SessionError> note_left_out();

  // Returns why hits may not read what pointers lead to.
  ReadObstacle obstacle_to_reads() const { return obstacle_; }
  // How long the target as a whole has stood still.
  uint64_t stopped_ns() const { return stopped_ns_; }

 private:
  Counting counting() const { return rseq_ ? Counting::restartable : Counting::locked; }
  // Returns true if something was dropped.
  Result<bool, ledger::SessionError> leave_to_program();
  Result<void, ledger::SessionError> refuse_beside(target::AttachCause cause);
  // In the journal alone. Returns true if there are any.
  bool mark_left_out();
  void drop_what_lacks_something();
  // Returns true if something was dropped.
  bool drop_where_threads_are(const std::vector<size_t>& busy);
  bool drop_changed();
  Result<void, ledger::SessionError> note_tid_offset(target::Stop& stop) const;
  Result<void, ledger::SessionError> allow_reads(target::Stop& stop);
  Result<void, ledger::SessionError> look_again_at_reads();
  Result<void, ledger::SessionError> write(target::Stop stop);
  Result<void, SystemError> apply_edits(const target::Stop& stop);
  void let_go(target::Stop stop) { stopped_ns_ += std::move(stop).resume(); }

  const Parts parts_;
  const std::optional<TidOffset> tid_offset_;
  const std::optional<Address> reads_;
  ReadObstacle obstacle_ = ReadObstacle::none;
  std::optional<arch::RseqArea> rseq_;
  std::vector<patch::Boundary> boundaries_;
  std::vector<std::pair<size_t, layout::SiteEntry::Phase>> left_out_;  // as they were before
  ArmingEdits edits_;
  std::vector<Address> foreign_;
  std::optional<image::MappingLookup> mappings_;  // made before the process stops
  uint64_t stopped_ns_ = 0;
};

}  // namespace pinprick::engine
