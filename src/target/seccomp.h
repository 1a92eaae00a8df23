// The seccomp filters of a stopped thread, and what they would do about a system call.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/types.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace pinprick::target {

// Runs one filter, a program of classic BPF, as the kernel would. Returns its result: an action,
// SECCOMP_RET_*, and the action's data. If the kernel would not have accepted the program, the
// result is the safest one, that the filter kills. Pure.
uint32_t run_seccomp_filter(std::span<const sock_filter> program, const seccomp_data& call);

class SeccompFilters {
 public:
  // Reads the filters of a thread that we trace. Needs CAP_SYS_ADMIN; also fails if we are under a
  // filter ourselves.
  static Result<SeccompFilters, SystemError> read(pid_t tid);

  bool empty() const { return programs_.empty(); }
  // The strictest action of all filters, without its data.
  uint32_t action(const seccomp_data& call) const;

 private:
  std::vector<std::vector<sock_filter>> programs_;
};

}  // namespace pinprick::target
