// The stacks of threads that are in the kernel, read from outside: by the unwind tables of the
// objects (image/elf/frame_rows.h), from where the thread will go on.
//
// Reads only, and stops nothing: a thread that goes on meanwhile has a stack that ends early, or
// has wrong frames. So does one whose calls a probe times, as these return to the probe. Not
// thread-safe.
#pragma once

#include <map>
#include <vector>

#include "base/address.h"
#include "image/process.h"
#include "layout/frame_rows.h"
#include "target/memory.h"
#include "target/procfs.h"

namespace pinprick::session {

class ThreadStacks {
 public:
  // The arguments must outlive this.
  ThreadStacks(const target::Memory& memory, const image::ProcessImage& image)
      : memory_(memory), image_(image) {}

  // Returns the addresses at which its functions go on, the innermost first.
  std::vector<Address> of(const target::ThreadPosition& position, size_t most);

 private:
  struct Frame {
    Address instruction = 0;
    Address stack = 0;
    Address base = 0;       // rbp
    bool has_base = false;  // it is known
    bool is_exact = true;   // it is the next instruction, and no call is right before it
  };
  struct Rules {
    Range code;
    std::vector<layout::FrameRow> rows;
  };
  uint32_t rule_at(Address instruction);
  bool step(Frame& frame);
  bool step_normal(Frame& frame, uint32_t rule);
  bool step_loaded(Frame& frame, uint32_t rule);
  bool step_signal(Frame& frame);
  bool return_from(Frame& frame, Address canonical_frame);

  const target::Memory& memory_;
  const image::ProcessImage& image_;
  std::map<Address, Rules> rules_;  // by the start of the code
};

}  // namespace pinprick::session
