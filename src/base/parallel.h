// The same work on many pieces, on all CPUs that we may use.
//
// For pure work on pieces that know nothing of each other: with results kept by piece, what comes
// out does not depend on the number of threads, or on who did what.
#pragma once

#include <cstddef>
#include <functional>

namespace pinprick {

// CPUs that we may run on, at most 8: more readers of one memory hardly help.
size_t usable_threads();

// Calls work(0) ... work(count - 1), each once, on up to `threads` threads, ours among them. With
// fewer where no thread is to be had. Returns when all are done. Where `work` throws, pieces that
// nobody has begun are left out, and the first exception comes out here. The task of this thread
// (task.h) is that of all of them.
void for_each_piece(size_t count, size_t threads, const std::function<void(size_t)>& work);

}  // namespace pinprick
