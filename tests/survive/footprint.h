// The state of a process that must be the same after pinprick was there.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace pinprick::survive {

struct Footprint {
  std::vector<std::string> maps;                     // lines of /proc/PID/maps
  std::map<std::string, std::vector<uint8_t>> text;  // executable mappings of files, by maps line
  std::map<std::string, std::string> descriptors;    // by number, where it leads
  std::map<pid_t, std::string> signals_blocked;      // by thread
  uint64_t resident_kib = 0;
};

Footprint footprint_of(pid_t pid);

// Returns a line for each difference. Resident memory is not compared.
std::string differences(const Footprint& before, const Footprint& after);

// Is it in a group stop, or will it be at once, as its tracer has just ended?
bool comes_to_stand(pid_t pid);
// The threads that are traced.
int traced_threads(pid_t pid);

}  // namespace pinprick::survive
