#include "select/expression.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>
#include <span>
#include <utility>

#include "select/error_names.h"
#include "select/number_types.h"
#include "select/words.h"

namespace pinprick::select {
namespace {

using Wrong = ExpressionError::Cause;

struct Token {
  enum class Kind : uint8_t {
    end,
    number,
    character,
    name,   // with its type, where a value may be
    value,  // $NAME or %NAME, with its type
    text,
    sign,
  } kind = Kind::end;
  std::string_view text;
};

// By the length of the sign, so that no sign hides a longer one.
constexpr std::string_view kSigns[] = {
    "||", "&&", "==", "!=", "<=", ">=", "<<", ">>", "=~", "->", "..", "<", ">", "&", "|", "^", "+",
    "-",  "*",  "/",  "%",  "!",  "~",  "(",  ")",  "{",  "}",  ",",  "=", "[", "]", ".", ":", "?"};

struct Unit {
  std::string_view name;
  uint64_t factor;
};
constexpr Unit kUnits[] = {{"", 1},
                           {"k", 1'000},
                           {"M", 1'000'000},
                           {"G", 1'000'000'000},
                           {"Ki", uint64_t{1} << 10},
                           {"Mi", uint64_t{1} << 20},
                           {"Gi", uint64_t{1} << 30},
                           {"ns", 1},
                           {"us", 1'000},
                           {"ms", 1'000'000},
                           {"s", 1'000'000'000}};

struct BinarySign {
  std::string_view sign;
  Operator what;
};
// The strongest last; `in` is among the comparisons.
constexpr BinarySign kEither[] = {{"||", Operator::either}};
constexpr BinarySign kBoth[] = {{"&&", Operator::both}};
constexpr BinarySign kComparisons[] = {
    {"==", Operator::equal},  {"!=", Operator::not_equal},
    {"<", Operator::less},    {"<=", Operator::less_or_equal},
    {">", Operator::greater}, {">=", Operator::greater_or_equal}};
constexpr BinarySign kBits[] = {{"&", Operator::bit_and},
                                {"|", Operator::bit_or},
                                {"^", Operator::bit_xor},
                                {"<<", Operator::shift_left},
                                {">>", Operator::shift_right}};
constexpr BinarySign kSums[] = {{"+", Operator::add}, {"-", Operator::subtract}};
constexpr BinarySign kProducts[] = {
    {"*", Operator::multiply}, {"/", Operator::divide}, {"%", Operator::remainder}};

constexpr std::string_view kAtReturn = "@ret";
constexpr std::string_view kTextType = ":string", kBytesType = ":bytes";

// Is it a type with which an address is a text?
bool is_text_type(std::string_view type) {
  const std::string_view name = type.substr(0, type.find('['));
  return name == kTextType || name == kBytesType;
}

// One of the words from the stack pointer on, the first of which is 0.
struct StackWord {
  uint16_t number = 0;
  bool is_argument = false;  // $argN: above the return address, at the entry of a function
};

// Returns the word that $stackN, or $arg7 and above, means; nullopt if it is another value.
std::optional<StackWord> stack_word(std::string_view name, Arguments arguments) {
  constexpr std::string_view kStack = "$stack", kArgument = "$arg";
  constexpr uint16_t kInRegisters = 6;
  const bool is_argument = name.starts_with(kArgument) && arguments != Arguments::of_point;
  if (!is_argument && !name.starts_with(kStack)) return std::nullopt;
  const std::string_view digits = name.substr(is_argument ? kArgument.size() : kStack.size());
  uint16_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_number = error == std::errc{} && end == digits.data() + digits.size() &&
                         (digits.size() == 1 || !digits.starts_with('0'));
  if (!is_number || number > kMostStackWord || (is_argument && number <= kInRegisters))
    return std::nullopt;
  return StackWord{static_cast<uint16_t>(is_argument ? number - kInRegisters : number),
                   is_argument};
}

// What may come next: so `%` is an operator or the start of a register's name.
enum class Next : bool { operand, operation };

class Parser {
 public:
  Parser(std::string_view text, Arguments arguments) : all_(text), arguments_(arguments) {
    read(Next::operand);
  }

  Result<Expression, ExpressionError> parse() {
    if (token_.kind == Token::Kind::end) return fail(ExpressionError{});
    const auto whole = either();
    if (whole && token_.kind != Token::Kind::end) wrong_operator();
    if (error_) return fail(*std::move(error_));
    return std::move(expression_);
  }

 private:
  // A node's number; nullopt after an error.
  using Number = std::optional<uint16_t>;

  void read(Next next);
  size_t end_of_word(size_t at) const;
  size_t end_of_number(size_t at) const;
  size_t end_of_type(size_t at) const;
  bool is(std::string_view sign) const {
    return token_.kind == Token::Kind::sign && token_.text == sign;
  }
  bool takes(std::string_view sign, Next next = Next::operand) {
    if (!is(sign)) return false;
    read(next);
    return true;
  }

  std::nullopt_t wrong(Wrong cause, std::string_view part, ValueError value = {}) {
    const size_t at = part.empty() ? all_.size() : static_cast<size_t>(part.data() - all_.data());
    if (!error_) error_ = ExpressionError{cause, std::move(value), std::string(part), at};
    return std::nullopt;
  }
  std::nullopt_t wrong_operator();

  Number add(const Node& node);
  Number either() { return chain(kEither, &Parser::both); }
  Number both() { return chain(kBoth, &Parser::comparison); }
  Number comparison();
  Number bits() { return chain(kBits, &Parser::sum); }
  Number sum() { return chain(kSums, &Parser::product); }
  Number product() { return chain(kProducts, &Parser::unary); }
  template <size_t n>
  Number chain(const BinarySign (&signs)[n], Number (Parser::*stronger)());
  template <size_t n>
  const BinarySign* sign_of(const BinarySign (&signs)[n]) const;
  Number combined(Operator what, Number left, Number right, std::string_view text_of_right = {});
  Number one_of_set(uint16_t what);
  Number in_range(uint16_t what);
  Number copy_of(uint16_t node);
  bool has_name_from(size_t first) const {
    return std::any_of(expression_.nodes.begin() + static_cast<ptrdiff_t>(first),
                       expression_.nodes.end(), names_something);
  }
  bool is_number(uint16_t node) const { return expression_.nodes[node].what == Operator::number; }
  Number unary();
  Number postfix(Number of, size_t first);
  Number member(uint16_t of);
  Number element(uint16_t of);
  Number with_type(Number of, std::string_view type);
  Number pointee();
  Number typed_pointee(std::string_view star);
  Number text_at(Number address, std::string_view type);
  Number bytes_at(uint16_t address, std::string_view type);
  Number compare_text(uint16_t text);
  std::optional<std::string> literal(bool is_pattern);
  Number parenthesis();
  std::optional<NumberType> cast_type();
  std::optional<NumberType> type_of(std::string_view text) const;
  std::optional<std::string_view> pointer_type();
  Number primary();
  Number number();
  Number real();
  Number character();
  Number value();
  Number on_stack(StackWord word, const Value& part, bool at_return);
  Number address_of_name();
  Number named();

  std::string_view all_;
  Arguments arguments_;
  size_t position_ = 0;  // after the token
  Token token_;
  Expression expression_;
  std::optional<ExpressionError> error_;
  size_t depth_ = 0;
};

size_t Parser::end_of_word(size_t at) const {
  while (at < all_.size() && is_word(all_[at])) ++at;
  return at;
}

// `1.5` and `1.5e-3` are numbers, and `1..5` are two.
size_t Parser::end_of_number(size_t at) const {
  size_t end = end_of_word(at);
  const bool has_fraction = end + 1 < all_.size() && all_[end] == '.' && is_decimal(all_[end + 1]);
  if (!has_fraction) return end;
  end = end_of_word(end + 1);
  const bool has_sign = all_[end - 1] == 'e' && end + 1 < all_.size() &&
                        (all_[end] == '-' || all_[end] == '+') && is_decimal(all_[end + 1]);
  return has_sign ? end_of_word(end + 1) : end;
}

// Returns where what follows a value at `at` ends: when it is read, and its type. `at` if there is
// neither.
size_t Parser::end_of_type(size_t at) const {
  if (all_.substr(at).starts_with(kAtReturn)) at += kAtReturn.size();
  const bool has_type = at + 1 < all_.size() && all_[at] == ':' && is_word(all_[at + 1]);
  if (!has_type) return at;
  const size_t end = end_of_word(at + 1);
  if (!is_text_type(all_.substr(at, end - at)) || !all_.substr(end).starts_with('[')) return end;
  size_t depth = 0;
  for (size_t i = end; i < all_.size(); ++i) {
    if (all_[i] == '[') ++depth;
    if (all_[i] == ']' && --depth == 0) return i + 1;
  }
  return end;
}

void Parser::read(Next next) {
  size_t at = position_;
  while (at < all_.size() && (all_[at] == ' ' || all_[at] == '\t')) ++at;
  token_ = {};
  position_ = at;
  if (at == all_.size()) return;
  const char first = all_[at];
  const bool is_name = at + 1 < all_.size() && is_letter(all_[at + 1]);
  size_t end = at + 1;
  if (is_decimal(first)) {
    token_.kind = Token::Kind::number;
    end = end_of_number(at);
  } else if (is_letter(first)) {
    token_.kind = Token::Kind::name;
    end = end_of_word(at);
    if (next == Next::operand) end = end_of_type(end);
  } else if (first == '$' || (first == '%' && is_name && next == Next::operand)) {
    token_.kind = Token::Kind::value;
    end = end_of_type(end_of_word(end));
  } else if (first == '\'' || first == '"') {
    token_.kind = first == '"' ? Token::Kind::text : Token::Kind::character;
    while (end < all_.size() && all_[end] != first) end += all_[end] == '\\' ? 2 : 1;
    end = std::min(end + 1, all_.size());
  } else {
    token_.kind = Token::Kind::sign;
    for (const std::string_view sign : kSigns)
      if (all_.substr(at).starts_with(sign)) {
        end = at + sign.size();
        break;
      }
  }
  token_.text = all_.substr(at, end - at);
  position_ = end;
}

std::nullopt_t Parser::wrong_operator() {
  if (is("=")) return wrong(Wrong::single_equals, token_.text);
  if (is("=~")) return wrong(Wrong::not_a_text, token_.text);
  if (token_.kind == Token::Kind::name) return wrong(Wrong::name, token_.text);
  return wrong(Wrong::no_operator, token_.text);
}

Parser::Number Parser::add(const Node& node) {
  if (expression_.nodes.size() == kMostNodes) return wrong(Wrong::too_long, all_);
  const auto holds_text = [&](uint16_t side) { return is_text(expression_.nodes[side]); };
  if ((has_side(node.what) && holds_text(node.left)) ||
      (has_right(node.what) && holds_text(node.right)))
    return wrong(Wrong::text, all_);
  const auto is_stack = [&](uint16_t side) {
    return expression_.nodes[side].value.argument == Value::kStack;
  };
  if ((has_side(node.what) && is_stack(node.left)) ||
      (has_right(node.what) && is_stack(node.right)))
    return wrong(Wrong::stack, all_);
  expression_.nodes.push_back(node);
  return static_cast<uint16_t>(expression_.nodes.size() - 1);
}

template <size_t n>
const BinarySign* Parser::sign_of(const BinarySign (&signs)[n]) const {
  const auto found = std::find_if(std::begin(signs), std::end(signs),
                                  [&](const auto& one) { return is(one.sign); });
  return found == std::end(signs) ? nullptr : found;
}

template <size_t n>
Parser::Number Parser::chain(const BinarySign (&signs)[n], Number (Parser::*stronger)()) {
  Number left = (this->*stronger)();
  while (left) {
    const BinarySign* const sign = sign_of(signs);
    if (sign == nullptr) return left;
    read(Next::operand);
    const std::string_view right = token_.text;
    left = combined(sign->what, left, (this->*stronger)(), right);
  }
  return left;
}

Parser::Number Parser::combined(Operator what, Number left, Number right,
                                std::string_view text_of_right) {
  if (!left || !right) return std::nullopt;
  if (what == Operator::divide || what == Operator::remainder) {
    const Node* by = &expression_.nodes[*right];
    if (by->what == Operator::negate) by = &expression_.nodes[by->left];
    if (by->what == Operator::number && by->number == 0)
      return wrong(Wrong::zero_divisor, text_of_right);
  }
  return add({.what = what, .left = *left, .right = *right});
}

Parser::Number Parser::comparison() {
  const Number left = bits();
  if (!left) return left;
  if (token_.kind == Token::Kind::name && token_.text == "in") {
    read(Next::operand);
    return one_of_set(*left);
  }
  const bool is_text = expression_.nodes[*left].what == Operator::text;
  if (is_text && token_.text != "in") return compare_text(*left);
  const BinarySign* const sign = sign_of(kComparisons);
  if (sign == nullptr) return left;
  read(Next::operand);
  if (token_.kind == Token::Kind::text) return wrong(Wrong::not_a_text, token_.text);
  return combined(sign->what, left, bits());
}

// Compares it if an operator is next. It is the last node.
Parser::Number Parser::compare_text(uint16_t text) {
  const bool is_pattern = is("=~"), differs = is("!=");
  if (!is_pattern && !differs && !is("==")) return text;
  if (expression_.nodes[text].bytes != kMostText) return wrong(Wrong::length_compared, token_.text);
  read(Next::operand);
  const auto with = literal(is_pattern);
  if (!with) return std::nullopt;
  Node& node = expression_.nodes[text];
  node.what = is_pattern ? Operator::like_text : Operator::equals_text;
  node.text = *with;
  read(Next::operation);
  return differs ? add({.what = Operator::is_zero, .left = text}) : Number(text);
}

// Returns the text that is next. In a pattern, \* and \? stay as they are.
std::optional<std::string> Parser::literal(bool is_pattern) {
  const std::string_view all = token_.text;
  if (token_.kind != Token::Kind::text)
    return wrong(is_pattern ? Wrong::pattern : Wrong::text, all);
  std::string text;
  size_t i = 1;
  for (; i < all.size() && all[i] != '"'; ++i) {
    if (all[i] != '\\' || i + 1 == all.size()) {
      text += all[i];
      continue;
    }
    const char escaped = all[++i];
    if (escaped == 'n' || escaped == 't')
      text += escaped == 'n' ? '\n' : '\t';
    else
      text += (is_pattern && escaped != '"' ? "\\" : "") + std::string(1, escaped);
  }
  if (i >= all.size()) return wrong(Wrong::unclosed_text, all);
  if (text.size() > kMostComparedText) return wrong(Wrong::too_long, all);
  return text;
}

// `type` is `:bytes[LENGTH]`, of which the length is an expression.
Parser::Number Parser::bytes_at(uint16_t address, std::string_view type) {
  const size_t open = type.find('[');
  if (open == type.npos) return wrong(Wrong::no_length, type);
  const std::string_view text = type.substr(open + 1, type.size() - open - 2);
  const auto length = Parser(text, arguments_).parse();
  if (!length) {
    const bool is_empty = length.error().cause == Wrong::nothing;
    if (is_empty) return wrong(Wrong::no_length, type);
    if (!error_) error_ = length.error();
    error_->at += static_cast<size_t>(text.data() - all_.data());
    return std::nullopt;
  }
  if (expression_.nodes.size() + length->nodes.size() >= kMostNodes)
    return wrong(Wrong::too_long, all_);
  const uint16_t right = append_copy(*length, length->nodes.back(), expression_);
  return add({.what = Operator::text_of_length, .left = address, .right = right});
}

// `type` is `:string`, with a length or without, or `:bytes[LENGTH]`.
Parser::Number Parser::text_at(Number address, std::string_view type) {
  if (!address) return address;
  if (type.starts_with(kBytesType)) return bytes_at(*address, type);
  uint64_t length = kMostText;
  if (const size_t open = type.find('['); open != type.npos) {
    const std::string_view digits = type.substr(open + 1, type.size() - open - 2);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), length);
    const bool is_number = error == std::errc{} && end == digits.data() + digits.size();
    if (!is_number || length == 0 || length > kMostText)
      return wrong(Wrong::text_length, type.substr(open));
  }
  return add({.what = Operator::text, .bytes = static_cast<uint8_t>(length), .left = *address});
}

Parser::Number Parser::one_of_set(uint16_t what) {
  const std::string_view open = token_.text;
  if (is_text(expression_.nodes[what])) return wrong(Wrong::text_in_set, open);
  if (!takes("{")) return wrong(Wrong::no_value, token_.text);
  Number all;
  for (bool is_first = true;; is_first = false) {
    const Number compared = is_first ? Number(what) : copy_of(what);
    const Number one = compared ? in_range(*compared) : std::nullopt;
    if (!one) return std::nullopt;
    all = is_first ? one : combined(Operator::either, all, one);
    if (!all) return all;
    if (takes("}", Next::operation)) return all;
    if (token_.kind == Token::Kind::end) return wrong(Wrong::unclosed, open);
    if (!takes(",")) return wrong_operator();
  }
}

// Parses a number, or two with `..` between them: all numbers from the first to the last.
Parser::Number Parser::in_range(uint16_t what) {
  const std::string_view text = token_.text;
  const Number first = bits();
  if (!first) return first;
  if (!takes("..")) return combined(Operator::equal, what, first);
  const Number other = copy_of(what);
  const Number last = bits();
  if (other && last && is_number(*first) && is_number(*last) &&
      expression_.nodes[*first].is_real == expression_.nodes[*last].is_real &&
      expression_.nodes[*first].number > expression_.nodes[*last].number)
    return wrong(Wrong::empty_range, text);
  return combined(Operator::both, combined(Operator::greater_or_equal, what, first),
                  combined(Operator::less_or_equal, other, last));
}

Parser::Number Parser::copy_of(uint16_t node) {
  Node copy = expression_.nodes[node];
  if (copy.what != Operator::number && copy.what != Operator::value) {
    const Number left = copy_of(copy.left);
    const Number right = has_right(copy.what) ? copy_of(copy.right) : left;
    if (!left || !right) return std::nullopt;
    copy.left = *left;
    if (has_right(copy.what)) copy.right = *right;
  }
  return add(copy);
}

Parser::Number Parser::unary() {
  constexpr BinarySign kUnary[] = {
      {"-", Operator::negate}, {"!", Operator::is_zero}, {"~", Operator::complement}};
  if (++depth_ > kMostNodes) return wrong(Wrong::too_long, all_);
  const size_t first = expression_.nodes.size();
  Number result;
  if (const BinarySign* const sign = sign_of(kUnary)) {
    read(Next::operand);
    const Number of = unary();
    result = of ? add({.what = sign->what, .left = *of}) : of;
  } else if (is("*")) {
    result = pointee();
  } else if (is("&")) {
    result = postfix(address_of_name(), first);
  } else if (is("(")) {
    result = postfix(parenthesis(), first);
  } else {
    result = postfix(primary(), first);
  }
  --depth_;
  return result;
}

// `->NAME`, `.NAME` and `[NUMBER]` after a value, as many as there are. A name in it has to say
// which type it has; the first node of the value is `first`.
Parser::Number Parser::postfix(Number of, size_t first) {
  while (of) {
    const bool is_postfix = is("->") || is(".") || is("[");
    if (is_postfix && !has_name_from(first)) return wrong(Wrong::members, token_.text);
    if (is("->") || is("."))
      of = member(*of);
    else if (is("["))
      of = element(*of);
    else
      break;
  }
  return of;
}

Parser::Number Parser::member(uint16_t of) {
  const std::string_view sign = token_.text;
  read(Next::operand);
  if (token_.kind != Token::Kind::name) return wrong(Wrong::members, sign);
  const size_t end = std::min(token_.text.find_first_of(":@"), token_.text.size());
  const std::string_view name = token_.text.substr(0, end), type = token_.text.substr(end);
  read(Next::operation);
  return with_type(add({.what = Operator::member, .left = of, .text = std::string(name)}), type);
}

Parser::Number Parser::element(uint16_t of) {
  const std::string_view open = token_.text;
  read(Next::operand);
  const Number index = either();
  if (!index) return index;
  if (token_.kind == Token::Kind::end) return wrong(Wrong::unclosed, open);
  if (!is("]")) return wrong_operator();
  const std::string_view type = all_.substr(position_, end_of_type(position_) - position_);
  position_ += type.size();
  read(Next::operation);
  return with_type(add({.what = Operator::element, .left = of, .right = *index}), type);
}

// `type` is `:u16` or `:string[8]`, for example, or empty.
Parser::Number Parser::with_type(Number of, std::string_view type) {
  if (!of || type.empty()) return of;
  if (is_text_type(type)) return text_at(of, type);
  const auto number = type_of(type.substr(1));
  if (!type.starts_with(':') || !number) return wrong(Wrong::no_operator, type);
  return add({.what = Operator::cast,
              .bytes = number->bytes,
              .is_signed = number->is_signed,
              .is_real = number->is_real,
              .left = *of});
}

// Returns the type and reads on after it if a cast is next: `(`, which was read, a type, and `)`.
std::optional<NumberType> Parser::cast_type() {
  const size_t close = all_.find(')', position_);
  if (close == all_.npos) return std::nullopt;
  const auto type = type_of(all_.substr(position_, close - position_));
  if (type) position_ = close + 1;
  return type;
}

// Returns the type and reads on after it if a cast to a pointer to a type of the program is next,
// as of cast_type(). No value ends with a star.
std::optional<std::string_view> Parser::pointer_type() {
  constexpr std::string_view kOfNames = "_:<>, ";
  const size_t close = all_.find(')', position_);
  if (close == all_.npos) return std::nullopt;
  std::string_view type = all_.substr(position_, close - position_);
  if (!type.ends_with('*')) return std::nullopt;
  type.remove_suffix(1);
  while (type.ends_with(' ')) type.remove_suffix(1);
  for (const std::string_view word : {"const ", "struct ", "class ", "union ", "enum "})
    if (type.starts_with(word)) type.remove_prefix(word.size());
  const bool is_name =
      !type.empty() && is_letter(type.front()) && std::ranges::all_of(type, [&](char c) {
        return is_word(c) || kOfNames.find(c) != kOfNames.npos;
      });
  if (!is_name) return std::nullopt;
  position_ = close + 1;
  return type;
}

std::optional<NumberType> Parser::type_of(std::string_view text) const {
  std::vector<std::string_view> words;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == ' ') continue;
    const size_t end = std::min(text.find(' ', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  std::erase_if(words, [](std::string_view word) { return word == "const" || word == "volatile"; });
  if (const auto type = c_type(words)) return type;
  return words.size() == 1 ? number_type(words.front()) : std::nullopt;
}

// What the pointer leads to that is next, whose type a name in it has to say.
Parser::Number Parser::typed_pointee(std::string_view star) {
  const size_t first = expression_.nodes.size();
  const Number of = unary();
  if (!of) return of;
  if (!has_name_from(first)) return wrong(Wrong::pointee, star);
  return add({.what = Operator::pointee, .left = *of});
}

// What the pointer leads to that is next, after its type: `*(u32*)`.
Parser::Number Parser::pointee() {
  const std::string_view star = token_.text;
  read(Next::operand);
  const size_t close = is("(") ? all_.find(')', position_) : all_.npos;
  if (is("(") && close == all_.npos) return wrong(Wrong::pointee, star);
  if (close == all_.npos) return typed_pointee(star);
  std::string_view type = all_.substr(position_, close - position_);
  size_t stars = 0;
  while (type.ends_with('*') || type.ends_with(' ')) {
    stars += type.back() == '*' ? 1 : 0;
    type.remove_suffix(1);
  }
  // Whatever a pointer leads to, it has 8 bytes itself.
  const auto there = stars > 1 ? NumberType{.bytes = sizeof(uint64_t)} : type_of(type);
  if (stars == 0 || (stars == 1 && !there)) return typed_pointee(star);
  position_ = close + 1;
  read(Next::operand);
  const Number of = unary();
  if (of && is_text(expression_.nodes[*of])) return wrong(Wrong::text_of_pointee, all_);
  return of ? add({.what = Operator::load,
                   .bytes = there->bytes,
                   .is_signed = there->is_signed,
                   .is_real = there->is_real,
                   .left = *of})
            : of;
}

Parser::Number Parser::parenthesis() {
  const std::string_view open = token_.text;
  if (const auto type = cast_type()) {
    read(Next::operand);
    const Number of = unary();
    return of ? add({.what = Operator::cast,
                     .bytes = type->bytes,
                     .is_signed = type->is_signed,
                     .is_real = type->is_real,
                     .left = *of})
              : of;
  }
  if (const auto type = pointer_type()) {
    read(Next::operand);
    const Number of = unary();
    return of ? add({.what = Operator::pointer_to, .left = *of, .text = std::string(*type)}) : of;
  }
  read(Next::operand);
  const Number inside = either();
  if (!inside) return inside;
  if (token_.kind == Token::Kind::end) return wrong(Wrong::unclosed, open);
  if (!is(")")) return wrong_operator();
  std::string_view type = all_.substr(position_, end_of_type(position_) - position_);
  const bool is_text = is_text_type(type);
  if (!is_text) type = {};
  position_ += type.size();
  read(Next::operation);
  return is_text ? text_at(inside, type) : inside;
}

Parser::Number Parser::primary() {
  switch (token_.kind) {
    case Token::Kind::number:
      return number();
    case Token::Kind::character:
      return character();
    case Token::Kind::value:
      return value();
    case Token::Kind::name:
      return named();
    case Token::Kind::text:
      return wrong(Wrong::not_a_text, token_.text);
    case Token::Kind::end:
    case Token::Kind::sign:
      break;
  }
  return wrong(Wrong::no_value, token_.text);
}

// As in C: 0x17, 017, and 0b10.
Parser::Number Parser::number() {
  std::string_view digits = token_.text;
  if (digits.find('.') != digits.npos) return real();
  int base = 10;
  const auto has_prefix = [&](char letter) {
    return digits.size() > 2 && digits[0] == '0' && (digits[1] | ('a' - 'A')) == letter;
  };
  if (has_prefix('x') || has_prefix('b')) {
    base = has_prefix('x') ? 16 : 2;
    digits.remove_prefix(2);
  } else if (digits.size() > 1 && digits[0] == '0' && is_decimal(digits[1])) {
    base = 8;
  }
  uint64_t number = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  const std::string_view rest = digits.substr(static_cast<size_t>(end - digits.data()));
  const auto unit = std::find_if(std::begin(kUnits), std::end(kUnits),
                                 [&](const Unit& one) { return one.name == rest; });
  uint64_t scaled = 0;
  if (error != std::errc{} || unit == std::end(kUnits) ||
      __builtin_mul_overflow(number, unit->factor, &scaled))
    return wrong(Wrong::bad_number, token_.text);
  read(Next::operation);
  return add({.what = Operator::number, .number = scaled});
}

// With a unit, as others have one.
Parser::Number Parser::real() {
  const std::string_view digits = token_.text;
  double number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const std::string_view rest = digits.substr(static_cast<size_t>(end - digits.data()));
  const auto unit = std::find_if(std::begin(kUnits), std::end(kUnits),
                                 [&](const Unit& one) { return one.name == rest; });
  if (error != std::errc{} || unit == std::end(kUnits)) return wrong(Wrong::bad_number, digits);
  number *= static_cast<double>(unit->factor);
  read(Next::operation);
  return add(
      {.what = Operator::number, .is_real = true, .number = std::bit_cast<uint64_t>(number)});
}

Parser::Number Parser::character() {
  std::string_view inside = token_.text.substr(1);
  if (!inside.ends_with('\'')) return wrong(Wrong::bad_number, token_.text);
  inside.remove_suffix(1);
  constexpr std::pair<std::string_view, char> kEscapes[] = {
      {"\\n", '\n'}, {"\\t", '\t'}, {"\\r", '\r'}, {"\\0", '\0'}, {"\\\\", '\\'}, {"\\'", '\''}};
  const auto escape = std::find_if(std::begin(kEscapes), std::end(kEscapes),
                                   [&](const auto& one) { return one.first == inside; });
  char c = 0;
  if (escape != std::end(kEscapes))
    c = escape->second;
  else if (inside.size() == 1 && inside[0] != '\\')
    c = inside[0];
  else
    return wrong(Wrong::bad_number, token_.text);
  read(Next::operation);
  return add({.what = Operator::number, .number = static_cast<unsigned char>(c)});
}

// `&NAME` and `&NUMBER`: an address in the object. It is known where the place of the hit is.
Parser::Number Parser::address_of_name() {
  const std::string_view sign = token_.text;
  read(Next::operand);
  const bool is_number = token_.kind == Token::Kind::number;
  if (!is_number && token_.kind != Token::Kind::name) return wrong(Wrong::no_value, sign);
  Value value = {.sign = Value::Sign::none, .name = "&"};
  if (is_number) {
    const Number parsed = number();
    if (!parsed) return parsed;
    Node& node = expression_.nodes[*parsed];
    value.name += std::to_string(node.number);
    node = {.what = Operator::value, .value = value};
    return parsed;
  }
  const size_t end = std::min(token_.text.find_first_of(":@"), token_.text.size());
  const std::string_view type = token_.text.substr(end);
  value.name += token_.text.substr(0, end);
  read(Next::operation);
  return with_type(add({.what = Operator::value, .value = value}), type);
}

// Where a function has the word is known at its entry alone, if the word is an argument.
Parser::Number Parser::on_stack(StackWord word, const Value& part, bool at_return) {
  constexpr uint8_t kStackPointer = 4;
  Value stack = {.register_number = kStackPointer, .sign = Value::Sign::none};
  if (word.is_argument) stack.argument = Value::kOfEntry;
  Number result = add({.what = Operator::value, .value = stack});
  const auto plus = [&](uint64_t distance, bool of_return) {
    const Number left = result;
    const Number right = add({.at_return = of_return, .number = distance});
    if (left && right)
      result = add({.what = Operator::add, .left = *left, .right = *right});
    else
      result = std::nullopt;
  };
  plus(word.number * sizeof(uint64_t), false);
  if (!result) return result;
  const bool has_sign =
      part.sign == Value::Sign::signed_ || (part.sign == Value::Sign::of_site && word.is_argument);
  result = add({.what = Operator::load,
                .bytes = part.bytes,
                .is_signed = has_sign,
                .is_real = part.is_real,
                .left = *result});
  // The load is made at the return, but the argument is that of the entry.
  if (at_return) plus(0, true);
  return result;
}

Parser::Number Parser::value() {
  const std::string_view name = token_.text.substr(0, token_.text.find(':'));
  if (arguments_ != Arguments::of_return)
    for (const std::string_view later : {"$retval", "$fretval", "$latency", "$errno"})
      if (name == later) return wrong(Wrong::of_another_time, token_.text);
  std::string text(token_.text);
  const size_t at_return = text.find(kAtReturn);
  if (at_return != text.npos) {
    if (arguments_ != Arguments::of_return) return wrong(Wrong::of_another_time, token_.text);
    text.erase(at_return, kAtReturn.size());
  }
  const size_t colon = text.find(':');
  const bool is_text = colon != text.npos && is_text_type(std::string_view(text).substr(colon));
  const auto type = token_.text.substr(is_text ? token_.text.find(':') : token_.text.size());
  const auto word = stack_word(std::string_view(text).substr(0, colon), arguments_);
  if (word) text.replace(0, std::min(colon, text.size()), "%sp");
  const auto parsed = parse_value(is_text ? text.substr(0, text.find(':')) : text, arguments_);
  if (!parsed) return wrong(Wrong::bad_value, token_.text, parsed.error());
  read(Next::operation);
  const bool of_return = at_return != text.npos;
  const Number value =
      word ? on_stack(*word, *parsed, of_return)
           : add({.what = Operator::value, .at_return = of_return, .value = *parsed});
  return is_text ? text_at(value, type) : value;
}

// Words of this language and of C are no names.
Parser::Number Parser::named() {
  constexpr std::string_view kWords[] = {"in",     "if",   "and",   "or",  "not", "unsigned",
                                         "signed", "char", "short", "int", "long"};
  const std::string_view name = token_.text.substr(0, token_.text.find(':'));
  if (std::ranges::find(kWords, name) != std::end(kWords)) return wrong(Wrong::name, name);
  if (const auto number = error_named(token_.text)) {
    read(Next::operation);
    return add({.number = *number});
  }
  return value();
}

}  // namespace

Result<Expression, ExpressionError> parse_expression(std::string_view text, Arguments arguments) {
  return Parser(text, arguments).parse();
}

}  // namespace pinprick::select
