// Lines of the kernel's tracing: any text. What is understood is a point with values in our own
// language, each of which has a name.
#include "select/event_lines.h"

#include "fuzzer.h"
#include "select/array.h"
#include "select/expression.h"
#include "select/spec.h"

namespace {

using namespace pinprick;

class Files : public select::EventFiles {
 public:
  Result<std::string, Cause> object_of(std::string_view path) override {
    if (path.size() > 40) return fail(Cause::file_not_found);
    return std::string("object");
  }
  Result<uint64_t, Cause> address_of(std::string_view, uint64_t offset) override {
    if (offset % 7 == 6) return fail(Cause::not_executable);
    return offset;
  }
};

void check_value(std::string_view word, bool at_return) {
  const auto [name, value] = select::split_name(word);
  CHECK(!name.empty() && !value.empty());
  if (value == "$comm") return;
  const auto array = select::split_array(value);
  const std::string one =
      array ? select::element_of(*array, 0) : std::string(select::split_form(value).value);
  CHECK(select::parse_expression(
      one, at_return ? select::Arguments::of_return : select::Arguments::of_function));
}

void check_line(std::string_view line) {
  Files files;
  const auto translated = select::spec_of_event_line(line, files);
  if (!translated) {
    CHECK(translated.error().at <= line.size());
    return;
  }
  if (!*translated) return;
  const select::Spec spec = select::split_spec(**translated);
  CHECK(!spec.event.empty() && spec.point.starts_with("object") && !spec.condition);
  for (std::string_view rest = spec.value; !rest.empty();) {
    const size_t end = select::end_of_value(rest);
    check_value(rest.substr(0, end), spec.at_return);
    rest.remove_prefix(std::min(rest.find_first_not_of(' ', end), rest.size()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  check_line({reinterpret_cast<const char*>(data), size});
  return 0;
}

std::vector<Input> seeds() {
  std::vector<Input> all;
  for (const char* text :
       {"p:redis/call /usr/bin/redis-server:0x6f340 c=%di:x32 $stack2 top=$stack $comm",
        "r10:back libc:open64 fd=$retval:s32 path=+0($arg1):string $arg7",
        "p libc:malloc+0x4 +8(-4(@level+2)):u16[4] @+0x30:char @0x4000 \\5:s8",
        "p:a /bin/x:0x12%return n=%si:b3@5/32 +0(%di):string[2] +u0(%di):ustring %ax:symbol",
        "p:a /bin/x:010(0x20)", "-:a/b", "# nothing"})
    all.push_back(pinprick::fuzz::text(text));
  return all;
}
