#include "image/demangle.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace pinprick::image {
namespace {

// Deeply nested names make the demangler recurse; no compiler makes names of this length by hand.
constexpr size_t kLongestName = 16384;

// Position of the '(' that matches the ')' at `close`, or npos.
size_t opening_parenthesis(std::string_view text, size_t close) {
  int depth = 0;
  for (size_t i = close + 1; i-- > 0;) {
    if (text[i] == ')') ++depth;
    if (text[i] == '(' && --depth == 0) return i;
  }
  return text.npos;
}

bool ends_with_operator(std::string_view text) {
  constexpr std::string_view kOperator = "operator";
  return text == kOperator || (text.ends_with(kOperator) && text.size() > kOperator.size() &&
                               text[text.size() - kOperator.size() - 1] == ':');
}

}  // namespace

std::string demangle(std::string_view name) {
  if (!name.starts_with("_Z") || name.size() > kLongestName) return std::string(name);
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(std::string(name).c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && text ? std::string(text.get()) : std::string(name);
}

std::string_view without_signature(std::string_view demangled) {
  std::string_view name = demangled;
  if (const size_t clone = name.find(" [clone"); clone != name.npos) name = name.substr(0, clone);
  const size_t close = name.rfind(')');
  if (close == name.npos) return demangled;
  const size_t open = opening_parenthesis(name, close);
  // `(anonymous namespace)::x` has a parenthesis but no parameters.
  if (open == name.npos || open == 0 || name.find("::", close) != name.npos) return demangled;
  if (ends_with_operator(name.substr(0, open))) return demangled;  // operator() itself
  name = name.substr(0, open);

  // A return type ends at the last blank outside of brackets. `operator new` has one of its own.
  int depth = 0;
  for (size_t i = name.size(); i-- > 0;) {
    if (name[i] == '>' || name[i] == ')') ++depth;
    if (name[i] == '<' || name[i] == '(') --depth;
    if (name[i] == ' ' && depth <= 0 && !ends_with_operator(name.substr(0, i)))
      return name.substr(i + 1);
  }
  return name;
}

}  // namespace pinprick::image
