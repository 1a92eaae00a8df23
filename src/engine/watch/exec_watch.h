// The controller's end of the exec handshake: a thread that is about to execute a program waits
// until the controller traces it (runtime/exec_handshake.S). The page of slots is shared with all
// processes that were forked from the target since.
//
// The target can write anything into the page. heartbeat() may be called by another thread than the
// other functions.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arch/registers.h"
#include "base/address.h"
#include "base/fd.h"
#include "layout/session_file.h"

namespace pinprick::engine {

class ExecWatch {
 public:
  struct Request {
    size_t slot = 0;
    pid_t tid = 0;  // as the thread's control block has it
    friend bool operator==(const Request&, const Request&) = default;
  };

  // For a session whose file has an exec handshake, which lies at `handshake` in the target. `code`
  // is what the session has there. Uses the open file of the session. Returns null if there are no
  // descriptors for that.
  static std::shared_ptr<ExecWatch> start(int file, const layout::Session& journal,
                                          Address handshake, std::vector<Range> code);
  ExecWatch(const ExecWatch&) = delete;
  ExecWatch& operator=(const ExecWatch&) = delete;
  ~ExecWatch() { close(); }

  // Returns the threads that wait. Also frees the slots of threads that were killed there.
  std::vector<Request> requests(uint64_t now_ns);
  // Does a stopped thread wait in this slot?
  bool is_waiting(const Request& request, const arch::Registers& registers) const;
  // Has the process that page? `inode` and `address` are those of a shared mapping of it.
  uint64_t inode() const { return inode_; }
  Address handshake() const { return handshake_; }
  // Lets the thread go on. A stopped thread goes on when it is resumed.
  void answer(const Request& request);
  // Returns how many threads went on without having been traced.
  uint64_t missed() const;
  void heartbeat();
  // From now on, no thread waits.
  void close();

 private:
  ExecWatch(Fd file, uint64_t offset, Address handshake, std::vector<Range> code, uint64_t inode);
  bool read(layout::ExecHandshake& handshake) const;
  void write(size_t field, uint32_t value) const;

  Fd file_;
  uint64_t offset_;
  Address handshake_;
  std::vector<Range> code_;
  uint64_t inode_;
  uint32_t heartbeat_ = 0;
  bool is_closed_ = false;
  // Since when a slot is in a state that should not last; 0: it is not.
  std::vector<uint64_t> stale_since_ns_;
};

}  // namespace pinprick::engine
