#include "image/names/demangle.h"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include "image/names/rust_name.h"

namespace pinprick::image {
namespace {

// The demangler recurses on nested names. Compilers do not make names of this length for code that
// people write.
constexpr size_t kLongestName = 16384;

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Reads a demangled name from the left, one bracket, operator or character at a time.
class NameReader {
 public:
  explicit NameReader(std::string_view text) : text_(text) {}

  bool done() const { return at_ >= text_.size(); }
  size_t position() const { return at_; }
  std::string_view rest() const { return text_.substr(at_); }
  bool starts_with(std::string_view word) const { return rest().starts_with(word); }
  bool skip(std::string_view word) {
    if (!starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  // Skips `operator` and what follows; for a conversion, up to its empty parameter list.
  bool skip_operator();
  // Skips from an opening bracket past the one that closes it, or to the end.
  void skip_brackets();
  // Skips const, volatile, & and && after a parameter list.
  void skip_qualifiers() {
    while (skip(" const") || skip(" volatile") || skip(" restrict") || skip(" noexcept") ||
           skip(" &&") || skip(" &")) {
    }
  }
  void step() { ++at_; }

 private:
  bool at_word(std::string_view word) const {
    return starts_with(word) && (at_ == 0 || !is_word(text_[at_ - 1])) &&
           (at_ + word.size() == text_.size() || !is_word(text_[at_ + word.size()]));
  }

  std::string_view text_;
  size_t at_ = 0;
};

bool NameReader::skip_operator() {
  if (!at_word("operator")) return false;
  skip("operator");
  // Longer ones come before their prefixes.
  for (std::string_view symbol :
       {"()", "[]", "->*", "->", "<=>", "<<=", ">>=", "<<", ">>", "<=", ">=", "==", "!=",
        "&&", "||", "++",  "--", "+=",  "-=",  "*=",  "/=", "%=", "&=", "|=", "^=", "+",
        "-",  "*",  "/",   "%",  "&",   "|",   "^",   "~",  "!",  "=",  "<",  ">",  ","}) {
    if (!skip(symbol)) continue;
    if (starts_with(" <")) step();  // operator<< <int>
    return true;
  }
  for (std::string_view word : {"\"\" ", " new[]", " new", " delete[]", " delete", " co_await"})
    if (skip(word)) return true;
  while (!done()) {
    const std::string_view left = rest();
    if (left.starts_with("()") && !left.substr(2).starts_with("(")) return true;
    if (std::string_view("(<[{").find(left.front()) != left.npos)
      skip_brackets();
    else
      step();
  }
  return true;
}

void NameReader::skip_brackets() {
  std::string open;  // missing closing brackets, innermost last
  do {
    const char c = text_[at_];
    step();
    switch (c) {
      case '(':
        open += ')';
        break;
      case '[':
        open += ']';
        break;
      case '{':
        open += '}';
        break;
      case '<':
        // (1)<(2), (1)<<(2), (1)<=(2)
        if (!open.empty() && text_[at_ - 2] == ')' && !done() && !is_word(text_[at_]))
          at_ = std::min(text_.find_first_not_of("<=", at_), text_.size());
        else
          open += '>';
        break;
      case '>':
        if (text_[at_ - 2] == '-') break;  // an arrow
        if (starts_with(">(") && text_[at_ - 2] == ')')
          step();  // (1)>>(2)
        else if (open.back() == '>')
          open.pop_back();  // else a comparison, which is always in parentheses
        break;
      case ')':
      case ']':
      case '}':
        // A < that nothing closed was a comparison.
        while (open.size() > 1 && open.back() != c && open.back() == '>') open.pop_back();
        if (open.back() == c) open.pop_back();
        break;
      default:
        break;
    }
  } while (!open.empty() && !done());
}

}  // namespace

std::string demangle(std::string_view name) {
  if (!is_mangled(name) || name.size() > kLongestName) return std::string(name);
  if (auto of_rust = demangle_rust(name)) return *std::move(of_rust);
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(std::string(name).c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && text ? std::string(text.get()) : std::string(name);
}

namespace {

std::string_view without_parameters(std::string_view demangled) {
  if (demangled.find('(') == demangled.npos) return demangled;  // such as all names of C
  constexpr int kMostWrapped = 8;
  std::string_view text = demangled;
  NameReader reader(text);
  size_t begin = 0;        // of the name, after the return type
  bool described = false;  // "virtual thunk to" is not a return type
  int wrapped = 0;
  while (!reader.done()) {
    if (reader.skip_operator()) continue;
    if (reader.starts_with(" [clone")) break;
    const char c = text[reader.position()];
    if (c == ' ') {
      const std::string_view before = text.substr(0, reader.position());
      reader.step();
      described = described || before.ends_with(" to") || before.ends_with(" for");
      begin = described ? 0 : reader.position();
    } else if (c == '<' || c == '[' || c == '{') {
      reader.skip_brackets();
    } else if (c == '(') {
      const size_t open = reader.position();
      reader.skip_brackets();
      const size_t close = reader.position() - 1;
      reader.skip_qualifiers();
      // `(anonymous namespace)`, or parameters of the function in which the name is local.
      if (reader.starts_with("::")) continue;
      if (reader.done() || reader.starts_with(" [clone"))
        return text[close] == ')' && open > begin ? text.substr(begin, open - begin) : demangled;
      if (reader.starts_with("(") || reader.starts_with(" [")) {
        // The function returns a pointer or reference to a function or array: the returned type is
        // written around the name.
        if (++wrapped > kMostWrapped) return demangled;
        text = text.substr(open + 1, close - open - 1);
        text.remove_prefix(std::min(text.find_first_not_of("*&"), text.size()));
        reader = NameReader(text);
        begin = 0;
      }
      // Otherwise it belongs to the return type: decltype (x).
    } else {
      reader.step();
    }
  }
  return demangled;
}

}  // namespace

std::string_view without_signature(std::string_view demangled) {
  const auto name = without_parameters(demangled);
  if (name.size() != demangled.size()) return name;
  const size_t copy = demangled.find(" [clone .");
  const auto function = copy == 0 ? demangled : demangled.substr(0, copy);
  return without_rust_details(function);
}

std::string_view without_copy_suffix(std::string_view symbol) {
  // GCC's and clang's. Those of the first kind end in a number.
  constexpr std::array<std::string_view, 7> kNumbered = {
      "isra", "constprop", "part", "lto_priv", "llvm", "__uniq", "simdclone"};
  constexpr std::array<std::string_view, 3> kOthers = {"cold", "warm", "localalias"};
  const auto has = [](const auto& words, std::string_view word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  for (;;) {
    std::string_view rest = symbol;
    const size_t number = rest.rfind('.');
    const bool is_numbered = number != rest.npos && number + 1 < rest.size() &&
                             rest.find_first_not_of("0123456789", number + 1) == rest.npos;
    if (is_numbered) rest = rest.substr(0, number);
    const size_t dot = rest.rfind('.');
    if (dot == rest.npos || dot == 0) return symbol;
    const auto word = rest.substr(dot + 1);
    if (!has(kOthers, word) && !(is_numbered && has(kNumbered, word))) return symbol;
    symbol = rest.substr(0, dot);
  }
}

}  // namespace pinprick::image
