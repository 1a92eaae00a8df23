// pinprick leaks: measures as `trace` does, and shows what was allocated and not freed.
#include "cli/measure/leak_patterns.h"
#include "cli/verbs/verbs.h"

namespace pinprick::cli {

// A forked child has copies of its parent's blocks, at the same addresses: what it frees is not
// freed in its parent.
int run_leaks(const Options& options, Renderer& renderer) {
  auto patterns = leak_patterns(options);
  if (!patterns) return give_up(renderer, patterns.error());
  Options own = options;
  own.patterns = *std::move(patterns);
  own.count_children = false;
  // No process has all functions of the family.
  if (own.allocators.empty()) own.allow_missing = true;
  own.stack_frames = 0;  // frees need no stack
  return run_watch(own, renderer);
}

}  // namespace pinprick::cli
