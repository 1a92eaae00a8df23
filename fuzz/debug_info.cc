// An untrusted file with debug information: all that is read of variables, types and lines.
#include "debug/debug_info.h"

#include <sys/mman.h>
#include <unistd.h>

#include <optional>

#include "base/fd.h"
#include "debug/calling.h"
#include "debug/container_layout.h"
#include "debug/text_layout.h"
#include "debug/type_layout.h"
#include "fuzzer.h"

namespace {

using namespace pinprick;
using debug::DebugInfo;
using debug::Type;

constexpr size_t kMostLines = 40;

void look_at(DebugInfo& info, const Type& type, int depth) {
  constexpr int kDeepest = 4;
  if (depth > kDeepest) return;
  info.enumerators_of(type);
  debug::text_layout(info, type);
  static_cast<void>(debug::container_layout(info, type));
  static_cast<void>(info.variants_of(type));
  static_cast<void>(info.type_arguments(type));
  for (const debug::Member& one : info.members_of(type)) {
    CHECK(one.bits + one.bit_offset <= 64);
    if (one.name.empty()) continue;
    info.find_member(type, one.name);
    look_at(info, one.type, depth + 1);
  }
  if (const auto target = info.target_of(type)) look_at(info, *target, depth + 1);
}

void look_at(DebugInfo& info, Address address) {
  for (const debug::Variable& one : info.variables_at(address)) {
    CHECK(!one.name.empty());
    CHECK(!debug::text_of(one.location).empty());
    look_at(info, one.type, 0);
  }
  const auto function = info.function_at(address);
  if (!function) return;
  CHECK(debug::passed_parameters(info, *function).size() == function->parameters.size());
  info.find_global("total", address);
  info.find_global("nothing", address);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Fd file(::memfd_create("fuzz", MFD_CLOEXEC));
  CHECK(::write(file.get(), data, size) == static_cast<ssize_t>(size));
  const auto info = DebugInfo::open(file.get());
  if (info == nullptr) return 0;
  auto lines = info->code_of_lines("variables.c", 1, 200);
  if (lines.size() > kMostLines) lines.resize(kMostLines);
  for (const debug::LineCode& line : lines) {
    CHECK(line.line >= 1 && line.line <= 200);
    look_at(*info, line.address);
    info->lines_of({line.address, line.address + 64});
  }
  info->code_of_lines("variables.c", 60, 60);
  auto copies = info->inlined_code([](std::string_view name) { return !name.empty(); });
  if (copies.size() > kMostLines) copies.resize(kMostLines);
  for (const debug::InlinedCode& copy : copies)
    for (const debug::Variable& one : info->variables_at(copy.address, {.inlined = copy.number}))
      look_at(*info, one.type, 0);
  for (const char* const name : {"request", "struct peer", "a::b"})
    for (const Type& type : info->find_structures(name))
      for (const debug::LayoutPart& part : debug::layout_of(*info, type).parts)
        CHECK(part.bit_offset < 8 && (!part.is_bit_field || part.bits <= 64));
  return 0;
}

std::vector<Input> seeds() {
  return {fuzz::file(std::string(IMAGE_PROGRAMS) + "../targets/variables")};
}
