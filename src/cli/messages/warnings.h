// Texts of warnings: what a measurement lacks, or may do, and what to do about it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/messages/messages.h"
#include "compare/run.h"
#include "layout/losses.h"
#include "session/lock_waits.h"
#include "session/measurement.h"

namespace pinprick::cli::warning {

std::string events_not_printed(size_t events);
// The rest of a recording, as its reader takes nothing.
std::string recording_not_written();
// The recording has no end, as what has written it was killed, or still does.
std::string recording_without_end();
// Hits and calls that the figures of the file `path` lack; nullopt if none are known to be missing.
std::optional<std::string> figures_lack(const std::string& path, const layout::Losses& losses);
// report: calls by paths that there was no room for.
std::string paths_left_out(uint64_t calls);
// report --graph: functions that the pattern names besides.
std::string graphs_left_out(size_t functions);
// The newest events of a recorder that was killed are in the process, or were there until they were
// thrown away with its probes.
std::string events_left(const session::ProcessName& process, pid_t recorder);
std::string events_thrown_away(const session::ProcessName& process, pid_t recorder);
// --collect: the rings have so many events that fit none of the probes.
std::string strange_events(uint64_t events);
// The trace has ended without a hit of --until.
std::string never_triggered();

std::string unseen(const session::UnseenCode& code);
std::string may_unwind_elsewhere(const std::string& command);
std::string code_unfinished(const std::string& command, const std::string& object);
std::string load_missed(const Message& why);
// With --once, while probes that were hit cannot be taken out.
std::string removal_failed(pid_t pid, const Message& why);
// At the end, when the probes could not be taken out.
Message probes_stay(pid_t pid, Message why);
std::string load_timed_out(const std::string& command);
// For calls that were missed for lack of memory for their histograms.
std::string calls_refused(uint64_t calls);
std::string executions_not_followed(uint64_t executions);
// For processes that are left alone since `limit` descriptors are not enough.
std::string no_descriptors(uint64_t limit);
// serve: at an address that is not this machine's alone.
std::string reachable_by_others(const std::string& address);
// For hits that cannot read what pointers lead to.
std::string no_reads(const session::ProcessName& process, engine::ReadObstacle why);
std::string slow_reads(const session::ProcessName& process, engine::SlowReads why);
// With --trap: why the kernel counts nothing, and so what no jump fits is left out.
std::string no_breakpoints(const SystemError& error);
std::string executed(const std::string& command, const session::ExecutedProgram& program);

// leaks: some frees may be among the events that were dropped, while one of `sample` blocks was
// followed.
std::string frees_dropped(uint64_t events, uint32_t sample);
// leaks: no function that frees is probed.
std::string nothing_frees();
std::string no_room_for_blocks(uint64_t blocks);
std::string blocks_reused(uint64_t blocks);
// locks: of events that are not there, or do not fit together.
std::string lock_events_dropped(uint64_t events);
std::string no_room_for_locks(uint64_t events);
std::string releases_unseen(uint64_t releases);
std::string no_room_for_lock_stacks(uint64_t events);
std::string no_room_for_lock_orders(uint64_t events);
// locks: the threads of the ring wait for one another.
std::string deadlock(const session::LockWaits& waits, const std::vector<size_t>& ring);
// locks: no function that releases is probed.
std::string nothing_releases();
// diff: what the figures of a file lack.
std::vector<std::string> shortfalls_of(const compare::Run& run);
std::string different_bits();

}  // namespace pinprick::cli::warning
