#include "survive/footprint.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/clock.h"
#include "base/fd.h"
#include "target/procfs.h"

namespace pinprick::survive {
namespace {

std::string folder_of(pid_t pid) {
  return "/proc/" + std::to_string(pid);
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// The value of `name:` in a status file.
std::string status_field(const std::string& folder, const std::string& name) {
  for (const std::string& line : lines_of(folder + "/status"))
    if (line.starts_with(name + ":")) {
      const size_t value = line.find_first_not_of(" \t", name.size() + 1);
      return value == line.npos ? "" : line.substr(value);
    }
  return "";
}

std::vector<uint8_t> memory_of(pid_t pid, const std::string& maps_line) {
  unsigned long begin = 0, end = 0;
  std::sscanf(maps_line.c_str(), "%lx-%lx", &begin, &end);
  std::vector<uint8_t> bytes(end - begin);
  auto memory = open_file(folder_of(pid) + "/mem", O_RDONLY);
  if (!memory || !read_at(memory->get(), bytes, begin)) bytes.clear();
  return bytes;
}

bool is_file_text(const std::string& maps_line) {
  return maps_line.find(" r-xp ") != maps_line.npos && maps_line.find('/') != maps_line.npos;
}

template <class Map, class Print>
void compare(const Map& before, const Map& after, const char* what, Print&& print,
             std::ostringstream& out) {
  for (const auto& [key, value] : before) {
    const auto now = after.find(key);
    if (now == after.end())
      out << what << " gone: " << key << "\n";
    else if (now->second != value)
      out << what << " changed: " << key << " " << print(value, now->second) << "\n";
  }
  for (const auto& [key, value] : after)
    if (!before.contains(key)) out << what << " new: " << key << " " << print(value, value) << "\n";
}

std::string first_difference(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  const auto at = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  char text[64];
  std::snprintf(text, sizeof text, "at +0x%zx", static_cast<size_t>(at.first - a.begin()));
  return text;
}

}  // namespace

Footprint footprint_of(pid_t pid) {
  Footprint footprint;
  footprint.maps = lines_of(folder_of(pid) + "/maps");
  for (const std::string& line : footprint.maps)
    if (is_file_text(line)) footprint.text[line] = memory_of(pid, line);
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder_of(pid) + "/fd", ignored))
    footprint.descriptors[entry.path().filename()] =
        std::filesystem::read_symlink(entry.path(), ignored);
  for (pid_t tid : target::list_threads(pid))
    footprint.signals_blocked[tid] =
        status_field(folder_of(pid) + "/task/" + std::to_string(tid), "SigBlk");
  footprint.resident_kib =
      std::strtoull(status_field(folder_of(pid), "VmRSS").c_str(), nullptr, 10);
  return footprint;
}

std::string differences(const Footprint& before, const Footprint& after) {
  std::ostringstream out;
  const auto both = [](const std::string& a, const std::string& b) {
    return a == b ? a : a + " -> " + b;
  };
  for (const std::string& line : before.maps)
    if (std::find(after.maps.begin(), after.maps.end(), line) == after.maps.end())
      out << "mapping gone: " << line << "\n";
  for (const std::string& line : after.maps)
    if (std::find(before.maps.begin(), before.maps.end(), line) == before.maps.end())
      out << "mapping new: " << line << "\n";
  compare(before.text, after.text, "text", first_difference, out);
  compare(before.descriptors, after.descriptors, "descriptor", both, out);
  compare(before.signals_blocked, after.signals_blocked, "signal mask of thread", both, out);
  return out.str();
}

bool comes_to_stand(pid_t pid) {
  constexpr uint64_t kTimeoutNs = 10'000'000'000;
  for (const uint64_t begin = monotonic_ns(); monotonic_ns() - begin < kTimeoutNs; sched_yield())
    if (const auto status = target::read_status(pid); status && status->state == 'T') return true;
  return false;
}

int traced_threads(pid_t pid) {
  int traced = 0;
  for (pid_t tid : target::list_threads(pid)) {
    const auto status = target::read_thread_status(pid, tid);
    if (status && status->tracer != 0) ++traced;
  }
  return traced;
}

}  // namespace pinprick::survive
