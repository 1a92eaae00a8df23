// Translates the lines with which the kernel's tracing defines its events, those of uprobe_events,
// into points and values of our own language (spec.h):
//
//     p:redis/call /usr/bin/redis-server:0x6f340 c=%di       an offset in the file
//     r:back libc:open64 fd=$retval:s32 path=+0($arg1):string
//     p libc:malloc+4 %ax:x32 top=$stack0
//
// The second form, with the name of a symbol, is that of kprobe_events, where a module has the
// place of the object. Errors have the kernel's causes, and the place in the line. Pure; it asks
// EventFiles what is in the files that lines name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pinprick::select {

struct EventLineError {
  // Those up to the blank line are the kernel's (its error_log has a sentence for each).
  enum class Cause : uint8_t {
    no_group_name,
    group_too_long,
    bad_group_name,
    no_event_name,
    event_too_long,
    bad_event_name,
    bad_maxactive,
    maxactive_of_entry,
    maxactive_too_big,
    file_not_found,
    no_regular_file,
    bad_offset,
    bad_address,
    bad_address_suffix,
    bad_return_probe,
    bad_counter,
    counter_open,
    counter_suffix,
    no_argument_name,
    argument_name_too_long,
    bad_argument_name,
    used_argument_name,
    no_argument_body,
    too_many_arguments,
    bad_fetch_argument,
    bad_variable,
    bad_register,
    bad_memory_address,
    bad_file_offset,
    bad_immediate,
    immediate_open,
    retval_at_entry,
    dereference_needs_brace,
    dereference_open,
    bad_dereference_offset,
    command_dereferenced,
    too_deep,
    unknown_type,
    command_type,
    bad_string,
    bad_bitfield,
    array_open,
    bad_array_suffix,
    bad_array_size,
    array_too_big,

    no_probe,          // the line begins with neither p nor r
    no_place,          // nothing follows the name
    removes,           // -:EVENT
    of_kernel,         // e:, f: or t:, which are of the kernel's own functions and events
    kernel_symbol,     // a place without an object
    kernel_address,    // of the upper half of all addresses
    register_unknown,  // one that no hit has here: %ip, %flags
    counter,           // a reference counter, which only SDT points have here
    immediate_text,
    offset_beside_symbol,  // @+OFFSET, where the event has no offset of its own
    array_of_bits,
    not_executable,  // the file is no program or library, or the offset is in no segment of it
  } cause = Cause::no_probe;
  size_t at = 0;  // where it is in the line
};

// Resolves the files that lines name, and offsets in them.
class EventFiles {
 public:
  using Cause = EventLineError::Cause;
  virtual ~EventFiles() = default;
  // Returns the name that patterns have for the object.
  virtual Result<std::string, Cause> object_of(std::string_view path) = 0;
  // Returns the object's own address of what is at an offset of its file.
  virtual Result<uint64_t, Cause> address_of(std::string_view path, uint64_t offset) = 0;
};

// Returns nullopt if the line is empty, or a comment.
Result<std::optional<std::string>, EventLineError> spec_of_event_line(std::string_view line,
                                                                      EventFiles& files);

}  // namespace pinprick::select
