// Files of the cache, as a damaged disk or a hostile hand might leave them. What is parsed must be
// of a shape that planning can use, whatever it says.
#include "image/store/object_value.h"

#include "fuzzer.h"
#include "image/object.h"
#include "image/process.h"

namespace {

using namespace pinprick;
using image::Segment;

constexpr const char* kPrograms[] = {"basic_pie", "basic_nopie", "libbasic.so.1", "nested",
                                     "throws_pie"};

std::vector<std::vector<Segment>> segments_of_programs() {
  std::vector<std::vector<Segment>> all;
  for (const char* name : kPrograms)
    if (auto file = image::ElfFile::open(std::string(IMAGE_PROGRAMS) + name))
      all.push_back(file->segments());
  return all;
}

bool in_code(const std::vector<Segment>& segments, Range range) {
  for (const Segment& segment : segments)
    if (segment.executable && segment.range.contains(range)) return true;
  return false;
}

void look_at(const image::FunctionTable& table, const std::vector<Segment>& segments) {
  Address last = 0;
  bool any = false;
  for (const image::Function& function : table.functions()) {
    CHECK(!any || function.range.begin > last);
    CHECK(function.range.begin <= function.range.end);
    CHECK(function.range.end <= function.limit);
    CHECK(in_code(segments, {function.range.begin, function.limit}));
    for (std::string_view name : table.names(function)) CHECK(name.data()[name.size()] == '\0');
    CHECK(table.find(function.range.begin) != nullptr || function.range.empty());
    last = function.range.begin;
    any = true;
  }
  CHECK(image::parse_functions(image::to_bytes(table), segments) == table);
}

void look_at(const image::ObjectCode& code, const std::vector<Segment>& segments) {
  for (const Segment& segment : segments) {
    const Range range = segment.range;
    for (Address at : {range.begin - 1, range.begin, range.end - 1, range.end}) {
      code.targets.contains(at);
      code.targets.is_callee(at);
      code.targets.has_unresolved_jump(at);
    }
  }
  for (Address address : code.vforks) CHECK(in_code(segments, {address, address}));
  const std::vector<Address> more = {segments[0].range.begin, UINT64_MAX};
  CHECK(code.targets.with(more).contains(more[0]) == code.targets.covers(more[0]));
  CHECK(image::parse_code(image::to_bytes(code), segments).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto all = segments_of_programs();
  if (size == 0 || all.empty()) return 0;
  const std::vector<Segment>& segments = all[data[0] / 2 % all.size()];
  const std::span<const uint8_t> bytes(data + 1, size - 1);
  if (data[0] % 2 == 0) {
    if (const auto functions = image::parse_functions(bytes, segments))
      look_at(*functions, segments);
  } else if (const auto code = image::parse_code(bytes, segments)) {
    look_at(*code, segments);
  }
  return 0;
}

std::vector<Input> seeds() {
  std::vector<Input> all;
  for (size_t i = 0; i < std::size(kPrograms); ++i) {
    auto file = image::load_file(std::string(IMAGE_PROGRAMS) + kPrograms[i]);
    if (!file) continue;
    image::Object& object = *file->objects.front();
    const auto add = [&](uint8_t kind, const std::vector<uint8_t>& bytes) {
      Input input = {static_cast<uint8_t>(2 * i + kind)};
      input.insert(input.end(), bytes.begin(), bytes.end());
      all.push_back(std::move(input));
    };
    add(0, image::to_bytes(object.functions()));
    add(1, image::to_bytes(image::ObjectCode{object.targets(), object.reserved(), {}}));
  }
  return all;
}
