#include "ledger/discovery.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/machine.h"
#include "base/process_folder.h"
#include "image/maps.h"
#include "ledger/runtime_directory.h"
#include "patch/text_owner.h"
#include "target/procfs.h"

namespace pinprick::ledger {
namespace {

bool is_of_this_boot(const layout::FileHeader& header) {
  return std::string_view(header.boot_id, sizeof header.boot_id).substr(0, 31) ==
         std::string_view(boot_id()).substr(0, 31);
}

// May the file have the figures of a statistic, or the newest events of a recorder that was killed?
// One that another version of pinprick made may: that version can still show them. A file that
// makes no sense to its own version has none.
bool may_be_kept(const std::string& path) {
  const auto file = SessionFile::open(path, SessionFile::Lock::none);
  if (!file) return true;
  const auto journal = file->read();
  if (journal)
    return journal->header.is_kept != 0 || (journal->header.event_log2 != 0 &&
                                            journal->header.rings != layout::EventRings::oldest &&
                                            journal->header.state == layout::SessionState::armed);
  return journal.error().cause != FileError::Cause::not_a_session ||
         journal.error().parse_error == layout::ParseError::version;
}

// The processes that sessions name, each looked at once: one may have a thousand.
class LivingProcesses {
 public:
  bool has(const NamedProcess& process) {
    const auto [known, is_new] = known_.try_emplace({process.pid, process.start_time});
    if (!is_new) return known->second;
    const auto status = target::read_status(process.pid);
    known->second = status && status->start_time == process.start_time && status->state != 'Z' &&
                    status->state != 'X';
    return known->second;
  }

 private:
  std::map<std::pair<pid_t, uint64_t>, bool> known_;
};

// Removes a file of this user's, in a folder of this user's, unless a process has it open or
// mapped. By the folder's descriptor: the path may lead somewhere else at any time.
void remove_unless_open(const std::string& path) {
  const size_t slash = path.rfind('/');
  const Fd folder(
      ::open(path.substr(0, slash).c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat there = {};
  if (!folder || ::fstat(folder.get(), &there) != 0 || there.st_uid != ::geteuid()) return;
  const char* const name = path.c_str() + slash + 1;
  const Fd file(::openat(folder.get(), name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  // The kernel grants the lease only if no other process has the file open. One who opens it while
  // we have the lease makes the kernel send a signal: not SIGIO, which would end us.
  if (file && ::fstat(file.get(), &there) == 0 && there.st_uid == ::geteuid() &&
      ::fcntl(file.get(), F_SETSIG, SIGURG) == 0 && ::fcntl(file.get(), F_SETLEASE, F_WRLCK) == 0)
    ::unlinkat(folder.get(), name, 0);
}

}  // namespace

// The kernel names the user that may write into the process as the owner of the process's files,
// but for its folders: those have the user that it runs as, also if it has more rights than that
// one.
bool is_trusted_user(uid_t user, pid_t pid) {
  if (user == 0 || user == ::geteuid()) return true;
  const auto owns = [&](const std::string& folder) {
    struct stat memory = {};
    return ::stat((folder + "/mem").c_str(), &memory) == 0 && user == memory.st_uid;
  };
  const std::string process = process_folder(pid);
  if (owns(process)) return true;
  // Once the first thread has ended, its files are root's.
  const auto threads = target::list_threads(pid);
  return std::any_of(threads.begin(), threads.end(), [&](pid_t thread) {
    return thread != pid && owns(fmt::format("{}/task/{}", process, thread));
  });
}

bool is_mapping_of_session(const image::Mapping& mapping, ino_t file) {
  return mapping.shared && mapping.inode == file &&
         mapping.path.find(layout::kFileSuffix) != mapping.path.npos;
}

bool is_trusted(const SessionFile& file, pid_t pid) {
  const auto owner = file.owner();
  return owner && is_trusted_user(*owner, pid);
}

namespace {

// The bytes of tables that are read of all files that other users have made: any user can make as
// many as it likes, and all are in memory at the same time. Those of ended processes, and of
// others.
constexpr uint64_t kMostOfEnded = uint64_t{64} << 20;
constexpr uint64_t kMostOfLiving = uint64_t{1} << 30;
// Reading the figures takes a call for each area, and one for each histogram after a reset.
constexpr uint64_t kMostHistogramsOfOthers = uint64_t{1} << 22;
// The counters of keys, of all areas together, are read as a whole.
constexpr uint64_t kMostKeysOfOthers = uint64_t{1} << 28;

bool has_too_many_areas(const layout::FileHeader& header) {
  return header.cpu_count > std::min(possible_cpus(), layout::kMaxCpus) ||
         header.histogram_count > kMostHistogramsOfOthers / (uint64_t{header.cpu_count} + 1) ||
         layout::key_count(header) > kMostKeysOfOthers / (uint64_t{header.cpu_count} + 1);
}

// Which sessions are looked for. Nothing of other files is opened, or read.
struct Sought {
  std::optional<pid_t> pid;
  // The path of a file that is not read.
  std::string except;
  bool living = false;  // only those of a process that lives
  // Only those whose file the process has mapped, if these are not null.
  const std::vector<image::Mapping>* maps = nullptr;

  bool has_mapped(const struct stat& file) const {
    return maps == nullptr ||
           std::any_of(maps->begin(), maps->end(), [&](const image::Mapping& mapping) {
             return is_mapping_of_session(mapping, file.st_ino);
           });
  }
};

// Calls `take` with each session, and `note` with the error of each file that is left out.
template <typename Take, typename Note>
void for_each_session(const Sought& sought, const Take& take, const Note& note) {
  LivingProcesses living;
  // One file may have many names.
  std::set<std::pair<dev_t, ino_t>> seen;
  uint64_t left_of_ended = kMostOfEnded, left_of_living = kMostOfLiving;
  for (const std::string& path : find_session_files(sought.pid)) {
    if (path == sought.except) continue;
    const auto named = process_named(path);
    if (sought.living && named && !living.has(*named)) continue;
    auto file = SessionFile::open(path, SessionFile::Lock::none);
    if (!file) {
      note(file.error());
      continue;
    }
    struct stat there = {};
    if (::fstat(file->descriptor(), &there) != 0 || seen.contains({there.st_dev, there.st_ino}) ||
        !sought.has_mapped(there))
      continue;
    const auto untrusted = [&] { note(FileError{FileError::Cause::untrusted, path, 0, {}, 0}); };
    // Nothing of it is read then.
    if (!named || (living.has(*named) && !is_trusted(*file, named->pid))) {
      untrusted();
      continue;
    }
    const bool locked = file->is_locked();
    const bool is_others = there.st_uid != 0 && there.st_uid != ::geteuid();
    // Whose process it was that has ended cannot be found out any more: any user may have made that
    // file. Also one that makes no sense has to be read.
    uint64_t& left = living.has(*named) ? left_of_living : left_of_ended;
    auto journal = file->read(is_others ? left : UINT64_MAX);
    if (is_others)
      left -= std::min(
          left, journal ? journal->header.areas_offset : static_cast<uint64_t>(there.st_size));
    if (!journal) {
      if (is_others) seen.emplace(there.st_dev, there.st_ino);
      note(journal.error());
      continue;
    }
    const layout::FileHeader& header = journal->header;
    // What is looked for by the process's number must be of that process.
    if (!names_process(path, header.pid, header.start_time) ||
        (is_others && has_too_many_areas(header))) {
      untrusted();
      continue;
    }
    seen.emplace(there.st_dev, there.st_ino);
    const bool lives = is_of_this_boot(header) && living.has(*named);
    if (!lives && !locked && journal->header.state != layout::SessionState::armed) {
      // In another user's folder the name may mean another file by now.
      if (file->owner() == ::geteuid() && !file->has_other_users()) file->remove();
      continue;
    }
    take(FoundSession{*std::move(file), *std::move(journal), locked, lives});
  }
}

}  // namespace

FoundSessions find_sessions(std::optional<pid_t> pid, const std::string& except) {
  FoundSessions found;
  for_each_session(
      {pid, except, false, nullptr},
      [&](FoundSession session) { found.sessions.push_back(std::move(session)); },
      [&](FileError error) { found.unreadable.push_back(std::move(error)); });
  return found;
}

FoundJournals find_journals(pid_t pid, const std::string& except,
                            const std::vector<image::Mapping>* maps) {
  FoundJournals found;
  for_each_session(
      {pid, except, true, maps},
      [&](FoundSession session) {
        if (session.target_lives) found.journals.push_back(std::move(session.journal));
      },
      [&](FileError error) { found.unreadable.push_back(std::move(error)); });
  return found;
}

std::vector<FoundSession> find_inherited(pid_t pid, const std::vector<image::Mapping>& maps) {
  std::vector<FoundSession> found;
  for (const image::Mapping& mapping : maps) {
    if (!mapping.shared || mapping.writable || mapping.offset != 0) continue;
    const auto named = process_named(mapping.path);
    if (!named || named->pid == pid) continue;
    auto file = SessionFile::open(mapping.path, SessionFile::Lock::none);
    struct stat there = {};
    if (!file || ::fstat(file->descriptor(), &there) != 0 || there.st_ino != mapping.inode ||
        !is_trusted(*file, pid))
      continue;
    auto journal = file->read();
    if (!journal) continue;
    const bool locked = file->is_locked();
    found.push_back({*std::move(file), *std::move(journal), locked, true});
  }
  return found;
}

void remove_files_of_dead() {
  for (const std::string& path : find_session_files(std::nullopt)) {
    const auto named = process_named(path);
    if (!named) continue;
    const auto status = target::read_status(named->pid);
    if (status && status->start_time == named->start_time && status->state != 'Z' &&
        status->state != 'X')
      continue;
    // Others' files are not even read.
    struct stat there = {};
    if (::lstat(path.c_str(), &there) != 0 || there.st_uid != ::geteuid() || may_be_kept(path))
      continue;
    remove_unless_open(path);
  }
  // They have their names while they are mapped, from the start.
  for (const std::string& path : find_recorded_files(std::nullopt))
    if (process_named(path)) remove_unless_open(path);
}

namespace {

// The error of a file that is the process's by its name and its owner.
std::optional<FileError> unreadable_file(pid_t pid, const std::vector<FileError>& errors) {
  if (errors.empty()) return std::nullopt;
  const auto status = target::read_status(pid);
  for (const FileError& error : errors) {
    struct stat file = {};
    if (status && error.cause == FileError::Cause::not_a_session &&
        names_process(error.path, pid, status->start_time) &&
        ::lstat(error.path.c_str(), &file) == 0 && is_trusted_user(file.st_uid, pid))
      return error;
  }
  return std::nullopt;
}

}  // namespace

std::optional<SessionError> why_closed(pid_t pid) {
  const auto memory = target::Memory::open(pid);
  const auto maps = image::read_maps(pid);
  if (memory && maps) return why_closed(pid, *memory, *maps);
  const auto unreadable = unreadable_file(pid, find_journals(pid).unreadable);
  return unreadable ? std::optional(SessionError(*unreadable)) : std::nullopt;
}

std::optional<SessionError> why_closed(pid_t pid, const target::Memory& memory,
                                       const std::vector<image::Mapping>& maps) {
  const FoundJournals found = find_journals(pid);
  if (const auto unreadable = unreadable_file(pid, found.unreadable))
    return SessionError(*unreadable);
  if (patch::OwnProbes::read(memory, maps).is_closed())
    return SessionError(target::AttachError{target::AttachCause::probes_itself, pid, 0, 0, {}});
  for (const image::Mapping& mapping : maps)
    if (const auto header = patch::mapped_session(memory, mapping);
        header && header->pid == pid && header->state != layout::SessionState::disarmed &&
        std::none_of(found.journals.begin(), found.journals.end(),
                     [&](const layout::Session& known) {
                       return known.header.created_ns == header->created_ns &&
                              known.header.controller == header->controller;
                     }))
      return SessionError(Occupied{pid, header->controller});
  return std::nullopt;
}

std::vector<bool> taken_by_program(pid_t pid, std::span<const Range> windows) {
  std::vector<bool> taken(windows.size());
  const auto memory = target::Memory::open(pid);
  const auto maps = image::read_maps(pid);
  if (!memory || !maps) return taken;
  const auto own = patch::OwnProbes::read(*memory, *maps);
  std::transform(windows.begin(), windows.end(), taken.begin(),
                 [&](Range window) { return own.needs_any_of(window); });
  return taken;
}

std::vector<std::string> probes_of_program(pid_t pid) {
  std::vector<std::string> names;
  const auto memory = target::Memory::open(pid);
  const auto maps = image::read_maps(pid);
  if (!memory || !maps) return names;
  const auto own = patch::OwnProbes::read(*memory, *maps);
  for (const layout::OwnSite& site : own.sites()) {
    if (site.state != layout::OwnSite::State::in_use) continue;
    const std::string object = patch::name_of(*memory, site.object_name);
    const std::string name = site.name == 0 ? fmt::format("tracepoint at {:#x}", site.address)
                                            : patch::name_of(*memory, site.name);
    names.push_back(object.empty() ? name : fmt::format("{}:{}", object, name));
  }
  return names;
}

}  // namespace pinprick::ledger
