// Starts programs, and says how long that takes until all have ended.
//
// Usage: spawn_target. Takes lines TIMES AT_ONCE PROGRAM [ARGUMENT...], and prints for each the
// nanoseconds; "failed" if a program did not end with status 0. Ends at the end of its input.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace {

bool wait_for_one() {
  int status = 0;
  return ::wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// What they print is of no interest.
bool run(int times, int at_once, std::vector<std::string>& words) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
  bool ended_well = true;
  int running = 0;
  for (int i = 0; i < times; ++i) {
    if (running == at_once) {
      ended_well = wait_for_one() && ended_well;
      --running;
    }
    pid_t pid = 0;
    if (::posix_spawnp(&pid, arguments[0], &files, nullptr, arguments.data(), ::environ) == 0)
      ++running;
    else
      ended_well = false;
  }
  for (; running > 0; --running) ended_well = wait_for_one() && ended_well;
  ::posix_spawn_file_actions_destroy(&files);
  return ended_well;
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream in(line);
    int times = 0, at_once = 0;
    in >> times >> at_once;
    std::vector<std::string> words;
    for (std::string word; in >> word;) words.push_back(word);
    const auto begin = std::chrono::steady_clock::now();
    const bool ended_well = !words.empty() && at_once > 0 && run(times, at_once, words);
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
    if (ended_well)
      std::printf("%lld\n", static_cast<long long>(took.count()));
    else
      std::puts("failed");
    std::fflush(stdout);
  }
}
