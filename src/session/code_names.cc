#include "session/code_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "image/match.h"
#include "image/names/demangle.h"

namespace pinprick::session {
namespace {

// Names code of no object, if the process's runtime says what it is.
void add_generated(GeneratedNames& names, Address within, CodeName& code) {
  if (!code.object.empty()) return;
  const auto* const found = names.find(within);
  if (found == nullptr) return;
  code.function = found->second.name;
  code.offset = code.address - found->first;
}

}  // namespace

std::string CodeName::text() const {
  if (!function.empty()) return image::name_at(function, offset);
  return object.empty() ? fmt::format("{:#x}", address) : image::name_at(object, address);
}

CodeName LoadedCode::name(const image::ProcessImage& own, Address address, Address within) const {
  for (size_t i = images_.size(); i-- > 0;)
    if (CodeName name = name_code(*images_[i], address, within); !name.object.empty()) return name;
  CodeName name = name_code(own, address, within);
  add_generated(*generated_, within, name);
  return name;
}

void LoadedCode::clear(pid_t pid) {
  images_.clear();
  generated_ = std::make_shared<GeneratedNames>(pid);
}

// Images hold files open. So a library that comes and goes has one image, and not one for each
// time.
void LoadedCode::add(std::shared_ptr<const image::ProcessImage> image) {
  const auto has = [&](const image::Object& object) {
    return std::any_of(image->objects.begin(), image->objects.end(), [&](const auto& one) {
      return one->bias() == object.bias() && one->path() == object.path();
    });
  };
  std::erase_if(images_, [&](const auto& before) {
    return std::all_of(before->objects.begin(), before->objects.end(),
                       [&](const auto& object) { return has(*object); });
  });
  images_.push_back(std::move(image));
  look();
}

const CodeName& CodeNames::of_return(Address address) {
  const auto [known, is_new] = returns_.try_emplace(address);
  if (is_new) known->second = find(address, address - 1);
  return known->second;
}

const CodeName& CodeNames::of_instruction(Address address) {
  const auto [known, is_new] = instructions_.try_emplace(address);
  if (is_new) known->second = find(address, address);
  return known->second;
}

// The names of functions are those of the files, so it is no matter that the text has others'
// jumps.
CodeName CodeNames::find(Address address, Address within) {
  if (!image_) {
    auto loaded = image::load_process(pid_, memory_.reader(), &store_);
    image_ = loaded ? *std::move(loaded) : image::ProcessImage();
  }
  CodeName name = name_code(*image_, address, within);
  add_generated(generated_, within, name);
  return name;
}

// Names an address in an object's data, if it is one.
static void name_variable(const image::ProcessImage& image, Address address, CodeName& name) {
  for (const auto& object : image.objects) {
    const Address own = address - object->bias();
    if (std::ranges::none_of(object->elf().segments(), [&](const image::Segment& segment) {
          return segment.range.contains(own);
        }))
      continue;
    name.object = object->name();
    name.file = object->path();
    name.address = own;
    const auto variable = object->variable_at(own);
    if (!variable) return;
    name.function = image::demangle(variable->name);
    name.offset = own - variable->address;
    return;
  }
}

CodeName name_code(const image::ProcessImage& image, Address address, Address within) {
  CodeName name;
  name.address = address;
  image::Object* const object = image.object_at(within);
  if (object == nullptr) {
    name_variable(image, address, name);
    return name;
  }
  name.object = object->name();
  name.file = object->path();
  name.address = address - object->bias();
  const image::Function* const function = object->functions().find(within - object->bias());
  if (function == nullptr) return name;
  const auto names = object->functions().names(*function);
  if (names.empty()) return name;
  name.function = object->function_name(*function, names.front());
  name.offset = name.address - function->range.begin;
  return name;
}

}  // namespace pinprick::session
