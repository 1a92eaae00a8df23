#include "cli/render/prototype_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace pinprick::cli {
namespace {

std::string text_of_kind(const select::Parameter& one) {
  using Kind = select::Parameter::Kind;
  switch (one.kind) {
    case Kind::flags:
      return "flags";
    case Kind::text:
      return "string";
    case Kind::bytes:
      return fmt::format("bytes[{}]", one.length);
    case Kind::output:
      return "output";
    case Kind::output_bytes:
      return fmt::format("output, bytes[{}]", one.length);
    case Kind::floating_point:
      return "a floating-point number, in no general register";
    case Kind::other:
      break;
  }
  return one.argument == 0 ? "on the stack" : "";
}

std::string text_of_failure(const select::Prototype& all) {
  using Failure = select::Prototype::Failure;
  return all.failure == Failure::minus_one ? "-1 and errno, if it fails"
         : all.failure == Failure::null    ? "NULL and errno, if it fails"
                                           : "";
}

}  // namespace

std::vector<PrototypeLine> lines_of(const select::Prototype& all) {
  size_t of_name = 0, of_type = all.result.size();
  for (const select::Parameter& one : all.parameters) {
    of_name = std::max(of_name, one.name.size());
    of_type = std::max(of_type, one.type.size());
  }
  std::vector<PrototypeLine> lines;
  const auto add = [&](const std::string& place, std::string_view name, std::string_view type,
                       const std::string& remark) {
    lines.push_back({fmt::format("{:<7}  {:<{}}  {:<{}}", place, name, of_name, type,
                                 remark.empty() ? 0 : of_type),
                     remark});
  };
  for (const select::Parameter& one : all.parameters)
    add(one.argument != 0 ? fmt::format("$arg{}", one.argument) : "-", one.name, one.type,
        text_of_kind(one));
  if (all.takes_more) lines.push_back({"...", ""});
  if (all.result != "void") add("$retval", "", all.result, text_of_failure(all));
  return lines;
}

}  // namespace pinprick::cli
