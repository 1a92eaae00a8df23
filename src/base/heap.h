// The heap of a process that does one large task.
#pragma once

namespace pinprick {

// Keeps freed memory for the next allocations, and takes new memory, after the first 16 MB, in
// large pages if the system has them (transparent huge pages): to fault in small pages one by one
// takes a fifth of the time in which 40,000 probes are planned. The first 4 MB, which one probe
// needs, are faulted in at once. All threads allocate from this one heap. This costs addresses, and
// some memory: nothing is given back, and large pages are rarely full. For programs, which call it
// first; a library must not.
//
// When memory runs out for the first time, operator new throws, and from then on there are 16 MB
// more: probes that are armed are taken out again as the exception passes, which takes memory.
void prepare_heap();

}  // namespace pinprick
