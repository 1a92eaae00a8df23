#include "engine/forked_session.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/fd.h"
#include "base/process_folder.h"
#include "engine/failures.h"
#include "engine/journal/inherited_journal.h"
#include "engine/journal/journal_file.h"
#include "engine/journal/journal_tables.h"
#include "engine/memory/address_choice.h"
#include "engine/memory/memory_mapping.h"
#include "engine/memory/remote_calls.h"
#include "engine/owners/ownership.h"
#include "engine/owners/shared_sites.h"
#include "engine/text/restoring.h"
#include "image/maps.h"
#include "ledger/discovery.h"
#include "ledger/runtime_directory.h"
#include "ledger/turn.h"
#include "patch/thread_stacks.h"
#include "target/address_space.h"
#include "target/procfs.h"

namespace pinprick::engine {
namespace {

using layout::MappingEntry;
using target::AttachCause;

// Between these, another file must not take the place of the one that was looked at: a key's entry
// is in one table alone.
bool records_by_several_instructions(const layout::Session& journal) {
  const layout::FileHeader& header = journal.header;
  return header.histogram_count != 0 || header.keys_offset != 0 || header.event_log2 != 0;
}

// What the child's own file says.
layout::Session journal_for(const target::RemoteTarget& child, const layout::Session& parent) {
  layout::Session journal = inherited(parent, child.memory());
  layout::FileHeader& header = journal.header;
  header.pid = child.pid();
  header.start_time = child.start_time();
  header.controller = ::getpid();
  header.created_ns = realtime_ns();
  copy_text(header.command, child.command());
  // The parent's may be out already.
  header.state = layout::SessionState::armed;
  header.is_kept = header.is_stopped = 0;
  header.resets = 0;
  header.hijack = {};
  for (int32_t& descriptor : header.handover_descriptors) descriptor = -1;
  for (MappingEntry& entry : journal.mappings)
    if (entry.kind == MappingEntry::Kind::tables || entry.kind == MappingEntry::Kind::areas)
      entry.progress = MappingEntry::Progress::none;
  return journal;
}

// Calls in flight keep numbers of texts, which must mean the same in the child's file. A text that
// the parent enters while this copies is an entry that the child does not count as taken, or a slot
// that leads to no text yet; either is as if it were not there.
void copy_texts(const ledger::SessionFile& from, const ledger::SessionFile& to,
                const layout::FileHeader& header) {
  if (header.texts_offset == 0) return;
  std::vector<uint8_t> table(layout::texts_size(header.text_log2));
  if (read_at(from.descriptor(), table, header.texts_offset))
    static_cast<void>(write_at(to.descriptor(), table, header.texts_offset));
}

// Where the control blocks have the TID is found out once, when the parent is armed.
void copy_exec_handshake(const ledger::SessionFile& from, const ledger::SessionFile& to,
                         const layout::FileHeader& header) {
  if (header.exec_handshake_offset == 0) return;
  const uint64_t at = header.exec_handshake_offset + offsetof(layout::ExecHandshake, tid_offset);
  uint8_t tid_offset[sizeof layout::ExecHandshake::tid_offset] = {};
  if (read_at(from.descriptor(), tid_offset, at))
    static_cast<void>(write_at(to.descriptor(), tid_offset, at));
}

std::vector<Range> emitted_code(const layout::Session& journal) {
  std::vector<Range> code;
  for (const MappingEntry& entry : journal.mappings)
    if (layout::is_code(entry.kind)) code.push_back({entry.address, entry.address + entry.size});
  return code;
}

Result<void, ledger::SessionError> choose_scratch(pid_t pid,
                                                  const std::vector<image::Mapping>& maps,
                                                  layout::Session& journal) {
  MappingEntry& scratch = journal.mappings[mapping_of(journal, MappingEntry::Kind::scratch)];
  const uint64_t size = scratch_size(journal.mappings.size());
  const auto at = target::AddressSpace(maps, target::lowest_mappable_address()).take_anywhere(size);
  if (!at) return attach_failure(pid, AttachCause::no_address_space);
  scratch = {*at, size, MappingEntry::Kind::scratch, MappingEntry::Progress::none};
  return {};
}

}  // namespace

Result<ForkedSession, ledger::SessionError> fork_session(const target::RemoteTarget& child,
                                                         const image::ProcessImage& image,
                                                         const layout::Session& journal,
                                                         const ledger::SessionFile& file) {
  const pid_t pid = child.pid();
  const auto turn = ledger::Turn::take(pid);
  if (!turn) return fail(turn.error());
  const auto folder = ledger::runtime_directory();
  if (!folder) return fail(ledger::SessionError(ledger::NoRuntimeDirectory{folder.error().number}));
  layout::Session own = journal_for(child, journal);
  const auto maps = image::read_maps(pid);
  if (!maps) return attach_failure(pid, AttachCause::exited);
  // It may have executed another program, with more rights than the one that wrote to the file.
  if (!has_any_of_file(*maps, journal, file))
    return attach_failure(pid, AttachCause::exec_during_attach);
  if (std::any_of(own.sites.begin(), own.sites.end(), has_left))
    return_shared_sites(own, OtherSites::find(pid, child.memory(), *maps, file.path()),
                        child.memory());
  if (auto chosen = choose_scratch(pid, *maps, own); !chosen) return fail(chosen.error());
  auto created = create_session_file(*folder, child, *maps, own);
  if (!created) return fail(created.error());
  ForkedSession session = {*std::move(created), std::move(own)};
  copy_exec_handshake(file, session.file, session.journal.header);
  copy_texts(file, session.file, session.journal.header);
  const auto code = emitted_code(journal);
  const auto is_inside = [&](const target::StoppedThread& thread) {
    return std::any_of(code.begin(), code.end(),
                       [&](Range range) { return range.contains(thread.instruction_pointer()); });
  };
  const auto busy = [&] { return fail(ledger::SessionError(ledger::Busy{pid})); };
  const auto replace = [&](target::HijackedThread& thread) -> Result<void, ledger::SessionError> {
    if (is_inside({thread.tid(), thread.registers()})) return busy();
    return MemoryMapping({child, session.file, session.journal, thread}, Children::count)
        .replace_file();
  };
  // A thread may be in a handler of a signal that came while it was recording.
  const bool records = records_by_several_instructions(journal);
  const auto none_records = [&](target::Stop& stop) -> Result<void, ledger::SessionError> {
    if (!records) return {};
    for (const target::StoppedThread& thread : stop.threads())
      if (is_inside(thread) || patch::signal_returns_to(*maps, child.memory(), thread, code))
        return busy();
    return {};
  };
  auto replaced =
      with_hijacked_thread(child, image, session.file, session.journal, replace, none_records);
  const bool is_untouched =
      session.journal.header.hijack.active == 0 && !has_session(pid, session.file);
  if (!replaced && std::holds_alternative<target::AttachError>(replaced.error()) && !records &&
      is_untouched)
    replaced = with_hijacked_thread(child, image, session.file, session.journal, replace);
  if (replaced) return session;
  // If its parent's file is still the one that the child has. Otherwise the thread of the child
  // went on by itself when it had mapped its own: that one says what is there.
  if (session.journal.header.hijack.active == 0 && !has_session(pid, session.file))
    session.file.remove();
  return fail(replaced.error());
}

bool has_session(pid_t pid, const ledger::SessionFile& file) {
  struct stat there = {};
  const auto maps = image::read_maps(pid);
  return maps && ::fstat(file.descriptor(), &there) == 0 &&
         std::any_of(maps->begin(), maps->end(), [&](const image::Mapping& mapping) {
           return ledger::is_mapping_of_session(mapping, there.st_ino);
         });
}

std::vector<pid_t> processes_with(const ledger::SessionFile& file) {
  std::vector<pid_t> all;
  if (!file.has_other_users()) return all;
  const std::string name = file.path().substr(file.path().rfind('/'));
  for (const pid_t pid : target::all_processes()) {
    const auto maps = read_process_file(pid, "maps");
    if (maps && maps->find(name) != maps->npos && has_session(pid, file) &&
        ledger::is_trusted(file, pid) && !target::shares_memory_with_parent(pid))
      all.push_back(pid);
  }
  return all;
}

namespace {

enum class Outcome : uint8_t {
  taken_out,
  left,
  later,
  executes,  // another program, as we follow it there
};

// Puts the text back, so that threads which are in our code all the time come out of it. If we die
// then, the process has its parent's file as before; a later look finds the text as it is to be.
void restore_text(const target::RemoteTarget& child, const image::ProcessImage& image,
                  const layout::Session& parent, const ledger::SessionFile& file) {
  const auto turn = ledger::Turn::take(child.pid());
  if (!turn) return;
  layout::Session journal = journal_for(child, parent);
  const OtherSites others = OtherSites::find(child.pid(), child.memory(), file.path());
  if (std::any_of(journal.sites.begin(), journal.sites.end(), has_left))
    return_shared_sites(journal, others, child.memory());
  Restoring text(child, image, journal, others, Armed::perhaps_partly);
  auto stop = target::Stop::all_threads(child.pid());
  if (!stop || !child.same_image()) return;
  DisarmReport report;  // that of the detach which follows counts
  static_cast<void>(text.restore(*stop, report));
}

Outcome take_out_of(pid_t pid, const ledger::SessionFile& file, const layout::Session& journal,
                    const image::ProcessImage* image, uint64_t timeout_ns, bool was_busy,
                    DisarmReport& report) {
  // One that could not be stopped before is traced by us, too, until it comes out of the kernel.
  target::Stop::settle();
  if (target::Stop::keeps_any_of(pid)) return Outcome::later;
  const auto status = target::read_status(pid);
  if (status && status->tracer == ::getpid()) return Outcome::executes;
  const auto child = target::RemoteTarget::open(pid);
  if (!child) return has_session(pid, file) ? Outcome::left : Outcome::taken_out;
  // Its number may be another process's by now.
  if (!ledger::is_trusted(file, pid)) return Outcome::taken_out;
  std::optional<image::ProcessImage> own;
  if (image == nullptr) {
    const auto others = std::make_shared<const OtherSites>(OtherSites::find(pid, child->memory()));
    auto loaded = image::load_process(pid, reader_without_jumps(others, *child));
    if (!loaded) return child->is_over() ? Outcome::taken_out : Outcome::left;
    image = &own.emplace(*std::move(loaded));
  }
  auto session = fork_session(*child, *image, journal, file);
  if (!session) {
    if (child->is_over()) return Outcome::taken_out;
    if (!std::holds_alternative<ledger::Busy>(session.error())) return Outcome::left;
    if (!was_busy) restore_text(*child, *image, journal, file);
    return Outcome::later;
  }
  const auto disarmed = disarm(*child, *image, session->file, session->journal, timeout_ns);
  if (!disarmed) return Outcome::left;
  report.foreign += disarmed->foreign;
  report.memory_left = report.memory_left || disarmed->memory_left;
  report.forked += disarmed->forked;
  report.forked_left += disarmed->forked_left;
  if (!disarmed->target_gone) ++report.forked;
  return Outcome::taken_out;
}

// Does a thread of the process wait in a hook until it is followed into another program? Then it
// stays in our code until then.
bool waits_to_execute(pid_t pid, const ledger::SessionFile& file,
                      const layout::FileHeader& header) {
  layout::ExecHandshake handshake;
  if (header.exec_handshake_offset == 0 ||
      !read_at(file.descriptor(), {reinterpret_cast<uint8_t*>(&handshake), sizeof handshake},
               header.exec_handshake_offset))
    return false;
  const auto threads = target::list_threads(pid);
  return std::any_of(threads.begin(), threads.end(), [&](pid_t tid) {
    const auto inside = static_cast<uint32_t>(target::tid_inside(pid, tid));
    return std::any_of(std::begin(handshake.slots), std::end(handshake.slots),
                       [&](const layout::ExecSlot& slot) {
                         return slot.state != layout::ExecSlot::free && slot.tid == inside;
                       });
  });
}

}  // namespace

// They may fork meanwhile: until a look finds no new one.
void take_out_of_forked(const ledger::SessionFile& file, const layout::Session& journal,
                        const image::ProcessImage* image, uint64_t timeout_ns,
                        DisarmReport& report) {
  constexpr uint64_t kPauseNs = 1'000'000, kShortNs = 10'000'000;
  const pid_t self = journal.header.pid;
  std::map<pid_t, uint64_t> busy_since_ns;
  std::set<pid_t> left, executing;
  std::set<std::pair<pid_t, uint64_t>> taken_out;
  for (bool again = true; again;) {
    again = false;
    for (const pid_t pid : processes_with(file)) {
      // Where memory of the session had to stay, a later detach looks.
      if (pid == self || left.contains(pid) || executing.contains(pid)) continue;
      const auto status = target::read_status(pid);
      if (!status) continue;
      const std::pair process = {pid, status->start_time};
      // It has mapped the file once more by itself.
      if (taken_out.contains(process)) continue;
      Outcome outcome =
          take_out_of(pid, file, journal, image, timeout_ns, busy_since_ns.contains(pid), report);
      if (outcome == Outcome::later) {
        const uint64_t now_ns = monotonic_ns();
        const uint64_t waited_ns = now_ns - busy_since_ns.try_emplace(pid, now_ns).first->second;
        if (waited_ns >= std::min(kShortNs, timeout_ns) &&
            waits_to_execute(pid, file, journal.header))
          outcome = Outcome::executes;
        else if (waited_ns >= timeout_ns)
          outcome = Outcome::left;
      }
      again = true;
      if (outcome == Outcome::taken_out) taken_out.insert(process);
      if (outcome == Outcome::left) left.insert(pid);
      if (outcome == Outcome::executes) executing.insert(pid);
      if (outcome == Outcome::later) sleep_ns(kPauseNs);
    }
  }
  report.forked_left += left.size();
}

}  // namespace pinprick::engine
