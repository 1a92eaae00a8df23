// Filters of functions: any text. What is understood is the same when it is read word by word, and
// matches names that have any bytes.
#include "select/function_filter.h"

#include "fuzzer.h"

using namespace pinprick;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t half = size / 2;
  const auto filters = select::parse_function_filters(text.substr(0, half));
  if (!filters) {
    CHECK(!filters.error().text.empty());
    CHECK(text.find(filters.error().text) != text.npos);
    return 0;
  }
  const std::string_view name = text.substr(half);
  const select::FilteredFunction function = {
      .names = {name, ""}, .objects = {name, "libc"}, .is_of_program = size % 2 == 0};
  select::FunctionFilters list(select::FunctionFilters::Default::none);
  bool is_in = false;
  for (const select::FunctionFilter& one : *filters) {
    list.add(one);
    if (one.matches(function)) is_in = !one.removes();
  }
  CHECK(list.contain(function) == (list.has_added() && is_in));
  return 0;
}

std::vector<Input> seeds() {
  std::vector<Input> all;
  for (const char* text : {"sys_*sys_read", "!*lock*spin_lock", "a*b?[a-c]\\*xax*bqbx",
                           ":mod:libc*:mod:!ext4", "f:traceon 12 net::*::read"})
    all.push_back(pinprick::fuzz::text(text));
  return all;
}
