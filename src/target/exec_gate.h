// A gate at the execution of files. When a process executes one of them, by any name, the kernel
// holds the executing thread as it opens the file, until we answer (fanotify(7),
// FAN_OPEN_EXEC_PERM). This needs root.
//
// Each thread that is held must be let go in any case. So:
//   - One thread of ours, the answering thread, does nothing that can block. It takes and answers
//     events, and looks at a clock. It opens no file except in /proc, and prints nothing.
//   - The answering thread has a table of descriptors of its own, and takes no more events than fit
//     into it. The kernel denies an event for which it has no descriptor, and the execution fails.
//   - It answers each event that the user of the gate has not answered in time.
//   - If we die, the kernel lets all threads go, unless another process has the descriptor. So we
//     must not fork after open().
//   - If we are stopped (by a debugger, or SIGSTOP), we hold all these threads. Then a timer of the
//     kernel's kills us, because the answering thread has to set it anew within a second. That
//     thread has a real-time priority if the system permits, so load does not delay it.
//
// request(), began_to_seize() and answer() are to be called by one thread of ours, whichever it is.
#pragma once

#include <sys/fanotify.h>
#include <sys/types.h>
#include <time.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace pinprick::target {

class ExecGate {
 public:
  // What a thread does that waits.
  enum class Step : uint8_t {
    executes,  // a program
    starts,    // the loader of a program opens the C library
    loads,     // the loader opens a library, to map it
  };
  struct Request {
    uint64_t number = 0;
    pid_t tid = 0;
    Step step = Step::executes;
  };

  static Result<std::unique_ptr<ExecGate>, SystemError> open();
  ~ExecGate();
  ExecGate(const ExecGate&) = delete;
  ExecGate& operator=(const ExecGate&) = delete;

  // From now on, executions of the file are held. Processes that only read it are not.
  Result<void, SystemError> watch(const std::string& path);

  // The same where the kernel opens a program with a lock that PTRACE_SEIZE wants, as all kernels
  // before Linux 6.8 do: the thread is held when the program's loader opens the C library. No code
  // of the program or of a library has run then, and most libraries are not mapped. The C library
  // is the one that this process has. Its other readers wait for a look at /proc only. Fails with
  // ENOEXEC if the program has no loader.
  Result<void, SystemError> watch_starts(const std::string& path);

  // The same for a library, of which the dynamic loader's opening is held. Other readers wait for a
  // look at /proc only.
  Result<void, SystemError> watch_library(const std::string& path);

  // Becomes readable when there is a request.
  int descriptor() const { return requested_.get(); }
  std::optional<Request> request();
  // To be called before PTRACE_SEIZE of a thread that executes. For the interpreter of a script the
  // kernel opens the file with a lock that PTRACE_SEIZE wants: the call does not return before the
  // thread goes on. So the answering thread answers after some milliseconds, and holds the thread
  // again when the kernel, without the lock, maps the program's loader (FAN_PRE_ACCESS, Linux 6.14,
  // not for all file systems). For that the loader is marked, which the kernel opens after the
  // program, and only until the thread is seized: the kernel reports each read of a file with this
  // mark. A program without a loader is marked itself. If a thread reads it at length, it loses the
  // mark, until it is executed for a script again. The kernel looks for marks when a file is
  // opened, so the thread that runs this script is not held again.
  void began_to_seize(const Request& request);
  // Lets the thread go on. Returns false if the answering thread had to do it before.
  bool answer(uint64_t number);

  // Lets all go. From then on no thread is held.
  void close();

  // Returns how many executions were let through because their request was not taken in time.
  uint64_t let_through() const { return let_through_; }

 private:
  struct Held {
    int event = -1;  // the descriptor that the answer names
    uint64_t since_ns = 0;
    uint64_t seizing_ns = 0;  // 0: not begun
  };
  // A thread that opens a library. As long as it runs, it is unknown whether that is the loader.
  struct Opening {
    int event = -1;
    pid_t tid = 0;
    uint64_t since_ns = 0;
  };
  enum class Opener : uint8_t { unknown, loader, other };
  // A file, by its device and inode.
  using FileNumber = std::pair<uint64_t, uint64_t>;

  ExecGate() = default;
  void run();
  void own_descriptors() const;
  void wait_for_events();
  Result<void, SystemError> mark_opening(const std::string& path);
  void set_timer();
  bool has_room() const;
  void take_events();
  template <class Take>
  bool read_events(Take&& take) const;
  void take(const fanotify_event_metadata& event);
  void spare_reader(const fanotify_event_metadata& event);
  bool is_ours(pid_t tid) const;
  static Opener opener(pid_t tid);
  void look_at_openings();
  std::optional<Step> step_of(const Opening& opening) const;
  void hold(int event, pid_t tid, Step step);
  bool hinders(const Held& held, uint64_t now) const;
  pid_t thread_that_hinders(uint64_t now) const;
  void mark_what_it_maps(pid_t tid);
  void mark_loader(pid_t tid, const std::string& path);
  void unmark_loaders();
  void answer_overdue(uint64_t now);
  void let_all_go();
  static bool reads_header(const fanotify_event_metadata& event);
  void let_map();
  void write_answer(int event);
  void close_answered();

  Fd fanotify_, requested_, ending_;
  std::atomic<bool> has_own_descriptors_ = false;
  size_t most_events_ = 0;  // that may wait for an answer at a time
  timer_t timer_ = nullptr;
  bool has_timer_ = false;
  std::thread thread_;
  std::vector<Opening> openings_;    // for the answering thread alone
  std::vector<Fd> loaders_;          // that are marked, the same
  std::map<pid_t, unsigned> reads_;  // of marked files, by whom; the same

  mutable std::mutex mutex_;            // nothing that can block is done with it
  std::set<FileNumber> started_;        // programs whose loaders are held
  std::set<FileNumber> libraries_;      // those that are watched for themselves
  std::set<std::string> loader_paths_;  // of the watched programs, as they name them
  bool has_static_ = false;             // does one of them have no loader?
  std::deque<Request> requests_;
  std::map<uint64_t, Held> held_;
  std::vector<int> answered_;  // descriptors of events that the answering thread is to close
  Held mapping_;               // of the thread that is being seized
  pid_t seizing_tid_ = 0;      // 0: none is
  pid_t seizer_ = 0;           // the thread of ours that seizes it
  uint64_t last_ = 0;
  std::atomic<uint64_t> let_through_ = 0;
};

}  // namespace pinprick::target
