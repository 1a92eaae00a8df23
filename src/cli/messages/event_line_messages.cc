#include "cli/messages/event_line_messages.h"

#include <fmt/format.h>

#include <algorithm>

namespace pinprick::cli {
namespace {

using Cause = select::EventLineError::Cause;

// The sentences of the kernel's error_log, without what only pinprick says.
const char* words_of_kernel(Cause cause) {
  switch (cause) {
    case Cause::no_group_name:
      return "Group name is not specified";
    case Cause::group_too_long:
      return "Group name is too long";
    case Cause::bad_group_name:
      return "Group name must follow the same rules as C identifiers";
    case Cause::no_event_name:
      return "Event name is not specified";
    case Cause::event_too_long:
      return "Event name is too long";
    case Cause::bad_event_name:
      return "Event name must follow the same rules as C identifiers";
    case Cause::bad_maxactive:
      return "Invalid maxactive number";
    case Cause::maxactive_of_entry:
      return "Maxactive is not for kprobe; only r has one";
    case Cause::maxactive_too_big:
      return "Maxactive is too big";
    case Cause::file_not_found:
      return "Failed to find the given file; an offset needs the whole path";
    case Cause::no_regular_file:
      return "Not a regular file";
    case Cause::bad_offset:
      return "Invalid uprobe offset; write a number, or the name of a symbol";
    case Cause::bad_address:
      return "Invalid probed address or symbol; write OBJECT:SYMBOL+OFFSET or PATH:OFFSET";
    case Cause::bad_address_suffix:
      return "Invalid probed address suffix; only %return may follow";
    case Cause::bad_return_probe:
      return "Return probe must be on a function entry; leave out the offset";
    case Cause::bad_counter:
      return "Invalid reference counter offset";
    case Cause::counter_open:
      return "Reference counter brace is not closed";
    case Cause::counter_suffix:
      return "Reference counter has wrong suffix";
    case Cause::no_argument_name:
      return "Argument name is not specified";
    case Cause::argument_name_too_long:
      return "Argument name is too long";
    case Cause::bad_argument_name:
      return "Argument name must follow the same rules as C identifiers";
    case Cause::used_argument_name:
      return "This argument name is already used";
    case Cause::no_argument_body:
      return "No argument expression";
    case Cause::too_many_arguments:
      return "Too many arguments are specified";
    case Cause::bad_fetch_argument:
      return "Invalid fetch argument; it begins with %, $, @, +, - or \\";
    case Cause::bad_variable:
      return "Invalid $-variable specified; there are $argN, $stack, $stackN, $retval and $comm";
    case Cause::bad_register:
      return "Invalid register name";
    case Cause::bad_memory_address:
      return "Invalid memory address";
    case Cause::bad_file_offset:
      return "Invalid file offset value";
    case Cause::bad_immediate:
      return "Invalid immediate value";
    case Cause::immediate_open:
      return "String is not closed";
    case Cause::retval_at_entry:
      return "$retval is not available on probe; begin the line with r";
    case Cause::dereference_needs_brace:
      return "Dereference needs a brace: +8(%di)";
    case Cause::dereference_open:
      return "Dereference brace is not closed";
    case Cause::bad_dereference_offset:
      return "Invalid dereference offset";
    case Cause::command_dereferenced:
      return "$comm is not dereferenced";
    case Cause::too_deep:
      return "Dereference is too much nested";
    case Cause::unknown_type:
      return "Unknown type is specified";
    case Cause::command_type:
      return "$comm and immediate-string only accepts string type";
    case Cause::bad_string:
      return "String accepts only memory argument, and so do arrays: +0(%di)";
    case Cause::bad_bitfield:
      return "Invalid bitfield";
    case Cause::array_open:
      return "Array is not closed";
    case Cause::bad_array_suffix:
      return "Array has wrong suffix";
    case Cause::bad_array_size:
      return "Invalid array size";
    case Cause::array_too_big:
      return "Array number is too big";
    default:
      return nullptr;
  }
}

const char* words_of_ours(Cause cause) {
  switch (cause) {
    case Cause::no_place:
      return "nothing says where the event is; write OBJECT:SYMBOL or PATH:OFFSET";
    case Cause::removes:
      return "there is nothing to remove here, as probes go when pinprick ends; leave the line out";
    case Cause::of_kernel:
      return "it is an event of the kernel's own code; pinprick has p and r, in user space";
    case Cause::kernel_symbol:
      return "a symbol alone is one of the kernel, which pinprick does not probe; write "
             "OBJECT:SYMBOL";
    case Cause::kernel_address:
      return "an address of the kernel is none of a program; pinprick reads user space";
    case Cause::register_unknown:
      return "pinprick does not tell this register; it has the 16 general ones, such as %ax and "
             "%r8";
    case Cause::counter:
      return "pinprick raises reference counters of SDT points alone; leave the line out, and give "
             "the point as PATTERN: usdt:PROVIDER:NAME";
    case Cause::immediate_text:
      return "pinprick has no immediate strings; leave the argument out";
    case Cause::offset_beside_symbol:
      return "an offset in the file goes with an event at PATH:OFFSET; write @SYMBOL";
    case Cause::array_of_bits:
      return "pinprick has no arrays of bitfields; write one argument for each";
    case Cause::not_executable:
      return "the file is no program or library for x86-64 that has this offset in a segment";
    case Cause::no_probe:
      return "the line begins neither with p nor with r";
    default:
      return "the line cannot be used, for an unknown reason";
  }
}

// Returns the line with a mark under the place. A tab takes one column, so that both agree.
std::vector<std::string> shown_place(std::string_view line, size_t at) {
  std::string shown(line);
  std::ranges::replace(shown, '\t', ' ');
  return {shown, std::string(at, ' ') + "^"};
}

}  // namespace

Message bad_event_line(const std::string& file, size_t number, std::string_view line,
                       const select::EventLineError& error) {
  const char* const words = words_of_kernel(error.cause);
  Message message = {
      "bad_event_line",
      fmt::format("{}:{}: {}", file, number, words != nullptr ? words : words_of_ours(error.cause)),
      kUsage};
  // A line that is longer than a terminal is not shown.
  constexpr size_t kMostShown = 400;
  if (line.size() <= kMostShown) message.place = shown_place(line, std::min(error.at, line.size()));
  return message;
}

}  // namespace pinprick::cli
