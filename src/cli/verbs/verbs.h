// The verbs. Each prints through the renderer and returns the exit status.
#pragma once

#include "cli/options.h"
#include "cli/render/renderer.h"

namespace pinprick::cli {

// Without a verb: what to type first.
int run_first_screen(const Options& options, Renderer& renderer);
int run_doctor(const Options& options, Renderer& renderer);
int run_list(const Options& options, Renderer& renderer);
// list --types.
int list_types(const Options& options, Renderer& renderer);
// count, latency and hist.
int run_watch(const Options& options, Renderer& renderer);
// The same with --dry-run: shows what would be probed.
int run_dry_run(const Options& options, Renderer& renderer);
// trace --collect: events that a recorder has left which was killed. Then its probes go.
int run_collect(const Options& options, Renderer& renderer);
// Returns the options with which they are shown as they were to be.
Options with_left_events(Options options);
// On a terminal a full screen; otherwise as run_watch().
int run_top(const Options& options, Renderer& renderer);
// Shows a recording. The options are those of with_recording().
int run_report(const Options& options, Renderer& renderer);
// Returns the options with which the recording's events are shown as they were to be when they were
// recorded; or these as they are if it cannot be read.
Options with_recording(Options options);
// leaks: events of allocations and frees, paired.
int run_leaks(const Options& options, Renderer& renderer);
// locks: events of locks that are taken and released, or with --now who waits for them.
int run_locks(const Options& options, Renderer& renderer);
int run_calls(const Options& options, Renderer& renderer);
int run_status(const Options& options, Renderer& renderer);
int run_detach(const Options& options, Renderer& renderer);
int run_keep(const Options& options, Renderer& renderer);
int run_kstats(const Options& options, Renderer& renderer);
int run_mount(const Options& options, Renderer& renderer);
// Two measurements that were made before.
int run_diff(const Options& options, Renderer& renderer);
int run_serve(const Options& options, Renderer& renderer);
int run_completion(const Options& options, Renderer& renderer);

// Prints the error, and returns its exit status.
inline int give_up(Renderer& renderer, const Message& message) {
  renderer.error(message);
  renderer.flush();
  return message.exit;
}

}  // namespace pinprick::cli
