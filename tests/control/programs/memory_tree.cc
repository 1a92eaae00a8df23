// memory_tree FOLDER PIDS: mounts the statistics of no processes. Which PIDs there are, the names
// of the files in the folder PIDS say. Prints `mounted`, and `provided` when it has provided ten
// times.
#include <fmt/format.h>
#include <signal.h>
#include <sys/signalfd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/fd.h"
#include "control/memory_statistics.h"
#include "control/mounted_tree.h"

int main(int argc, char** argv) {
  using namespace pinprick;
  if (argc != 3) return 2;
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM}) sigaddset(&set, signal);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  const Fd signals(signalfd(-1, &set, SFD_CLOEXEC));

  control::MemoryProcesses processes([folder = argv[2]] {
    std::vector<pid_t> pids;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      pids.push_back(std::atoi(entry.path().filename().c_str()));
    return pids;
  });
  control::FileTree tree(processes, {}, [](const std::string& line) { fmt::print("{}\n", line); });
  auto mounted = control::MountedTree::mount(tree, argv[1], {});
  if (!mounted) {
    fmt::print("cause {} errno {} {}\n", static_cast<int>(mounted.error().cause),
               mounted.error().system_error, mounted.error().detail);
    return 1;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  fmt::print("mounted\n");
  (*mounted)->serve(signals.get(), [&] {
    processes.provide();
    if (processes.provided == 10) fmt::print("provided\n");
  });
}
