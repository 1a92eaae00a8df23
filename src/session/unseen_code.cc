#include "session/unseen_code.h"

#include <algorithm>

namespace pinprick::session {
namespace {

bool may_mean_functions_of(std::span<const image::Pattern> wanted,
                           const std::vector<std::string>& object) {
  return std::any_of(wanted.begin(), wanted.end(), [&](const image::Pattern& pattern) {
    return !pattern.names_points() && (!pattern.names_object() || pattern.matches_object(object));
  });
}

// Returns the object's code, by address: without sections, there may be constants among it.
std::vector<Range> code_ranges(const image::ElfFile& elf) {
  std::vector<Range> code;
  for (const auto& [name, range] : elf.code_sections())
    if (!name.starts_with(".plt") && name != ".iplt") code.push_back(range);
  if (code.empty())
    for (const image::Segment& segment : elf.segments())
      if (segment.executable) code.push_back(segment.range);
  std::sort(code.begin(), code.end());
  return code;
}

// `functions` are by address. The padding before a function does not count.
uint64_t bytes_outside(Range code, const std::vector<image::Function>& functions) {
  constexpr uint64_t kMostPadding = 64;
  uint64_t bytes = 0;
  Address at = code.begin;
  const auto skip_to = [&](Address next) {
    if (next > at + kMostPadding) bytes += next - at;
  };
  for (const image::Function& function : functions) {
    if (function.range.end <= at || function.range.begin >= code.end) continue;
    skip_to(function.range.begin);
    at = std::min(code.end, function.range.end);
  }
  skip_to(code.end);
  return bytes;
}

}  // namespace

std::vector<UnseenCode> unseen_objects(const image::ProcessImage& image,
                                       std::span<const image::Pattern> wanted) {
  std::vector<UnseenCode> unseen;
  for (const std::string& object : image.replaced)
    unseen.push_back({UnseenCode::Why::replaced, object, {}, 0, 0});
  for (const image::UnreadableObject& object : image.unreadable)
    if (object.error.cause != image::ElfCause::not_elf &&
        may_mean_functions_of(wanted, object.names))
      unseen.push_back({UnseenCode::Why::unreadable, object.names.front(), object.error, 0, 0});
  return unseen;
}

std::vector<UnseenCode> text_without_functions(
    image::ProcessImage& image, std::span<const image::Pattern> wanted,
    const std::function<bool(const image::Object&)>& looks_at) {
  // Every object has some stubs of the linker, and code of its own start.
  constexpr uint64_t kConsiderable = 64 << 10, kOneIn = 20;
  std::vector<UnseenCode> unseen;
  std::vector<image::Pattern> wide;
  std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(wide),
               [](const image::Pattern& pattern) { return pattern.has_wildcard(); });
  for (const auto& object : image.objects) {
    if (looks_at && !looks_at(*object)) continue;
    if (!may_mean_functions_of(wide, object->names())) continue;
    uint64_t text = 0, unknown = 0;
    for (const Range code : code_ranges(object->elf())) {
      text += code.size();
      unknown += bytes_outside(code, object->functions().functions());
    }
    if (unknown >= kConsiderable && unknown >= text / kOneIn)
      unseen.push_back({UnseenCode::Why::without_functions, object->name(), {}, unknown, text});
  }
  return unseen;
}

}  // namespace pinprick::session
