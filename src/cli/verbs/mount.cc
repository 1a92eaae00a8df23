// pinprick mount: the statistics of processes as files.
#include "cli/interrupts.h"
#include "cli/verbs/session_statistics.h"
#include "cli/verbs/verbs.h"
#include "control/mounted_tree.h"
#include "ledger/runtime_directory.h"
#include "target/stop.h"

namespace pinprick::cli {
int run_mount(const Options& options, Renderer& renderer) {
  // From here on no signal ends us with the folder mounted.
  Interrupts interrupts;
  const auto processes = session_statistics();
  for (pid_t pid : options.pids)
    if (const auto opened = processes->open(pid); !opened)
      return give_up(renderer, message(pid, opened.error()));
  control::FileTree tree(*processes, options.pids, [&](const std::string& line) {
    renderer.warning(line);
    renderer.flush();
  });
  const auto mounted =
      control::MountedTree::mount(tree, options.folder, ledger::searched_folders());
  if (!mounted) return give_up(renderer, message(mounted.error()));
  renderer.mounted(options.folder);
  renderer.flush();
  (*mounted)->serve(interrupts.descriptor(), [&] {
    // A thread that did not stop for a command stops when it comes out of the kernel.
    target::Stop::settle();
    processes->provide();
  });
  return renderer.is_broken() ? kFailed : kOk;
}

}  // namespace pinprick::cli
