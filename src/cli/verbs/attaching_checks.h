// The checks of doctor that say whether this user may attach to processes here, and to which ones.
//
// For a program with one thread: check_attaching() forks. Each check returns a finding, whatever is
// missing, /proc or /sys for example. No process but a child of this one is stopped or changed.
#pragma once

#include "cli/render/renderer.h"
#include "cli/verbs/probeable.h"

namespace pinprick::cli {

// Stops a child and writes its code through /proc, which is all that attaching needs.
CheckRow check_attaching();
CheckRow check_ptrace_scope();
CheckRow check_processes(const VisibleProcesses& visible);

}  // namespace pinprick::cli
