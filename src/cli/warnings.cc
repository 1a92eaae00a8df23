#include "cli/warnings.h"

#include <fmt/format.h>

#include "ledger/runtime_directory.h"

namespace pinprick::cli::warning {

std::string object_replaced(const std::string& object) {
  return fmt::format(
      "{}: the file is not the one that is running (replaced or deleted); its memory "
      "has no more than dynamic symbols",
      object);
}

std::string may_unwind_elsewhere(const std::string& command) {
  return fmt::format(
      "{} can unwind its stack, but its unwinder was not found: an exception that passes through a "
      "timed function may end the program, and a thread that is cancelled in one may end without "
      "its cleanup; `count` is safe",
      command);
}

std::string code_unfinished(const std::string& command, const std::string& object) {
  return fmt::format(
      "{} loaded {}, whose code is yet to be changed by the loader (DT_TEXTREL): not probed; "
      "start pinprick again to probe it",
      command, object);
}

std::string load_missed(const Message& why) {
  return fmt::format("what was loaded is not probed: {}", why.text);
}

std::string load_timed_out(const std::string& command) {
  return fmt::format(
      "{} waited for pinprick in vain when it loaded something: what "
      "that has done so far is not in the figures",
      command);
}

std::string calls_refused(uint64_t calls) {
  const auto folder = ledger::runtime_directory();
  return fmt::format(
      "{} of the calls that were missed are so since {} had no room for their "
      "functions' histograms; time fewer functions, or see to more room there",
      calls, folder ? *folder : "the runtime directory");
}

std::string executed(const std::string& command, const session::ExecutedProgram& program) {
  const bool is_certain = program.certainty == session::ExecutedProgram::Certainty::certain;
  return fmt::format("{} has {}executed {}, which is not probed; with --follow-exec it is", command,
                     is_certain ? "" : "probably ", program.name);
}

}  // namespace pinprick::cli::warning
