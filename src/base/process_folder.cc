#include "base/process_folder.h"

#include <dirent.h>

#include <cstdlib>
#include <memory>

#include "base/fd.h"

namespace pinprick {
namespace {

// A thread that has ended is a zombie until it is reaped; it loses its memory shortly before.
bool has_ended(const std::string& folder) {
  const auto stat = read_proc_record(folder + "/stat");
  if (!stat) return true;
  // pid (command) state ...: the command may contain blanks and parentheses.
  const size_t close = stat->rfind(')');
  if (close == stat->npos || close + 2 >= stat->size()) return true;
  const char state = (*stat)[close + 2];
  return state == 'Z' || state == 'X';
}

// A quicker look than the one above, for most processes: the kernel shows no program of a thread
// that has lost its memory.
bool has_program(const std::string& folder) {
  char path[1];
  return ::readlink((folder + "/exe").c_str(), path, sizeof path) > 0;
}

// The names in the folder that are numbers.
std::vector<int> numbers_in(const std::string& path) {
  std::vector<int> numbers;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), &::closedir);
  if (!folder) return numbers;
  while (const dirent* entry = ::readdir(folder.get()))
    if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
      numbers.push_back(static_cast<int>(std::strtol(entry->d_name, nullptr, 10)));
  return numbers;
}

}  // namespace

std::vector<pid_t> thread_numbers(pid_t pid) {
  return numbers_in("/proc/" + std::to_string(pid) + "/task");
}

std::vector<int> descriptor_numbers(pid_t pid) {
  return numbers_in(process_folder(pid) + "/fd");
}

Result<std::string, SystemError> read_process_file(pid_t pid, const char* name) {
  auto text = read_proc("/proc/" + std::to_string(pid) + "/" + name);
  if (text && text->empty()) return read_proc(process_folder(pid) + "/" + name);
  return text;
}

std::string process_folder(pid_t pid) {
  std::string first = "/proc/" + std::to_string(pid);
  if (has_program(first) || !has_ended(first)) return first;
  for (pid_t tid : thread_numbers(pid)) {
    std::string folder = first + "/task/" + std::to_string(tid);
    if (tid != pid && !has_ended(folder)) return folder;
  }
  return first;
}

}  // namespace pinprick
