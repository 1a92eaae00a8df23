#include "target/exec_catcher.h"

#include <elf.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <string>
#include <utility>

#include "arch/registers.h"
#include "arch/syscall.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/process_folder.h"
#include "image/process.h"
#include "target/memory.h"
#include "target/procfs.h"
#include "target/ptrace_data.h"
#include "target/stop.h"
#include "target/thread_registers.h"

namespace pinprick::target {
namespace {

// Has the addresses at which the kernel has put a program, which it chooses anew for each.
std::string auxiliary_vector(pid_t pid) {
  auto text = read_process_file(pid, "auxv");
  return text ? *std::move(text) : std::string();
}

// Is the thread at the first instruction of the loader, or of a program without one?
bool is_at_start(pid_t pid) {
  arch::Registers registers;
  if (!read_registers(pid, registers)) return false;
  const auto auxiliary = image::AuxiliaryVector::read(pid);
  Address first = auxiliary.value(AT_ENTRY);
  if (const Address loader = auxiliary.value(AT_BASE); loader != 0) {
    const auto memory = Memory::open(pid);
    Elf64_Ehdr header = {};
    if (!memory || !memory->read_value(loader, header)) return false;
    first = loader + header.e_entry;
  }
  return arch::instruction_pointer(registers) == first;
}

// Has the loader not set up the thread yet? glibc's does so when all libraries are mapped, before
// it relocates any.
bool starts_now(pid_t tid) {
  arch::Registers registers;
  return read_registers(tid, registers) && arch::thread_pointer(registers) == 0;
}

}  // namespace

// By the name of the tracer's thread, which any process may give itself: it decides only whether we
// wait for it.
bool ExecCatcher::is_traced_by_pinprick(const Followed& one) {
  const auto status = read_thread_status(one.pid, one.tid);
  if (!status || status->tracer == 0) return false;
  const auto name = read_file(process_folder(status->tracer) + "/comm");
  return name && *name == "pinprick\n";
}

ExecCatcher::~ExecCatcher() {
  constexpr uint64_t kMostNs = 2'000'000'000, kPauseNs = 100'000;
  for (const uint64_t begin = monotonic_ns();
       !followed_.empty() && monotonic_ns() - begin < kMostNs; sleep_ns(kPauseNs)) {
    std::optional<Caught> caught;  // let go at once
    std::erase_if(followed_, [&](Followed& one) {
      const bool is_over = look_at(one, caught);
      caught.reset();
      return is_over;
    });
  }
  for (const Followed& one : followed_) {
    // Another pinprick's, which we wait for.
    if (one.awaits_since_ns != 0 && !one.is_ours) continue;
    ::ptrace(PTRACE_INTERRUPT, one.tid, nullptr, nullptr);
    Stop::let_go_of(one.pid, one.tid);
  }
}

void ExecCatcher::take_requests() {
  while (const auto request = gate_.request()) {
    const pid_t pid = process_of(request->tid);
    if (pid == 0 || !wants_(pid)) {
      gate_.answer(request->number);
      continue;
    }
    const std::string before = auxiliary_vector(pid);
    // A loader is held without a lock that PTRACE_SEIZE wants, so it can wait for us.
    const bool executes = request->step == ExecGate::Step::executes;
    if (executes) gate_.began_to_seize(*request);
    const int events = executes ? PTRACE_O_TRACEEXEC : 0;
    Followed one;
    one.pid = pid;
    one.tid = request->tid;
    one.auxiliary_vector = before;
    one.step = request->step;
    if (ptrace(PTRACE_SEIZE, request->tid, nullptr, ptrace_data(PTRACE_O_TRACESYSGOOD | events)) ==
        0) {
      // If the execution fails, this stops the thread in its old program.
      ptrace(PTRACE_INTERRUPT, request->tid, nullptr, nullptr);
      followed_.push_back(std::move(one));
    } else if (const int error = errno; error == EPERM && is_traced_by_pinprick(one)) {
      one.awaits_since_ns = monotonic_ns();
      followed_.push_back(std::move(one));
    } else if (error != ESRCH) {
      ++refused_[error];
    } else if (!gate_.answer(request->number)) {
      ++missed_;
      continue;
    }
    gate_.answer(request->number);
  }
}

ExecCatcher::Caught ExecCatcher::caught(const Followed& one, bool at_start) const {
  ptrace(PTRACE_SETOPTIONS, one.tid, nullptr, ptrace_data(PTRACE_O_TRACESYSGOOD));
  return {HeldThread(one.pid, one.tid), at_start, one.step == ExecGate::Step::loads};
}

// Another pinprick that follows the same file has been asked first. The thread is let through to
// it, and is ours when it has armed the program.
bool ExecCatcher::await_turn(Followed& one, std::optional<Caught>& caught_now) {
  constexpr uint64_t kMostNs = 2'000'000'000;
  if (one.is_ours) {
    int status = 0;
    const pid_t waited = ::waitpid(one.tid, &status, __WALL | WNOHANG);
    if (waited == 0) return false;
    if (waited < 0 || !WIFSTOPPED(status)) {
      ++refused_[EPERM];  // the other one's program has ended before it was ours
      return true;
    }
    if (status >> 16 != PTRACE_EVENT_STOP) {
      ptrace(PTRACE_CONT, one.tid, nullptr,
             ptrace_data(status >> 16 == 0 ? WSTOPSIG(status) & 0x7f : 0));
      return false;
    }
    if (is_one_(one.pid) &&
        (one.step != ExecGate::Step::executes || auxiliary_vector(one.pid) != one.auxiliary_vector))
      caught_now.emplace(caught(one, false));
    else
      Stop::let_go_of(one.pid, one.tid);
    return true;
  }
  if (is_traced_by_pinprick(one) && monotonic_ns() - one.awaits_since_ns < kMostNs) return false;
  // A thread that has executed a program has the first thread's number.
  if (one.step == ExecGate::Step::executes) one.tid = one.pid;
  if (ptrace(PTRACE_SEIZE, one.tid, nullptr, ptrace_data(PTRACE_O_TRACESYSGOOD)) != 0) {
    ++refused_[EPERM];
    return true;
  }
  ptrace(PTRACE_INTERRUPT, one.tid, nullptr, nullptr);
  one.is_ours = true;
  return false;
}

bool ExecCatcher::look_at(Followed& one, std::optional<Caught>& caught_now) {
  if (one.awaits_since_ns != 0) return await_turn(one, caught_now);
  int status = 0;
  pid_t waited = ::waitpid(one.tid, &status, __WALL | WNOHANG);
  if (waited < 0 && one.tid != one.pid && one.step == ExecGate::Step::executes) {
    // A thread that executes a program has the first thread's number from then on.
    one.tid = one.pid;
    waited = ::waitpid(one.tid, &status, __WALL | WNOHANG);
  }
  if (waited == 0) return false;
  if (waited < 0 || !WIFSTOPPED(status)) return true;
  if (one.step == ExecGate::Step::loads) return look_at_loader(one, status, caught_now);
  switch (status >> 16) {
    case PTRACE_EVENT_EXEC:
      one.has_executed = true;
      ptrace(PTRACE_INTERRUPT, one.tid, nullptr, nullptr);
      ptrace(PTRACE_CONT, one.tid, nullptr, nullptr);
      return false;
    case PTRACE_EVENT_STOP:
      if (one.step == ExecGate::Step::starts) {
        // Otherwise the program runs, and loads something.
        if (starts_now(one.tid))
          caught_now.emplace(caught(one, true));
        else
          Stop::let_go_of(one.pid, one.tid);
      } else if (one.has_executed ||
                 (is_one_(one.pid) && auxiliary_vector(one.pid) != one.auxiliary_vector))
        caught_now.emplace(caught(one, one.has_executed || is_at_start(one.pid)));
      else
        Stop::let_go_of(one.pid, one.tid);
      return true;
    default:
      break;
  }
  // A signal for the program.
  ptrace(PTRACE_CONT, one.tid, nullptr,
         ptrace_data(status >> 16 == 0 ? WSTOPSIG(status) & 0x7f : 0));
  return false;
}

bool ExecCatcher::look_at_loader(Followed& one, int status, std::optional<Caught>& caught_now) {
  constexpr int kMostStops = 60;
  const auto let_go = [&] {
    Stop::let_go_of(one.pid, one.tid);
    return true;
  };
  long signal = 0;
  if (status >> 16 == PTRACE_EVENT_STOP) {
    if (one.has_mapped) {
      caught_now.emplace(caught(one, true));
      return true;
    }
    arch::Registers registers;
    if (one.descriptor < 0) {
      if (!read_registers(one.tid, registers)) return let_go();
      one.descriptor = static_cast<int>(arch::syscall_result(registers));
      if (one.descriptor < 0) return let_go();
    }
  } else if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
    __ptrace_syscall_info info = {};
    if (++one.stops > kMostStops ||
        ptrace(PTRACE_GET_SYSCALL_INFO, one.tid, ptrace_data(sizeof info), &info) <= 0)
      return let_go();
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
      const auto& arguments = info.entry.args;
      if (info.entry.nr == SYS_close && static_cast<int>(arguments[0]) == one.descriptor)
        return let_go();
      one.maps_now = info.entry.nr == SYS_mmap && (arguments[2] & PROT_EXEC) != 0 &&
                     (arguments[3] & MAP_ANONYMOUS) == 0 &&
                     static_cast<int>(arguments[4]) == one.descriptor;
    } else if (one.maps_now && info.exit.is_error == 0) {
      one.has_mapped = true;
      ptrace(PTRACE_INTERRUPT, one.tid, nullptr, nullptr);
    }
  } else if (status >> 16 == 0) {
    signal = WSTOPSIG(status);
  }
  const auto how = one.has_mapped ? PTRACE_CONT : PTRACE_SYSCALL;
  ptrace(how, one.tid, nullptr, ptrace_data(signal));
  return false;
}

std::optional<ExecCatcher::Caught> ExecCatcher::next(Requests requests) {
  constexpr uint64_t kMostNs = 5'000'000, kPauseNs = 20'000;
  std::optional<Caught> caught;
  for (const uint64_t begin = monotonic_ns();;) {
    if (requests == Requests::taken) take_requests();
    for (auto one = followed_.begin(); one != followed_.end() && !caught;)
      one = look_at(*one, caught) ? followed_.erase(one) : one + 1;
    // What was just let through arrives in a moment.
    if (caught || followed_.empty() || monotonic_ns() - begin > kMostNs) return caught;
    sleep_ns(kPauseNs);
  }
}

}  // namespace pinprick::target
