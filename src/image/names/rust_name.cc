#include "image/names/rust_name.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace pinprick::image {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_identifier(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return is_digit(c) || is_upper(c) || is_lower(c) || c == '_'; });
}
bool is_lower_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); });
}

void append_utf8(std::string& out, uint32_t code) {
  const auto tail = [&](unsigned shift) {
    out += static_cast<char>(0x80 | (code >> shift & 0x3f));
  };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | code >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xf0 | code >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

// A character that may be printed as it is.
bool is_printable(uint32_t code) {
  const bool is_control = code < 0x20 || (code >= 0x7f && code < 0xa0);
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  return !is_control && !is_surrogate && code <= 0x10ffff;
}

// Decodes an identifier with other characters than ASCII's (RFC 3492), of which `basic` are ASCII's
// and `deltas` places the others.
std::optional<std::string> from_punycode(std::string_view basic, std::string_view deltas) {
  constexpr uint64_t kBase = 36, kSkew = 38, kDamp = 700, kLowest = 1, kHighest = 26;
  constexpr size_t kLongest = 256;
  if (deltas.empty() || basic.size() + deltas.size() > kLongest) return std::nullopt;
  std::vector<uint32_t> characters(basic.begin(), basic.end());
  uint64_t code = 0x80, position = 0, bias = 72, damp = kDamp;
  while (!deltas.empty()) {
    uint64_t delta = 0, weight = 1;
    for (uint64_t k = kBase;; k += kBase) {
      if (deltas.empty()) return std::nullopt;
      const char c = deltas.front();
      deltas.remove_prefix(1);
      if (!is_lower(c) && !is_digit(c)) return std::nullopt;
      const uint64_t digit =
          is_lower(c) ? static_cast<uint64_t>(c - 'a') : 26 + static_cast<uint64_t>(c - '0');
      delta += digit * weight;
      if (delta > std::numeric_limits<uint32_t>::max()) return std::nullopt;
      const uint64_t threshold = k <= bias ? kLowest : std::clamp(k - bias, kLowest, kHighest);
      if (digit < threshold) break;
      weight *= kBase - threshold;
      if (weight > std::numeric_limits<uint32_t>::max()) return std::nullopt;
    }
    position += delta;
    const uint64_t size = characters.size() + 1;
    code += position / size;
    position %= size;
    if (code > 0x10ffff || !is_printable(static_cast<uint32_t>(code))) return std::nullopt;
    characters.insert(characters.begin() + static_cast<ptrdiff_t>(position),
                      static_cast<uint32_t>(code));
    ++position;
    delta /= std::exchange(damp, 2);
    delta += delta / size;
    uint64_t k = 0;
    for (; delta > (kBase - kLowest) * kHighest / 2; k += kBase) delta /= kBase - kLowest;
    bias = k + (kBase - kLowest + 1) * delta / (delta + kSkew);
  }
  std::string text;
  for (const uint32_t character : characters) append_utf8(text, character);
  return text;
}

// A compiler's suffix: `.llvm.42`.
bool is_suffix(std::string_view text) {
  return text.empty() || (text.front() == '.' && std::all_of(text.begin(), text.end(), [](char c) {
                            return c > ' ' && c <= '~';
                          }));
}

std::string with_suffix(std::string name, std::string_view suffix) {
  if (!suffix.empty()) ((name += " [clone ") += suffix) += ']';
  return name;
}

// Reads a mangled name of version 0, after `_R`, and writes what it stands for: one function for
// each rule of RFC 2603's grammar, by its name there.
class NameOfVersion0 {
 public:
  explicit NameOfVersion0(std::string_view text) : text_(text) {}

  std::optional<std::string> run() {
    if (!is_upper(peek())) return std::nullopt;  // a digit is another version
    path(true);
    if (is_upper(peek())) {  // the crate that instantiates it
      const Quiet quiet(*this);
      path(false);
    }
    const auto suffix = text_.substr(at_);
    if (!ok_ || !is_suffix(suffix)) return std::nullopt;
    return with_suffix(std::move(out_), suffix);
  }

 private:
  static constexpr int kDeepest = 128;
  static constexpr size_t kLongest = 16384;
  static constexpr int kMostSteps = 20'000;

  // While this exists, nothing is written.
  class Quiet {
   public:
    explicit Quiet(NameOfVersion0& name) : name_(name) { ++name_.quiet_; }
    ~Quiet() { --name_.quiet_; }
    Quiet(const Quiet&) = delete;
    Quiet& operator=(const Quiet&) = delete;

   private:
    NameOfVersion0& name_;
  };
  // One level of a recursion. If it is not allowed, the name is broken.
  class Level {
   public:
    explicit Level(NameOfVersion0& name) : name_(name) {
      if (++name_.depth_ > kDeepest || ++name_.steps_ > kMostSteps) name_.ok_ = false;
    }
    ~Level() { --name_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    NameOfVersion0& name_;
  };

  char peek() const { return ok_ && at_ < text_.size() ? text_[at_] : '\0'; }
  char next() {
    const char c = peek();
    if (c == '\0')
      ok_ = false;
    else
      ++at_;
    return c;
  }
  bool eat(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void print(std::string_view text) {
    if (quiet_ != 0 || !ok_) return;
    if (out_.size() + text.size() > kLongest) {
      ok_ = false;
      return;
    }
    out_ += text;
  }

  uint64_t base_62_number() {
    if (eat('_')) return 0;
    uint64_t value = 0;
    for (;;) {
      const char c = next();
      if (c == '_') break;
      const int digit = is_digit(c)   ? c - '0'
                        : is_lower(c) ? c - 'a' + 10
                        : is_upper(c) ? c - 'A' + 36
                                      : -1;
      if (digit < 0 || value > (std::numeric_limits<uint64_t>::max() - 62) / 62) ok_ = false;
      if (!ok_) return 0;
      value = value * 62 + static_cast<uint64_t>(digit);
    }
    return value + 1;
  }
  // Returns 0 if it is not there.
  uint64_t optional_number(char tag) {
    if (!eat(tag)) return 0;
    return base_62_number() + 1;
  }
  uint64_t disambiguator() { return optional_number('s'); }

  std::string undisambiguated_identifier() {
    const bool is_punycode = eat('u');
    size_t size = 0;
    const char first = next();
    if (!is_digit(first)) ok_ = false;
    if (ok_) size = static_cast<size_t>(first - '0');
    while (size != 0 && is_digit(peek()) && size <= kLongest)
      size = size * 10 + static_cast<size_t>(next() - '0');
    eat('_');
    if (!ok_ || size > text_.size() - at_) ok_ = false;
    if (!ok_) return {};
    const std::string_view name = text_.substr(at_, size);
    at_ += size;
    if (!is_identifier(name)) ok_ = false;
    if (!is_punycode) return std::string(name);
    const size_t split = name.rfind('_');
    const bool has_basic = split != name.npos;
    const auto decoded = from_punycode(has_basic ? name.substr(0, split) : std::string_view(),
                                       has_basic ? name.substr(split + 1) : name);
    if (!decoded) ok_ = false;
    return decoded.value_or("");
  }

  // Calls `read()` for what lies at an earlier place of the name.
  template <class F>
  void backref(F&& read) {
    const size_t here = at_ - 1;
    const uint64_t to = base_62_number();
    if (to >= here) ok_ = false;
    // What is not written need not be read again.
    if (!ok_ || quiet_ != 0) return;
    const size_t after = std::exchange(at_, to);
    read();
    at_ = after;
  }

  // Returns how many there were before the E.
  template <class F>
  size_t list(std::string_view separator, F&& read) {
    size_t count = 0;
    while (ok_ && !eat('E')) {
      if (count++ != 0) print(separator);
      read();
    }
    return count;
  }

  // In expressions, generic arguments come after `::`.
  void path(bool in_expression) {
    const Level level(*this);
    const char tag = next();
    switch (tag) {
      case 'C':
        disambiguator();
        print(undisambiguated_identifier());
        break;
      case 'N':
        nested_path(in_expression);
        break;
      case 'M':
      case 'X':
      case 'Y':
        if (tag != 'Y') {  // where the implementation is
          const Quiet quiet(*this);
          disambiguator();
          path(false);
        }
        print("<");
        type();
        if (tag != 'M') {
          print(" as ");
          path(false);
        }
        print(">");
        break;
      case 'I':
        path(in_expression);
        print(in_expression ? "::<" : "<");
        list(", ", [&] { generic_argument(); });
        print(">");
        break;
      case 'B':
        backref([&] { path(in_expression); });
        break;
      default:
        ok_ = false;
    }
  }

  void nested_path(bool in_expression) {
    const char kind = next();
    if (!is_lower(kind) && !is_upper(kind)) ok_ = false;
    path(in_expression);
    const uint64_t number = disambiguator();
    const std::string name = undisambiguated_identifier();
    if (is_lower(kind)) {
      if (!name.empty()) print("::" + name);
      return;
    }
    print("::{");
    print(kind == 'C' ? "closure" : kind == 'S' ? "shim" : std::string_view(&kind, 1));
    if (!name.empty()) print(":" + name);
    print("#" + std::to_string(number) + "}");
  }

  void lifetime(uint64_t index) {
    if (index == 0) return print("'_");
    if (index > lifetimes_) {
      ok_ = false;
      return;
    }
    const uint64_t number = lifetimes_ - index;
    print(number < 26 ? std::string("'") + static_cast<char>('a' + number)
                      : "'_" + std::to_string(number));
  }

  // Calls `read()` with the lifetimes of `for<...>` in force.
  template <class F>
  void in_binder(F&& read) {
    constexpr uint64_t kMost = 64;
    const uint64_t bound = optional_number('G');
    if (bound > kMost) ok_ = false;
    if (!ok_) return;
    if (bound != 0) print("for<");
    for (uint64_t i = 0; i < bound; ++i) {
      if (i != 0) print(", ");
      ++lifetimes_;
      lifetime(1);
    }
    if (bound != 0) print("> ");
    read();
    lifetimes_ -= bound;
  }

  void generic_argument() {
    if (eat('L'))
      lifetime(base_62_number());
    else if (eat('K'))
      constant(false);
    else
      type();
  }

  static std::string_view basic_type(char tag) {
    constexpr std::array<std::pair<char, std::string_view>, 21> kTypes = {
        {{'a', "i8"},   {'b', "bool"},  {'c', "char"},  {'d', "f64"}, {'e', "str"}, {'f', "f32"},
         {'h', "u8"},   {'i', "isize"}, {'j', "usize"}, {'l', "i32"}, {'m', "u32"}, {'n', "i128"},
         {'o', "u128"}, {'s', "i16"},   {'t', "u16"},   {'u', "()"},  {'v', "..."}, {'x', "i64"},
         {'y', "u64"},  {'z', "!"},     {'p', "_"}}};
    const auto* const found = std::find_if(kTypes.begin(), kTypes.end(),
                                           [&](const auto& one) { return one.first == tag; });
    return found == kTypes.end() ? std::string_view() : found->second;
  }

  void type() {
    const Level level(*this);
    const char tag = next();
    if (const auto basic = basic_type(tag); !basic.empty()) return print(basic);
    switch (tag) {
      case 'R':
      case 'Q':
        print("&");
        if (eat('L'))
          if (const uint64_t index = base_62_number(); index != 0) {
            lifetime(index);
            print(" ");
          }
        if (tag == 'Q') print("mut ");
        type();
        break;
      case 'P':
      case 'O':
        print(tag == 'P' ? "*const " : "*mut ");
        type();
        break;
      case 'A':
      case 'S':
        print("[");
        type();
        if (tag == 'A') {
          print("; ");
          constant(true);
        }
        print("]");
        break;
      case 'T':
        print("(");
        if (list(", ", [&] { type(); }) == 1) print(",");
        print(")");
        break;
      case 'F':
        in_binder([&] { function_signature(); });
        break;
      case 'D':
        print("dyn ");
        in_binder([&] { list(" + ", [&] { dyn_trait(); }); });
        if (!eat('L')) ok_ = false;
        if (const uint64_t index = base_62_number(); index != 0) {
          print(" + ");
          lifetime(index);
        }
        break;
      case 'W':
        type();
        print(" is ");
        pattern();
        break;
      case 'B':
        backref([&] { type(); });
        break;
      default:
        if (ok_) --at_;
        path(false);
    }
  }

  void function_signature() {
    if (eat('U')) print("unsafe ");
    if (eat('K')) {
      std::string abi = "C";
      if (!eat('C')) abi = undisambiguated_identifier();
      std::replace(abi.begin(), abi.end(), '_', '-');
      print("extern \"" + abi + "\" ");
    }
    print("fn(");
    list(", ", [&] { type(); });
    print(")");
    if (eat('u')) return;
    print(" -> ");
    type();
  }

  // Writes a trait without the closing bracket of its arguments. Returns whether it has any.
  bool open_trait() {
    const Level level(*this);
    bool is_open = false;
    if (eat('B')) {
      backref([&] { is_open = open_trait(); });
    } else if (eat('I')) {
      path(false);
      print("<");
      list(", ", [&] { generic_argument(); });
      is_open = true;
    } else {
      path(false);
    }
    return is_open;
  }

  void dyn_trait() {
    bool is_open = open_trait();
    while (eat('p')) {
      print(is_open ? ", " : "<");
      is_open = true;
      print(undisambiguated_identifier() + " = ");
      type();
    }
    if (is_open) print(">");
  }

  void pattern() {
    const Level level(*this);
    switch (next()) {
      case 'R':
        constant(true);
        print("..=");
        constant(true);
        break;
      case 'O':
        list(" | ", [&] { pattern(); });
        break;
      case 'N':
        print("!null");
        break;
      default:
        ok_ = false;
    }
  }

  std::string_view hex_digits() {
    const size_t begin = at_;
    while (next() != '_' && ok_) {
    }
    if (!ok_) return {};
    const auto digits = text_.substr(begin, at_ - 1 - begin);
    if (!is_lower_hex(digits)) ok_ = false;
    return digits;
  }
  static std::optional<uint64_t> value_of(std::string_view hex) {
    hex.remove_prefix(std::min(hex.find_first_not_of('0'), hex.size()));
    if (hex.size() > 16) return std::nullopt;
    uint64_t value = 0;
    if (!hex.empty()) std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
    return value;
  }
  void number() {
    const auto digits = hex_digits();
    const auto value = value_of(digits);
    print(value ? std::to_string(*value) : "0x" + std::string(digits));
  }

  void print_character(uint32_t code, char quote) {
    std::string text;
    if (code == '\n' || code == '\t' || code == '\r' || code == '\0')
      text = code == '\n' ? "\\n" : code == '\t' ? "\\t" : code == '\r' ? "\\r" : "\\0";
    else if (code == '\\' || code == static_cast<unsigned char>(quote))
      text = {'\\', static_cast<char>(code)};
    else if (is_printable(code))
      append_utf8(text, code);
    else
      ok_ = false;
    print(text);
  }
  void string_literal() {
    const auto digits = hex_digits();
    if (digits.size() % 2 != 0) ok_ = false;
    print("\"");
    for (size_t i = 0; ok_ && i < digits.size(); i += 2) {
      const auto byte = static_cast<uint32_t>(*value_of(digits.substr(i, 2)));
      // Bytes of other characters come one after the other, as they are in the file.
      if (byte < 0x80)
        print_character(byte, '"');
      else
        print(std::string(1, static_cast<char>(byte)));
    }
    print("\"");
  }

  void constant(bool in_expression) {
    const Level level(*this);
    const char tag = next();
    const bool is_unsigned = std::string_view("htmyoj").find(tag) != std::string_view::npos;
    const bool is_signed = std::string_view("aslxni").find(tag) != std::string_view::npos;
    if (is_unsigned || is_signed) {
      if (is_signed && eat('n')) print("-");
      return number();
    }
    switch (tag) {
      case 'p':
        return print("_");
      case 'b': {
        const auto value = value_of(hex_digits());
        if (!value || *value > 1) ok_ = false;
        return print(value == 1 ? "true" : "false");
      }
      case 'c': {
        const auto value = value_of(hex_digits());
        if (!value || *value > 0x10ffff) ok_ = false;
        print("'");
        if (ok_) print_character(static_cast<uint32_t>(*value), '\'');
        return print("'");
      }
      case 'B':
        return backref([&] { constant(in_expression); });
      default:
        break;
    }
    if (tag == 'R' && eat('e')) return string_literal();
    if (!in_expression) print("{");
    compound_constant(tag);
    if (!in_expression) print("}");
  }

  void compound_constant(char tag) {
    const auto constants = [&] { return list(", ", [&] { constant(true); }); };
    switch (tag) {
      case 'e':
        print("*");
        string_literal();
        break;
      case 'R':
      case 'Q':
        print(tag == 'R' ? "&" : "&mut ");
        constant(true);
        break;
      case 'A':
        print("[");
        constants();
        print("]");
        break;
      case 'T':
        print("(");
        if (constants() == 1) print(",");
        print(")");
        break;
      case 'V':
        path(true);
        fields();
        break;
      default:
        ok_ = false;
    }
  }

  void fields() {
    const char form = next();
    if (form == 'T') {
      print("(");
      list(", ", [&] { constant(true); });
      print(")");
    } else if (form == 'S') {
      print(" { ");
      list(", ", [&] {
        disambiguator();
        print(undisambiguated_identifier() + ": ");
        constant(true);
      });
      print(" }");
    } else if (form != 'U') {
      ok_ = false;
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string out_;
  bool ok_ = true;
  int quiet_ = 0;
  int depth_ = 0;
  int steps_ = 0;
  uint64_t lifetimes_ = 0;  // that are bound around this place
};

// Characters that legacy names write as $NAME$.
std::optional<std::string> escaped(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kNames = {{{"SP", "@"},
                                                                                    {"BP", "*"},
                                                                                    {"RF", "&"},
                                                                                    {"LT", "<"},
                                                                                    {"GT", ">"},
                                                                                    {"LP", "("},
                                                                                    {"RP", ")"},
                                                                                    {"C", ","}}};
  const auto* const found = std::find_if(kNames.begin(), kNames.end(),
                                         [&](const auto& one) { return one.first == name; });
  if (found != kNames.end()) return std::string(found->second);
  if (name.size() < 2 || name.size() > 7 || name.front() != 'u' || !is_lower_hex(name.substr(1)))
    return std::nullopt;
  uint32_t code = 0;
  std::from_chars(name.data() + 1, name.data() + name.size(), code, 16);
  if (!is_printable(code)) return std::nullopt;
  std::string text;
  append_utf8(text, code);
  return text;
}

// One part of a legacy name.
std::string unescaped(std::string_view part) {
  if (part.starts_with("_$")) part.remove_prefix(1);
  std::string text;
  while (!part.empty()) {
    if (part.starts_with("..")) {
      text += "::";
      part.remove_prefix(2);
      continue;
    }
    const size_t end = part.front() == '$' ? part.find('$', 1) : part.npos;
    if (end != part.npos)
      if (const auto character = escaped(part.substr(1, end - 1))) {
        text += *character;
        part.remove_prefix(end + 1);
        continue;
      }
    text += part.front();
    part.remove_prefix(1);
  }
  return text;
}

constexpr size_t kHash = 17;  // h, and 16 digits

bool is_hash(std::string_view part) {
  return part.size() == kHash && part.front() == 'h' && is_lower_hex(part.substr(1));
}

std::optional<std::string> demangle_legacy(std::string_view name) {
  constexpr std::string_view kBegin = "_ZN", kLastPart = "17h";
  if (!name.starts_with(kBegin)) return std::nullopt;
  const size_t last = name.rfind(kLastPart);
  if (last == name.npos || last + 2 + kHash >= name.size() ||
      !is_hash(name.substr(last + 2, kHash)) || name[last + 2 + kHash] != 'E')
    return std::nullopt;
  const auto suffix = name.substr(last + 2 + kHash + 1);
  if (!is_suffix(suffix)) return std::nullopt;
  std::string text;
  for (std::string_view rest = name.substr(kBegin.size(), last + 2 + kHash - kBegin.size());
       !rest.empty();) {
    size_t size = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    if (error != std::errc{} || size == 0 || size > rest.size()) return std::nullopt;
    const auto part = rest.substr(0, size);
    if (!std::all_of(part.begin(), part.end(), [](char c) { return c > ' ' && c <= '~'; }))
      return std::nullopt;
    if (!text.empty()) text += "::";
    text += unescaped(part);
    rest.remove_prefix(size);
  }
  if (is_hash(text)) return std::nullopt;  // C++ has such names, too
  return with_suffix(std::move(text), suffix);
}

}  // namespace

std::optional<std::string> demangle_rust(std::string_view name) {
  constexpr std::string_view kVersion0 = "_R";
  if (!name.starts_with(kVersion0)) return demangle_legacy(name);
  return NameOfVersion0(name.substr(kVersion0.size())).run();
}

std::string_view without_rust_details(std::string_view demangled) {
  constexpr std::string_view kSeparator = "::", kArguments = "::<";
  const size_t size = kSeparator.size() + kHash;
  if (demangled.size() > size) {
    const auto rest = demangled.substr(demangled.size() - size);
    if (rest.starts_with(kSeparator) && is_hash(rest.substr(kSeparator.size())))
      return demangled.substr(0, demangled.size() - size);
  }
  if (!demangled.ends_with('>')) return demangled;
  // Where the last brackets open that are in no others.
  size_t open = 0, depth = 0;
  for (size_t i = 0; i < demangled.size(); ++i) {
    const bool is_arrow = i > 0 && demangled[i - 1] == '-';
    if (demangled[i] == '<' && depth++ == 0) open = i;
    if (demangled[i] == '>' && !is_arrow && depth > 0) --depth;
  }
  const size_t before = open + 1 - std::min(open + 1, kArguments.size());
  const bool has_arguments =
      depth == 0 && before != 0 && demangled.substr(before).starts_with(kArguments);
  return has_arguments ? demangled.substr(0, before) : demangled;
}

}  // namespace pinprick::image
