#include "library/own_image.h"

#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "placement/signals_blocked.h"
#include "runtime/handlers.h"
#include "target/memory.h"

namespace pinprick::library {
OwnImage::Generation OwnImage::now() {
  Generation generation;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        *static_cast<Generation*>(out) = {info->dlpi_adds, info->dlpi_subs};
        return 1;
      },
      &generation);
  return generation;
}

Result<bool, SystemError> OwnImage::refresh() {
  const Generation generation = now();
  if (generation_ == generation) return false;
  auto opened = target::Memory::open(::getpid());
  if (!opened) return fail(opened.error());
  const auto memory = std::make_shared<target::Memory>(*std::move(opened));
  auto loaded = image::load_process(::getpid(), [this, memory](Address at, std::span<uint8_t> out) {
    if (!memory->read(at, out)) return false;
    restore_(at, out);
    return true;
  });
  if (!loaded) return fail(loaded.error());
  image_ = *std::move(loaded);
  ifunc_implementations_.clear();
  generation_ = generation;
  return true;
}

std::optional<image::Match> OwnImage::at(Address address) const {
  image::Object* const object = image_.object_at(address);
  if (object == nullptr) return std::nullopt;
  const image::Function* const function = object->functions().find(address - object->bias());
  if (function == nullptr) return std::nullopt;
  image::Match match;
  match.object = object;
  match.function = function;
  match.site = address;
  const auto names = object->functions().names(*function);
  match.function_name =
      object->function_name(*function, names.empty() ? std::string_view() : names.front());
  return match;
}

Result<std::vector<image::Match>, Error> OwnImage::matching(std::string_view text) {
  const auto error = [&](Cause cause, std::string_view detail = {}) {
    return fail(Error{cause, std::string(text), std::string(detail), 0});
  };
  auto pattern = image::Pattern::parse(text, image::PatternSyntax::glob);
  if (!pattern) return error(Cause::bad_pattern, image::explanation(pattern.error()));
  auto matches = image::match_patterns(image_, {*std::move(pattern)}, {});
  if (matches.matches.empty()) return error(Cause::not_found);
  return std::move(matches.matches);
}

bool OwnImage::implements_ifunc(const image::Match& match) {
  image::Object& object = *match.object;
  const auto [known, is_new] = ifunc_implementations_.try_emplace(&object);
  std::set<Address>& all = known->second;
  if (is_new)
    for (const image::Function& function : object.functions().functions())
      if (function.ifunc)
        for (Address address : image::implementations(image_, object, function))
          all.insert(address);
  return all.contains(match.function->range.begin + object.bias());
}

bool OwnImage::is_own_code(Address address) const {
  const auto* own = image_.object_at(reinterpret_cast<Address>(pp_hit));
  return own != nullptr && own->contains_code(address);
}

std::string_view OwnImage::why_never_probed(const image::Match& match) {
  if (is_own_code(match.site)) return "it is code of libpinprick itself";
  if (!placement::runs_with_signals_blocked(*match.object, *match.function) ||
      implements_ifunc(match))
    return {};
  return match.object->functions().names(*match.function).empty()
             ? "the C library may run it with all signals blocked, and has no name for it; install "
               "the C library's debug symbols"
             : "the C library runs it with all signals blocked";
}

std::vector<std::pair<Range, std::string>> OwnImage::never_probed() {
  std::vector<std::pair<Range, std::string>> all;
  for (const auto& object : image_.objects) {
    const Address bias = object->bias();
    const bool is_own = object.get() == image_.object_at(reinterpret_cast<Address>(pp_hit));
    if (!is_own && !placement::is_c_library(*object)) continue;
    for (const image::Function& function : object->functions().functions()) {
      auto match = at(function.range.begin + bias);
      if (!match || why_never_probed(*match).empty()) continue;
      all.emplace_back(Range{function.range.begin + bias, function.range.end + bias},
                       match->name());
    }
  }
  return all;
}

}  // namespace pinprick::library
