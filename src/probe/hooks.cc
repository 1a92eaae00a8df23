#include "probe/hooks.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace pinprick::probe {
namespace {

// The functions of these names, in their order; null: there is none.
template <size_t N>
std::array<const image::Function*, N> functions_of(image::Object& object,
                                                   const std::array<std::string_view, N>& wanted) {
  std::array<const image::Function*, N> found{};
  const image::FunctionTable& table = object.functions();
  for (const image::Function& function : table.functions())
    for (std::string_view name : table.names(function))
      for (size_t i = 0; i < N; ++i)
        if (name == wanted[i]) found[i] = &function;
  return found;
}

std::optional<HookPlace> in_unwinder(image::Object& object) {
  const auto found = functions_of<5>(object, {"_Unwind_Find_FDE", "_Unwind_GetIP", "_Unwind_SetGR",
                                              "_Unwind_SetIP", "_Unwind_Resume"});
  for (const image::Function* function : found)
    if (function == nullptr) return std::nullopt;
  const auto address = [&](size_t i) { return found[i]->range.begin + object.bias(); };
  return HookPlace{&object,
                   found[0],
                   {Hook::Kind::unwinder,
                    layout::UnwinderTable{address(1), address(2), address(3), address(4), 0}}};
}

std::optional<HookPlace> in_object_table(image::Object& object) {
  const auto found = functions_of<1>(object, {"_dl_find_object"});
  if (found[0] == nullptr) return std::nullopt;
  return HookPlace{&object, found[0], {Hook::Kind::object_table, {}}};
}

std::vector<image::Object*> candidates(const image::ProcessImage& image) {
  std::vector<image::Object*> objects;
  for (size_t i = 0; i < image.objects.size(); ++i)
    if (i == 0 || image.objects[i]->name().starts_with("libgcc_s.so"))
      objects.push_back(image.objects[i].get());
  return objects;
}

}  // namespace

std::vector<HookPlace> places_of_hooks(const image::ProcessImage& image) {
  std::vector<HookPlace> places;
  for (image::Object* object : candidates(image))
    if (auto place = in_unwinder(*object)) places.push_back(*place);
  for (const auto& object : image.objects)
    if (object->name().starts_with("libc.so"))
      if (auto place = in_object_table(*object)) places.push_back(*place);
  return places;
}

std::optional<HookPlace> place_in_loader(const image::ProcessImage& image, Address notifies) {
  image::Object* object = image.object_at(notifies);
  if (object == nullptr) return std::nullopt;
  const image::Function* function = object->functions().find(notifies - object->bias());
  if (function == nullptr || function->range.begin != notifies - object->bias())
    return std::nullopt;
  return HookPlace{object, function, {Hook::Kind::loader, {}}};
}

bool has_unwinder(const std::vector<HookPlace>& places) {
  return std::any_of(places.begin(), places.end(),
                     [](const HookPlace& place) { return place.hook.functions.has_value(); });
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
