// The seccomp filters of a stopped thread, and what they would say to a system call.
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

// What the kernel gets from one filter, a program of classic BPF: an action, SECCOMP_RET_*, and its
// data. What is no program that the kernel would have taken kills, to be safe. Pure.
uint32_t run_seccomp_filter(std::span<const sock_filter> program, const seccomp_data& call);

class SeccompFilters {
 public:
  // Of a thread that we trace. Takes CAP_SYS_ADMIN; fails also where we are under a filter.
  static Result<SeccompFilters, SystemError> read(pid_t tid);

  bool empty() const { return programs_.empty(); }
  // The strictest answer of all filters, without its data.
  uint32_t action(const seccomp_data& call) const;

 private:
  std::vector<std::vector<sock_filter>> programs_;
};

}  // namespace pinprick::target
