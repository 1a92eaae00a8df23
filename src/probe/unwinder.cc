#include "probe/unwinder.h"

#include <array>
#include <optional>
#include <string_view>

namespace pinprick::probe {
namespace {

std::optional<Unwinder> unwinder_of(image::Object& object) {
  constexpr std::array<std::string_view, 5> kNames = {
      "_Unwind_Find_FDE", "_Unwind_GetIP", "_Unwind_SetGR", "_Unwind_SetIP", "_Unwind_Resume"};
  std::array<const image::Function*, kNames.size()> found{};
  const image::FunctionTable& table = object.functions();
  for (const image::Function& function : table.functions())
    for (std::string_view name : table.names(function))
      for (size_t i = 0; i < kNames.size(); ++i)
        if (name == kNames[i]) found[i] = &function;
  for (const image::Function* function : found)
    if (function == nullptr) return std::nullopt;
  const auto address = [&](size_t i) { return found[i]->range.begin + object.bias(); };
  Unwinder unwinder;
  unwinder.find_fde.object = &object;
  unwinder.find_fde.function = found[0];
  unwinder.find_fde.site = address(0);
  unwinder.find_fde.name = kNames[0];
  unwinder.functions = {address(1), address(2), address(3), address(4), 0};
  return unwinder;
}

std::vector<image::Object*> candidates(const image::ProcessImage& image) {
  std::vector<image::Object*> objects;
  for (size_t i = 0; i < image.objects.size(); ++i)
    if (i == 0 || image.objects[i]->name().starts_with("libgcc_s.so"))
      objects.push_back(image.objects[i].get());
  return objects;
}

}  // namespace

std::vector<Unwinder> find_unwinders(const image::ProcessImage& image) {
  std::vector<Unwinder> unwinders;
  for (image::Object* object : candidates(image))
    if (auto unwinder = unwinder_of(*object)) unwinders.push_back(*std::move(unwinder));
  return unwinders;
}

std::vector<Range> unwinder_code(const image::ProcessImage& image) {
  std::vector<Range> code;
  for (image::Object* object : candidates(image)) {
    const image::FunctionTable& table = object->functions();
    for (const image::Function& function : table.functions())
      for (std::string_view name : table.names(function))
        if (name.starts_with("_Unwind_"))
          code.push_back(
              {function.range.begin + object->bias(), function.range.end + object->bias()});
  }
  return code;
}

}  // namespace pinprick::probe
