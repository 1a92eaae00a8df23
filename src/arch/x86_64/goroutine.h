// Which instructions of a Go program may run in a stub. Pure.
//
// Go's runtime suspends a goroutine by a signal at nearly every instruction, and continues it some
// time later: in between it stands on no thread, so nobody sees that it will return to there. In a
// stub, which is no Go code, it lets a goroutine go on. A fault it makes a panic, by the function
// that the faulting instruction belongs to: in a stub that ends the program.
#pragma once

#include <cstdint>
#include <span>

namespace pinprick::arch {

// Whole instructions, which a jump of five bytes would overwrite. True for
//   - one that cannot fault: nobody stands inside of one instruction;
//   - the check of the stack's limit that most functions begin with. No goroutine is suspended
//     between its two instructions (cmd/internal/obj/x86, stacksplit: an "unsafe point").
bool goroutine_may_run_elsewhere(std::span<const uint8_t> displaced);

}  // namespace pinprick::arch
