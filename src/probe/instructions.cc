#include "probe/instructions.h"

#include <fmt/format.h>

#include <unordered_set>

#include "plan/function_plan.h"

namespace pinprick::probe {

std::vector<image::Match> every_instruction(const std::vector<image::Match>& matches) {
  std::vector<image::Match> all;
  std::unordered_set<Address> seen;  // functions may lie inside of each other
  for (const image::Match& match : matches) {
    if (!match.at_entry() || match.unresolved) {
      all.push_back(match);
      continue;
    }
    image::Object& object = *match.object;
    const auto bytes = object.code(*match.function);
    plan::FunctionCode code;
    code.range = match.function->range;
    code.bytes = bytes;
    code.targets = &object.targets();
    for (Address site : plan::instructions(code)) {
      image::Match one = match;
      one.site = site + object.bias();
      if (!seen.insert(one.site).second) continue;
      if (site != code.range.begin) one.name += fmt::format("+{:#x}", site - code.range.begin);
      all.push_back(std::move(one));
    }
    if (bytes.empty()) all.push_back(match);  // to be refused
  }
  return all;
}

}  // namespace pinprick::probe
