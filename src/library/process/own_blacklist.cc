#include "library/process/own_blacklist.h"

#include <fmt/format.h>

#include <algorithm>

#include "library/process/own_code.h"
#include "placement/signals_blocked.h"
#include "runtime/handlers.h"

namespace pinprick::library {
namespace {

// In the process's addresses.
Range range_of(const image::Match& match) {
  const uint64_t bias = match.object->bias();
  const Range range = match.function->range;
  return {range.begin + bias, range.end + bias};
}

Address in_own_code() {
  return reinterpret_cast<Address>(pp_hit);
}

}  // namespace

bool OwnBlacklist::is_own_code(Address address) const {
  if (const Range own = own_code(); !own.empty()) return own.contains(address);
  const auto* own = image_.objects().object_at(in_own_code());
  return own != nullptr && own->contains_code(address);
}

bool OwnBlacklist::implements_ifunc(const image::Match& match) {
  image::Object& object = *match.object;
  const auto [known, is_new] = ifunc_implementations_.try_emplace(&object);
  std::set<Address>& all = known->second;
  if (is_new)
    for (const image::Function& function : object.functions().functions())
      if (function.ifunc)
        for (Address address : image::implementations(image_.objects(), object, function))
          all.insert(address);
  return all.contains(range_of(match).begin);
}

std::string_view OwnBlacklist::why_library_refuses(const image::Match& match) {
  if (is_own_code(match.site)) return "it is code of libpinprick itself";
  if (!placement::runs_with_signals_blocked(*match.object, *match.function) ||
      implements_ifunc(match))
    return {};
  return match.object->functions().names(*match.function).empty()
             ? "the C library may run it with all signals blocked, and has no name for it; install "
               "the C library's debug symbols"
             : "the C library runs it with all signals blocked";
}

std::string_view OwnBlacklist::why_never_probed(const image::Match& match) {
  const bool is_blocked = std::any_of(blocked_.begin(), blocked_.end(), [&](const Named& one) {
    return one.first.contains(match.site);
  });
  return is_blocked ? "block() names it" : why_library_refuses(match);
}

void OwnBlacklist::block(const image::Match& match) {
  blocked_.emplace_back(range_of(match), match.name());
}

std::vector<OwnBlacklist::Named> OwnBlacklist::all_that_library_refuses() {
  std::vector<Named> all;
  for (const auto& object : image_.objects().objects) {
    const Address bias = object->bias();
    const bool is_own = object.get() == image_.objects().object_at(in_own_code());
    if (!is_own && !placement::is_c_library(*object)) continue;
    for (const image::Function& function : object->functions().functions()) {
      const auto match = image_.at(function.range.begin + bias);
      if (!match || why_library_refuses(*match).empty()) continue;
      all.emplace_back(Range{function.range.begin + bias, function.range.end + bias},
                       match->name());
    }
  }
  return all;
}

std::string OwnBlacklist::text() {
  auto all = all_that_library_refuses();
  all.insert(all.end(), blocked_.begin(), blocked_.end());
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.first.begin < b.first.begin; });
  std::string text;
  for (const auto& [range, name] : all)
    text += fmt::format("{:#018x}-{:#018x}\t{}\n", range.begin, range.end, name);
  return text;
}

}  // namespace pinprick::library
