// The heap of a process that lives for one large task.
#pragma once

namespace pinprick {

// Memory that is freed is kept for the next allocation, and memory that is new comes, but for the
// first 16 MB, in large pages, where the system has such (transparent huge pages): to fault in
// small ones, one by one, takes a fifth of the time in which 40,000 probes are planned. Costs
// addresses, and some memory: nothing is given back, and a large page is rarely full. For programs,
// to be called at their beginning; a library must not.
void prepare_heap();

}  // namespace pinprick
