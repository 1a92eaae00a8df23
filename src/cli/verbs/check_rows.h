// What doctor says of each thing that it checks: the finding, and the remedy where there is one.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/render/renderer.h"

namespace pinprick::cli::check {

// `has_pidfds`: it has pidfd_open and pidfd_getfd. `is_recent`: it says where rseq areas are, too.
CheckRow kernel(const std::string& release, bool has_pidfds, bool is_recent);
// Attaching was tried on a child of doctor's own.
CheckRow no_child(int system_error);
CheckRow ptrace_refused(int system_error);
CheckRow text_not_writable();
CheckRow attaching_works();
// `scope` is nullopt without Yama.
CheckRow ptrace_scope(std::optional<long> scope, bool is_root);
CheckRow no_proc();
struct Processes {
  size_t probeable = 0;
  size_t others = 0;              // of those that are to be seen
  bool hides_others = false;      // /proc does not show the processes of other users
  bool may_trace_others = false;  // has CAP_SYS_PTRACE
  bool is_root = false;
};
CheckRow processes(const Processes& processes);
// `mounts` is the text of /proc/self/mounts: is /proc mounted with hidepid?
bool hides_processes(std::string_view mounts);
CheckRow clock(bool is_invariant, double hertz);
CheckRow restartable_sequences(uint32_t cpus, bool registered);
CheckRow no_runtime_folder(int system_error);
CheckRow runtime_folder(const std::string& path, bool is_tmpfs);
CheckRow breakpoints(const Result<void, SystemError>& available);
// `ns` is nullopt if executable memory is refused.
CheckRow probe_cost(std::optional<double> ns);
// To be added to the row of a process.
std::string unwinder_not_found();

}  // namespace pinprick::cli::check
