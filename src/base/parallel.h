// Does the same work on many pieces, on all CPUs that we may use.
//
// For pure work on independent pieces: if results are kept by piece, they do not depend on the
// number of threads, nor on which thread did what.
#pragma once

#include <cstddef>
#include <functional>

namespace pinprick {

// Returns the number of CPUs that we may run on, at most 8: more readers of one memory hardly help.
size_t usable_threads();

// Calls work(0) ... work(count - 1), each once, on up to `threads` threads including this one; on
// fewer if threads cannot be made, and on this one alone while it has an OneThread. Returns when
// all are done. If `work` throws, pieces that have not been started are skipped, and the first
// exception is rethrown here. All threads have this thread's task (task.h).
void for_each_piece(size_t count, size_t threads, const std::function<void(size_t)>& work);

// While it lives, this thread does all pieces itself. A user's process must have no threads of
// ours: what they call may be probed, and a handler that runs there may wait for a lock of the
// thread that waits for them.
class OneThread {
 public:
  OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  ~OneThread();
};

}  // namespace pinprick
