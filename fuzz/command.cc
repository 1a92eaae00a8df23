// The control language of statistics. Input: a line.
#include "control/command.h"

#include <cerrno>

#include "fuzzer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pinprick;
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  const auto command = control::parse_command(line);
  if (command) {
    const auto again = control::parse_command(control::to_text(*command));
    CHECK(again && *again == *command);
  } else {
    CHECK(command.error().number == EINVAL);
    CHECK(command.error().reason.find('\n') == std::string::npos);
  }
  const auto state = control::parse_state(line, "x");
  if (state) CHECK(control::to_text(*state).ends_with(" x"));
  return 0;
}

std::vector<Input> seeds() {
  std::vector<Input> all;
  for (const char* text :
       {"trace S bits 3 start libc:read end libc:write gap thread", "trace write gap none",
        "TRACE a start \"f(char*, int)\"", "trace 'libc:write'", "remove S", "start GAP-S", "STOP",
        "reset x", "list", "show", "show S"})
    all.push_back(pinprick::fuzz::text(text));
  return all;
}
