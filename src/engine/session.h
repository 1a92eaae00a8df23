// A session: probes of one controller in one target, from arming to disarming.
//
// Arming, in order; a controller that dies at any point leaves a target that runs on, and a file
// from which any pinprick can finish the detach (disarm.h):
//
//     1  session file: what will be mapped where, every site with its old and its new bytes
//     2  the target maps its memory, gets the counters: one thread does, the others run
//     3  stubs, slots and code are written into it; no jump leads there yet
//     4  the file says `armed`
//     5  all threads stop, the text is written, semaphores of SDT points are raised
//
// A task that is cancelled (base/task.h) ends it before 2, within 3, or before 4, and what was done
// is undone: the text has never been touched.
//
// A process may have several sessions, of several controllers, or of one that follows what is
// loaded: each later one has what was loaded since. They come and go in any order, one at a time
// (turn.h), and share what they have in common (shared_sites.h).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "action/action.h"
#include "engine/disarm.h"
#include "engine/memory/frame_rules.h"
#include "engine/memory/region_admission.h"
#include "engine/removal.h"
#include "engine/switches.h"
#include "engine/text/read_permission.h"
#include "engine/watch/exec_watch.h"
#include "engine/watch/load_tracking.h"
#include "image/process.h"
#include "layout/session_file.h"
#include "ledger/newest_events.h"
#include "ledger/session_error.h"
#include "ledger/session_file.h"
#include "placement/probe_set.h"
#include "runtime/image.h"
#include "stats/histogram.h"
#include "target/kernel_uprobes.h"
#include "target/remote_target.h"

namespace pinprick::engine {

struct ArmOptions {
  unsigned fraction_bits = stats::kDefaultFractionBits;
  uint64_t slots = 0;          // of return probes; 0: as many as usual
  bool count_children = true;  // what forked children do
  bool trap = false;           // the kernel may count what no jump can be placed at
  std::vector<Range> callers;  // code that calls are timed from, besides the image's objects
  uint64_t keys = 0;           // by which hits are counted, that there is room for; 0: as usual
  uint64_t ring_bytes = 0;     // of each CPU's ring of events, at least; 0: as usual
  layout::EventRings rings = layout::EventRings::oldest;
  bool has_switches = false;   // probes can be turned off and on (switches.h); a hit pays a nop
  std::string statistic = {};  // what a session is called that is to be kept
  layout::Gap gap = layout::Gap::none;  // for one timed function, or one span
};

struct ArmReport {
  size_t armed = 0;
  std::vector<placement::Skipped>
      skipped;              // those of the plan, and those that arming had to leave out
  uint64_t stopped_ns = 0;  // the target as a whole, while its text was written
  uint64_t stub_bytes = 0;
  ReadObstacle obstacle_to_reads = ReadObstacle::none;  // if hits follow pointers
  SlowReads slow_reads = SlowReads::none;               // likewise
  bool locked = false;           // without rseq: counting takes locked instructions
  size_t trapped = 0;            // of those armed: by breakpoints of the kernel's
  bool trap_would_help = false;  // ArmOptions::trap was not asked for, and could have helped
  std::optional<SystemError> trap_refused;  // by the kernel
};

// A probe that is in the target, or a span of which both points are, and its index in the session's
// tables.
struct ArmedProbe {
  uint32_t match = 0;
  uint32_t index = 0;
};

struct ProbeName {
  std::string_view object;
  std::string_view function;
  uint64_t offset = 0;              // of the instruction, from the function's start
  std::string_view value = {};      // what is recorded
  std::string_view condition = {};  // which hits contribute; empty: all
  bool is_point = false;            // the name of an SDT point, which all its sites have
  bool is_signed = false;           // values of 2^63 and more are negative
  std::string_view sum = {};        // what is added up
  bool is_sum_signed = false;       // sums of 2^63 and more are negative
  bool is_sum_real = false;         // sums are the bits of floating-point numbers
  std::string_view key = {};        // by which hits are told apart
  bool is_key_signed = false;       // keys of 2^63 and more are negative
  bool is_key_real = false;         // keys are the bits of floating-point numbers
  bool is_key_text = false;         // keys are texts
  bool is_key_code = false;         // keys are addresses of code
  bool is_key_command = false;      // keys are threads, by the names of their commands
  layout::KeyParts key_parts = {};  // of keys that are lists
  bool at_return = false;           // of the function, and not at its entry
  std::string_view file = {};       // the path of the object
  std::string_view build_id = {};   // of the object; empty: it has none
  Address address = 0;          // of the instruction in that file; of a point: of one of its sites
  bool is_shared = false;       // another probed function has this name
  std::string_view event = {};  // what the user calls the event; empty: as what is hit
  Address site = 0;             // where `address` is in the process

  bool is_key_list() const { return key_parts.count != 0; }
  bool has_key_in_words() const {
    return is_key_text || is_key_code || is_key_command || is_key_list();
  }
};

// Where an object's sites are among those of the journal.
struct ObjectSites {
  size_t begin = 0;
  size_t end = 0;
  size_t armed = 0;         // one whose jump is in the text; `end`: there is none
  bool has_probes = false;  // not hooks alone
};

struct Unloaded {
  std::string name;
  std::string path;
  uint64_t bias = 0;
};

class Session {
 public:
  // Arms the probes of `set`. `image` is that of `target`, read by reader_without_jumps() in the
  // same turn, and must outlive the session. If nothing is left to arm, there is no session:
  // report().armed is 0, and nothing is in the target.
  static Result<Session, ledger::SessionError> arm(target::RemoteTarget target,
                                                   const image::ProcessImage& image,
                                                   placement::ProbeSet set,
                                                   const ArmOptions& options);
  Session(Session&& other) noexcept;
  Session& operator=(Session&&) = delete;
  ~Session();

  const ArmReport& report() const { return report_; }
  const target::RemoteTarget& target() const { return target_; }
  // Returns the path of its file; empty if there is no session.
  std::string file_path() const { return file_ ? file_->path() : std::string(); }

  const action::Action& action_of(const ArmedProbe& probe) const {
    return actions_.of(match_of(probe).pattern);
  }
  // The same with what names mean there, and all fields of its events.
  const action::Action& action_here(const ArmedProbe& probe) const {
    const image::Match& match = match_of(probe);
    return actions_.of(match.pattern, placement::scope_of(match));
  }
  placement::Kind kind_of(const ArmedProbe& probe) const { return action_of(probe).kind; }
  // Returns where it records: the number of a counter if it counts, else of a histogram and losses.
  size_t cell_of(const ArmedProbe& probe) const;
  const std::vector<ArmedProbe>& probes() const { return probes_; }
  // Returns what was matched: a function, the start of a span, one instruction, or all of them.
  const image::Match& match_of(const ArmedProbe& probe) const { return matches_[probe.match]; }
  // Returns the probe's name, which is valid as long as both the image and the session.
  ProbeName name_of(const ArmedProbe& probe) const;
  // Returns the hits of counting probes, by cell.
  std::vector<uint64_t> counters() const;
  // By counter; empty if nothing is added up.
  std::vector<uint64_t> sums() const;
  // Of what is added up, by an eighth of owner_of_keys(); empty if none are kept. The second ends
  // an interval, and returns those of it.
  std::vector<layout::Extremes> extremes() const;
  std::vector<layout::Extremes> end_interval();
  // Returns what is counted or recorded by keys, for all probes that have keys, and what stands for
  // a probe there.
  std::vector<ledger::KeyHits> keys(const std::vector<layout::Extremes>& extremes = {}) const;
  uint64_t owner_of_keys(const ArmedProbe& probe) const;
  // By cell: calls that are counted by keys, and whose key had no room.
  ledger::SessionFile::Rests rests() const;
  // The objects that the process had mapped when it was armed.
  const image::ProcessImage& image() const { return *image_; }
  // From now on, hits read nothing through pointers.
  void stop_reads();
  // Returns roughly how often the kernel did such reading; 0 if that is not known.
  uint64_t reads_by_kernel() const;
  // Looks for memory that hits may read without the kernel, once they have read a lot by it.
  // provide() does, too, after a while.
  void admit_regions_now();
  // From now on, the kernel does all such reading: code that was loaded may unmap memory unseen.
  void end_direct_reads_of_load();
  // The objects of this image were searched, and unmap nothing by calls of their own.
  void note_harmless(const image::ProcessImage& now);
  // The texts that hits have read, and, by probe, hits of which something could not be read
  // (ledger::SessionFile).
  std::vector<ledger::ReadText> texts() const;
  std::vector<uint64_t> unread() const;
  std::vector<ledger::ReadText> texts_from(uint64_t number) const;
  // By probe: events for which there was no room (ledger::SessionFile).
  std::vector<uint64_t> dropped() const;
  std::vector<uint64_t> passed() const;  // the hits, of which only some are events
  // Replaces `events` by those that have come since the last call, and returns whether the next
  // call should come soon. Not for rings that keep the newest events.
  bool take_events(ledger::Events& events);
  bool keeps_newest_events() const;
  // Of such rings (ledger::SessionFile), which were stopped before; nullopt if there are none. Each
  // event is to be given to count(), which returns false for those that no stub has written.
  std::optional<ledger::NewestEvents> newest_events();
  bool count(const ledger::Event& event);
  void stop_events();
  void restart_events(bool goes_on);
  void undo_late_stops();
  // Has a hit triggered the end of the recording?
  bool is_triggered() const;
  // Since the last restart, and before it.
  bool has_overwritten_events() const;
  bool has_overwritten_before() const { return has_overwritten_before_; }
  // How many have come so far, by probe; empty if none records events.
  const std::vector<uint64_t>& events() const { return events_; }
  // How the fields of a probe's events are shown.
  enum class FieldForm : uint8_t {
    number,
    signed_number,
    hexadecimal,
    text,
    return_address,  // by the name of the code there, as the next
    stack,           // by the names of the code of its frames
    symbol,
    error,          // by the name of the error
    character,      // the lowest byte
    command,        // the name of the thread
    stack_pointer,  // not at all
  };
  const std::vector<FieldForm>& field_forms(uint32_t probe) const {
    return forms_of_fields_[form_of_probe_[probe]];
  }
  // These return the figures of timed calls, values and spans, by cell. Loss::abandoned has the
  // calls that neither returned nor were unwound: while probes are armed, those whose slot was
  // needed again; afterwards, all of them but those of Loss::ended.
  std::vector<layout::Losses> losses() const;
  std::vector<stats::Histogram> histograms() const;
  // Returns how often each probe has acted so far, by position in probes(): hits, or calls and
  // passes of a span that have ended, whether they were recorded or missed. Cheaper than
  // histograms().
  std::vector<uint64_t> hits() const;
  // Returns whether any probe has been hit.
  bool has_hits() const;

  // Provides more slots, and more blocks for histograms, if more than half of them were needed.
  // Must be called now and then. Returns true if the next call should come soon, because a quarter
  // of the slots was needed and there can be more.
  bool provide();
  // Returns how many slots a user should ask for if calls found none.
  uint64_t slots_to_ask_for() const;
  // Sets the code whose calls are timed: the objects of the process, and what all sessions have in
  // it now. Calls from other code are not timed, since a runtime may look at the return addresses
  // of code that it has generated. Must be called again with all of it when it has changed.
  void admit_callers(std::span<const Range> code);
  // Tells hits how stacks are walked through the code of that image alone.
  void admit_frames(const image::ProcessImage& now);
  // Returns the code that this session has in the process.
  std::vector<Range> code() const;
  // Returns the return address of a call that was not timed for that reason; nullopt if there was
  // none since the last call.
  std::optional<Address> take_unknown_caller();

  // Has the process this session's probes, by a fork from the session's process or a child of it?
  bool is_in(pid_t forked) const;
  // The processes that have them in this way; empty if there are none.
  std::vector<pid_t> forked() const;
  // Gives such a process a session of its own, with what it has recorded since this call; what it
  // recorded before is among this session's (forked_session.h). Fails with Busy if that is not
  // possible just now.
  Result<Session, ledger::SessionError> fork_to(const target::RemoteTarget& child) const;

  // Returns how many of the calls that losses() has as missed found no histogram block.
  uint64_t refused() const { return file_ ? file_->read_pool(journal_).refused : 0; }

  // Returns what the hook in the loader notifies when objects come or go; null without that hook.
  LoaderWatch* loader() const { return loader_.get(); }
  // Returns what the hooks where programs are executed notify; null without these hooks. It
  // outlives the session if the process has ended, since its children have the hooks, too.
  const std::shared_ptr<ExecWatch>& exec() const { return exec_; }
  // Returns false if all objects with probes are certainly as they were. Takes one access to the
  // process's memory for each.
  bool may_be_unloaded() const;
  // Returns the objects that were unloaded since, also if they were loaded again. `now` is the
  // present image. Their sites are not touched any more.
  std::vector<Unloaded> note_unloaded(const image::ProcessImage& now);
  // Returns true if nothing of the session is left in any text, except for hooks.
  bool is_gone() const;

  // These take positions in probes(). A span cannot be changed without all others of the session,
  // as spans may share points, and a probe that the kernel counts cannot be changed.
  //
  // Turns probes off or on, in one batch (switches.h). The session must have been armed with
  // switches.
  Result<SwitchReport, ledger::SessionError> turn(std::span<const uint32_t> probes, Switched to);
  // Takes probes out, while the others stay (removal.h). Their figures stay, too.
  Result<RemovalReport, ledger::SessionError> remove(std::span<const uint32_t> probes);
  bool is_removed(uint32_t probe) const;
  // Returns numbers, by position in probes(): those with the same number can only be taken out of
  // the text together.
  std::vector<uint32_t> groups() const;
  // How many probes there are that were not removed; and are all of those among these?
  size_t placed() const;
  bool has_only(std::span<const uint32_t> probes) const;

  // Leaves the probes in the target for good, as the statistic of ArmOptions::statistic: this
  // object has no session any more, and any controller can change it or take it out by its file.
  // Fails if the file cannot be written; then nothing has changed.
  Result<void, ledger::SessionError> keep();

  // Undoes everything. Counters and histograms stay readable. Another call tries again to undo what
  // had to be left. If it was never called, the destructor does it silently. `now` is the target's
  // image if its objects have changed since arming, as an unwinder may have been loaded.
  Result<DisarmReport, ledger::SessionError> disarm(const image::ProcessImage* now = nullptr);

 private:
  explicit Session(target::RemoteTarget target, const image::ProcessImage& image)
      : target_(std::move(target)), image_(&image) {}
  friend class Arming;
  void report_functions_once();
  std::vector<size_t> trappable() const;
  void trap_skipped(const std::vector<size_t>& skipped);

  target::RemoteTarget target_;
  const image::ProcessImage* image_;
  action::Actions actions_ = placement::Kind::count;
  std::vector<image::Match> matches_;
  std::vector<ArmedProbe> probes_;
  std::vector<uint32_t> cells_;   // by journal_.probes; empty: each has that of its own number
  std::vector<uint64_t> events_;  // by journal_.probes
  bool has_overwritten_before_ = false;
  std::vector<uint32_t> form_of_probe_;
  std::vector<std::vector<FieldForm>> forms_of_fields_;
  ArmReport report_;
  layout::Session journal_;
  std::optional<ledger::SessionFile> file_;
  std::vector<bool> removed_;                  // by journal_.probes; empty: none
  NeverReturned never_returned_;               // when it was disarmed
  std::vector<ObjectSites> sites_of_objects_;  // by journal_.objects
  std::unique_ptr<LoaderWatch> loader_;
  std::shared_ptr<ExecWatch> exec_;
  // The runtime of return probes in the target.
  struct Runtime {
    Address address = 0;
    runtime::RuntimeSpec spec;
    uint64_t pool_bytes = 0;  // that are reserved
    runtime::CallerTable callers = {};
    std::optional<FrameRules> frames = {};  // if hits tell their stacks
    uint64_t swept_ns = 0;                  // when threads that have ended were looked for
    Address context() const;
  };
  bool is_in_place(const layout::SiteEntry& site) const;
  struct Entries {
    std::vector<uint32_t> all;  // in the file
    size_t without = 0;         // probes that have none that could be changed
  };
  Entries entries_of(std::span<const uint32_t> probes) const;
  bool has_entry(const ArmedProbe& probe) const;
  std::vector<uint32_t> points_of_spans() const;
  void note_removed_sites();
  void sweep_threads();
  void admit_regions();
  void admit_regions_again();
  void stop_direct_reads();
  std::optional<Runtime> runtime_;
  std::optional<DirectReads> direct_;  // if hits may read without the kernel
  struct SeenReads {
    uint64_t seen = 0;      // at the last look
    uint64_t look_ns = 0;   // not before
    uint64_t pause_ns = 0;  // until the next one
  } seen_reads_;
  // Probes whose index is that of no entry in the file, in its order.
  std::optional<target::KernelUprobes> kernel_;
  bool is_armed_ = false;  // all that could be, and nothing taken out again
  enum class State : uint8_t { armed, left, disarmed } state_ = State::armed;
};

}  // namespace pinprick::engine
