#include "session/named_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "action/at_return.h"
#include "arch/stub.h"
#include "arch/thread_variable.h"
#include "image/pattern.h"
#include "select/operand.h"
#include "select/spec.h"
#include "session/typed_names.h"

namespace pinprick::session {
namespace {

using Of = BadExpression::Of;

struct Variable {
  Address address = 0;  // in the process
  uint8_t bytes = 8;
};

// Calls `f` with each expression of the action, and what it is for.
template <class Action, class F>
void for_each_expression(Action& action, F&& f) {
  f(action.value, Of::value);
  f(action.key, Of::key);
  f(action.sum, Of::sum);
  f(action.condition, Of::condition);
  for (auto& field : action.fields) f(field.value, Of::field);
}

bool has_names(const action::Action& action) {
  bool has = action.tells_arguments || !action.fields.empty();
  action.for_each_expression([&](const action::Computed& one) {
    has = has || select::has_name(one.expression) || select::has_error(one.expression);
  });
  return has;
}

// Returns the one variable of that name. Of several, a global one is meant. C++ mangles the names
// of those that a file keeps to itself.
std::optional<image::Symbol> variable_symbol(const std::vector<image::Symbol>& symbols,
                                             std::string_view name) {
  const std::string mangled = fmt::format("_ZL{}{}", name.size(), name);
  std::optional<image::Symbol> found;
  bool is_one = true;
  for (const image::Symbol& symbol : symbols) {
    const bool is_meant =
        symbol.kind == image::Symbol::Kind::data && (symbol.name == name || symbol.name == mangled);
    if (!is_meant) continue;
    if (found && found->global && !symbol.global) continue;
    is_one = !found || symbol.global > found->global ||
             (is_one && symbol.address == found->address && symbol.size == found->size);
    found = symbol;
  }
  return is_one ? found : std::nullopt;
}

// A variable, and the object whose it is.
struct OwnSymbol {
  const image::Object* object = nullptr;
  std::optional<image::Symbol> symbol = {};  // nullopt: there is none
};

std::optional<Variable> variable_in(const OwnSymbol& own) {
  if (!own.symbol) return std::nullopt;
  const uint64_t size = own.symbol->size;
  const Range addresses = {own.symbol->address, own.symbol->address + size};
  if ((size != 1 && size != 2 && size != 4 && size != 8) || !is_readable(*own.object, addresses))
    return std::nullopt;
  return Variable{own.symbol->address + own.object->bias(), static_cast<uint8_t>(size)};
}

// A library uses the program's variable instead of its own if that exports one of the same name: a
// copy that the linker has made for the program's code, as of `environ`.
OwnSymbol find_symbol(const image::ProcessImage& image, const image::Object& object,
                      std::string_view name) {
  const auto exported = object.elf().dynamic_symbols();
  const auto of_library = variable_symbol(exported, name);
  const image::Object& program = *image.objects.front();
  if (of_library && of_library->global && &object != &program)
    if (const auto copy = variable_symbol(program.elf().dynamic_symbols(), name))
      return {&program, copy};
  const auto all = object.elf().symtab();
  const auto own = variable_symbol(all, name);
  return {&object, own ? own : of_library};
}

// Returns the address that &NAME or &NUMBER means; nullopt if there is no such variable.
std::optional<Address> find_address(const image::ProcessImage& image, const image::Object& object,
                                    std::string_view name) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error == std::errc() && end == name.data() + name.size()) return number + object.bias();
  const OwnSymbol found = find_symbol(image, object, name);
  return found.symbol ? std::optional(found.symbol->address + found.object->bias()) : std::nullopt;
}

// The file of which library that has prototypes is it? Empty: of none.
std::string_view library_of(const image::Object& object) {
  for (const std::string_view library : select::libraries_with_prototypes())
    for (const std::string& name : object.names())
      if (image::is_library(name, library)) return library;
  return {};
}

std::optional<select::Prototype> prototype_in(std::string_view library, const image::Match& match) {
  if (library.empty() || match.point != nullptr) return std::nullopt;
  // Several names that were asked for are `one, another`.
  const std::string_view asked = match.function_name.substr(0, match.function_name.find(','));
  if (auto found = select::find_prototype(library, asked)) return found;
  for (const std::string_view name : match.object->functions().names(*match.function))
    if (auto found = select::find_prototype(library, name)) return found;
  return std::nullopt;
}

// Returns where each thread has its errno, as the code says that returns its address.
std::optional<arch::ThreadVariable> find_errno(const image::ProcessImage& image) {
  for (const auto& object : image.objects)
    for (const image::Function* const function :
         object->functions_named(std::array<std::string_view, 1>{"__errno_location"})) {
      if (function == nullptr) continue;
      auto found = arch::returned_thread_variable(object->code(*function), function->range.begin);
      if (!found) continue;
      if (found->offset_at != 0) {
        constexpr uint64_t kWord = 8;
        if (!is_readable(*object, {found->offset_at, found->offset_at + kWord})) continue;
        found->offset_at += object->bias();
      }
      return found;
    }
  return std::nullopt;
}

// Resolves the names of actions at one match after the other.
class Names {
 public:
  Names(const image::ProcessImage& image, const action::ValueLimits& limits)
      : image_(image), typed_(image.objects.front().get(), limits) {}

  // Replaces the names in `action` by what they mean at the match. Returns why that is impossible,
  // with the expression and the name at fault.
  struct Failure {
    plan::Reason reason;
    Of of = Of::value;
    std::string name;
    std::string text;      // of the expression
    std::string why = {};  // a sentence, if the reason does not say it all
  };
  std::optional<Failure> resolve(action::Action& action, const image::Match& match);

  // Returns what debug information there is of the match's place; null if there is none.
  std::shared_ptr<const TypedNames::Place> known_at(const action::Action& action,
                                                    const image::Match& match);
  std::vector<std::string> names_at(const TypedNames::Place& place) { return typed_.names(place); }

 private:
  void add_arguments(action::Action& action, const image::Match& match,
                     const std::optional<select::Prototype>& prototype,
                     const TypedNames::Place* place);
  void add_typed(action::Action& action, const TypedNames::Place& place);
  void note_result(action::Action& action, const TypedNames::Place& place);
  void add_error(action::Action& action, const select::Prototype& prototype);
  std::optional<Failure> resolve_types(action::Action& action, const TypedNames::Place* place);
  const std::optional<arch::ThreadVariable>& error();
  static void add_field(action::Action& action, size_t at, const std::string& text);
  static void note_types(action::Action& action, const std::optional<select::Prototype>& prototype);
  std::optional<plan::Reason> resolve(select::Value& value, const image::Match& match,
                                      const std::optional<select::Prototype>& prototype);
  const std::optional<Variable>& variable(const image::Object& object, const std::string& name);

  const image::ProcessImage& image_;
  TypedNames typed_;
  const image::Object* object_ = nullptr;  // of the last match
  std::string_view library_;
  std::map<std::pair<const image::Object*, std::string>, std::optional<Variable>> variables_;
  std::optional<std::optional<arch::ThreadVariable>> error_;  // nullopt: it was not looked for yet
};

const std::optional<Variable>& Names::variable(const image::Object& object,
                                               const std::string& name) {
  const auto [found, is_new] = variables_.try_emplace({&object, name});
  if (is_new) found->second = variable_in(find_symbol(image_, object, name));
  return found->second;
}

std::optional<plan::Reason> Names::resolve(select::Value& value, const image::Match& match,
                                           const std::optional<select::Prototype>& prototype) {
  const select::Parameter* const parameter = prototype ? prototype->find(value.name) : nullptr;
  if (parameter != nullptr) {
    if (parameter->kind == select::Parameter::Kind::floating_point)
      return plan::Reason::argument_no_integer;
    if (parameter->argument == 0) return plan::Reason::argument_elsewhere;
    if (!match.at_entry() || match.each_instruction) return plan::Reason::argument_at_offset;
    value = select::value_of(*parameter, value);
    return std::nullopt;
  }
  const auto& found = variable(*match.object, value.name);
  if (!found) return plan::Reason::unknown_name;
  const bool has_type = value.sign != select::Value::Sign::of_site;
  if (has_type && value.bytes > found->bytes) return plan::Reason::unknown_name;
  if (!has_type) value.bytes = found->bytes;
  if (!has_type) value.sign = select::Value::Sign::none;
  value.variable = found->address;
  value.name.clear();
  return std::nullopt;
}

const std::optional<arch::ThreadVariable>& Names::error() {
  if (!error_) error_ = find_errno(image_);
  return *error_;
}

constexpr std::string_view kResult = "$retval", kError = "$errno";

// Is the result how many bytes the function has written? That of fread() is another number.
bool returns_length_of(const select::Parameter& output, const select::Prototype& prototype) {
  constexpr std::string_view kReaders[] = {"SSL_read", "SSL_peek", "BIO_read", "gzread"};
  const bool is_size = prototype.result == "ssize_t" || prototype.result == "size_t";
  return prototype.find(output.length) != nullptr &&
         (is_size || std::ranges::find(kReaders, prototype.function) != std::end(kReaders));
}

// Returns the expression of what a function has written when it has returned.
std::string output_of(const select::Parameter& output, const select::Prototype& prototype) {
  if (returns_length_of(output, prototype))
    return fmt::format("{}@ret:bytes[{}:s{}]", output.name, kResult, 8 * prototype.returned->bytes);
  if (output.type == "char *") return fmt::format("{}@ret:string", output.name);
  return fmt::format("{}@ret:bytes[{}]", output.name, output.length);
}

// Does the prototype have all names that are in the expression? Those of macros are not.
bool has_names_of(const select::Prototype& prototype, const select::Expression& expression) {
  return std::ranges::all_of(expression.nodes, [&](const select::Node& node) {
    if (node.value.name.empty()) return true;
    const select::Parameter* const parameter = prototype.find(node.value.name);
    return parameter != nullptr && parameter->argument != 0;
  });
}

// Has the user asked for it, maybe with a type after it?
bool tells(const action::Action& action, std::string_view name) {
  return std::ranges::any_of(action.fields, [&](const action::Field& field) {
    const std::string_view text = field.value.text;
    return field.name.empty() && text.substr(0, text.find(':')) == name;
  });
}

// Adds nothing if there is no room, or if the text is no expression.
void Names::add_field(action::Action& action, size_t at, const std::string& text) {
  const auto arguments =
      action.at_return ? select::Arguments::of_return : select::Arguments::of_point;
  auto expression = select::parse_expression(text, arguments);
  if (!expression || action.fields.size() >= arch::kMostEventValues) return;
  action::tell_null(*expression);
  action.fields.insert(action.fields.begin() + static_cast<ptrdiff_t>(at),
                       {.value = {*std::move(expression), text}});
}

void Names::add_arguments(action::Action& action, const image::Match& match,
                          const std::optional<select::Prototype>& prototype,
                          const TypedNames::Place* place) {
  constexpr uint8_t kMostOfPoint = 12;
  size_t at = 0;
  const auto add = [&](const std::string& text) {
    const size_t before = action.fields.size();
    add_field(action, at, text);
    at += action.fields.size() - before;
  };
  const auto is_told = [&](std::string_view name) { return tells(action, name); };
  for (uint8_t n = 1; match.point != nullptr && n <= kMostOfPoint; ++n)
    if (const auto name = fmt::format("$arg{}", n);
        select::argument_of(match.point->arguments, {.argument = n}) && !is_told(name))
      add(name);
  if (!prototype && place != nullptr && match.point == nullptr) add_typed(action, *place);
  if (!prototype) return;
  using Is = select::Parameter::Kind;
  const auto with_type = [](std::string_view name, select::Parameter::Kind kind) {
    return fmt::format("{}{}", name, kind == Is::text ? ":string" : "");
  };
  for (const select::Parameter& one : prototype->parameters)
    if (!action.leaves_out_arguments && !one.name.empty() && one.argument != 0 &&
        !is_told(one.name)) {
      std::string text = with_type(one.name, one.kind);
      if (one.kind == Is::bytes) text = fmt::format("{}:bytes[{}]", one.name, one.length);
      if (one.kind == Is::output_bytes && action.at_return) text = output_of(one, *prototype);
      const auto expression = select::parse_expression(text, select::Arguments::of_return);
      const bool is_known = expression && has_names_of(*prototype, *expression);
      add(is_known ? text : std::string(one.name));
    }
  if (!action.at_return || !prototype->returned || is_told(kResult)) return;
  at = action.fields.size() - 1;  // before the call's time
  add(with_type(kResult, prototype->returned->kind));
  if (prototype->failure != select::Prototype::Failure::none && !is_told(kError) && error())
    add_error(action, *prototype);
}

// It is 0 if the call has not failed, as errno says nothing then.
void Names::add_error(action::Action& action, const select::Prototype& prototype) {
  const bool is_null = prototype.failure == select::Prototype::Failure::null;
  const size_t before = action.fields.size();
  add_field(action, before - 1,
            fmt::format("{}*({}:s{}=={})", kError, kResult, 8 * prototype.returned->bytes,
                        is_null ? "0" : "-1"));
  if (action.fields.size() == before) return;
  action::Field& field = action.fields[before - 1];
  field.name = kError;
  field.shown = action::Field::Shown::error;
}

// A result is as wide as the prototype says, and what is above is no part of it.
void Names::note_types(action::Action& action, const std::optional<select::Prototype>& prototype) {
  if (!prototype) return;
  for (action::Field& field : action.fields) {
    std::vector<select::Node>& nodes = field.value.expression.nodes;
    if (nodes.size() != 1) continue;
    select::Value& value = nodes.front().value;
    if (select::split_form(field.value.text).value == kResult && prototype->returned) {
      value.bytes = prototype->returned->bytes;
      value.sign =
          prototype->returned->is_signed ? select::Value::Sign::signed_ : select::Value::Sign::none;
      if (prototype->returned->is_pointer && field.shown == action::Field::Shown::as_it_is)
        field.shown = action::Field::Shown::hexadecimal;
    } else if (const auto* const parameter = prototype->find(value.name)) {
      const bool is_hexadecimal =
          parameter->is_pointer || parameter->kind == select::Parameter::Kind::flags;
      if (is_hexadecimal && field.shown == action::Field::Shown::as_it_is)
        field.shown = action::Field::Shown::hexadecimal;
    }
  }
}

std::shared_ptr<const TypedNames::Place> Names::known_at(const action::Action& action,
                                                         const image::Match& match) {
  bool needs_it = action.tells_arguments || tells(action, kResult), needs_types = false;
  action.for_each_expression([&](const action::Computed& one) {
    needs_it = needs_it || select::has_name(one.expression);
    needs_types = needs_types || session::needs_types(one.expression);
  });
  if (!needs_it) return nullptr;
  std::vector<TypedPlace::Parameter> parameters;
  if (const auto prototype = match.at_entry() ? prototype_of(match) : std::nullopt)
    for (const select::Parameter& one : prototype->parameters)
      parameters.push_back({std::string(one.name), std::string(one.type)});
  return typed_.known_at(
      match, action.times_call() ? TypedNames::When::at_return : TypedNames::When::at_hit,
      std::move(parameters), needs_types);
}

// How many parts may a field have besides its first one, if others have so many? A call keeps few.
static size_t room_for_parts(const action::Action& action, const action::Field& field,
                             size_t parts) {
  const auto& nodes = field.value.expression.nodes;
  const bool is_kept = action.at_return && std::ranges::none_of(nodes, &select::Node::at_return);
  size_t most = arch::kMostEventValues;
  if (is_kept) {
    action::Action others = action;
    others.fields.clear();
    std::vector<select::Expression> kept;
    action::add_kept(others, action::Entry::decides, kept);
    most = action::kMostKept - std::min(action::kMostKept, kept.size());
  }
  // Those that come later are to have some, too.
  constexpr size_t kReserve = 4;
  const size_t later = static_cast<size_t>(
      std::count_if(&field + 1, action.fields.data() + action.fields.size(),
                    [](const action::Field& one) { return has_name(one.value.expression); }));
  const size_t room = most - std::min(most, action.fields.size() + parts);
  return room - std::min(room / 2, kReserve * later);
}

// Replaces the names that debug information knows. A field may become several.
std::optional<Names::Failure> Names::resolve_types(action::Action& action,
                                                   const TypedNames::Place* place) {
  std::optional<Failure> failure;
  std::map<const action::Field*, std::vector<select::Expression>> rests;
  size_t parts = 0;
  for_each_expression(action, [&](action::Computed& one, Of of) {
    if (failure || !select::has_name(one.expression)) return;
    std::optional<UntypedName> untyped;
    const auto field = std::ranges::find_if(
        action.fields, [&](const action::Field& each) { return &each.value == &one; });
    if (place == nullptr) {
      if (needs_types(one.expression))
        untyped =
            UntypedName{plan::Reason::unknown_name, {}, "the types of its names are not known"};
    } else if (field == action.fields.end()) {
      untyped = typed_.resolve(*place, one.expression);
    } else {
      auto& rest = rests[&*field];
      untyped = typed_.resolve(*place, *field, room_for_parts(action, *field, parts), rest);
      parts += rest.size();
    }
    // The type of a name says whether the value is a floating-point number.
    if (!untyped && field != action.fields.end()) action::tell_real(*field);
    if (untyped)
      failure =
          Failure{untyped->reason, of, std::move(untyped->name), one.text, std::move(untyped->why)};
  });
  if (failure || parts == 0) return failure;
  std::vector<action::Field> all;
  for (action::Field& field : action.fields) {
    const std::string text = field.value.text;
    auto& rest = rests[&field];
    all.push_back(std::move(field));
    for (select::Expression& one : rest)
      all.push_back({.value = {std::move(one), text}, .shown = action::Field::Shown::part});
  }
  action.fields = std::move(all);
  return failure;
}

static bool is_floating(const debug::Type& type) {
  return type.kind == debug::Type::Kind::floating_point &&
         (type.bytes == sizeof(float) || type.bytes == sizeof(double));
}

// A floating-point number is returned in %xmm0.
static action::Field floating_result(uint64_t bytes) {
  select::Value value = {.sign = select::Value::Sign::none};
  value.is_vector = true;
  action::Field field = {
      .value = {{{{.what = select::Operator::value, .value = value}}}, std::string(kResult)}};
  field.layout = action::ValueLayout{.kind = action::ValueLayout::Kind::floating,
                                     .bits = static_cast<uint8_t>(8 * bytes)};
  return field;
}

// Adds what the function is called with, and what it returns.
void Names::add_typed(action::Action& action, const TypedNames::Place& place) {
  size_t at = 0;
  // Each takes a value of those that a call keeps.
  const size_t most = action.at_return ? action::kMostKept + 1 : arch::kMostEventValues;
  if (!action.leaves_out_arguments)
    for (const std::string& name :
         action.tells_variables ? typed_.variables(place) : typed_.parameters(place)) {
      const size_t before = action.fields.size();
      if (before >= most || tells(action, name)) continue;
      add_field(action, at, name);
      at += action.fields.size() - before;
    }
  const auto result = action.at_return ? typed_.result(place) : std::nullopt;
  if (result && is_floating(*result) && !tells(action, kResult) && action.fields.size() < most)
    action.fields.insert(action.fields.end() - 1, floating_result(result->bytes));
  const bool is_number = result && result->bytes != 0 && result->bytes <= 8 &&
                         result->kind != debug::Type::Kind::floating_point &&
                         result->kind != debug::Type::Kind::structure;
  if (!is_number || tells(action, kResult)) return;
  const char* const type = TypedNames::is_text(place, *result) ? ":string" : "";
  add_field(action, action.fields.size() - 1, std::string(kResult) + type);  // before its time
}

// As note_types().
void Names::note_result(action::Action& action, const TypedNames::Place& place) {
  using Shown = action::Field::Shown;
  const auto result = typed_.result(place);
  if (!result || !(debug::is_number(*result) || is_floating(*result))) return;
  for (action::Field& field : action.fields) {
    std::vector<select::Node>& nodes = field.value.expression.nodes;
    if (nodes.size() != 1 || field.value.text != kResult || field.shown != Shown::as_it_is)
      continue;
    if (result->kind == debug::Type::Kind::floating_point) {
      action::Field floating = floating_result(result->bytes);
      field.value = std::move(floating.value);
      field.layout = std::move(floating.layout);
      continue;
    }
    TypedNames::note_type(place, *result, field);
    nodes.front().value.bytes = static_cast<uint8_t>(result->bytes);
    nodes.front().value.sign =
        result->is_signed ? select::Value::Sign::signed_ : select::Value::Sign::none;
  }
}

std::optional<Names::Failure> Names::resolve(action::Action& action, const image::Match& match) {
  // Matches are by object.
  if (std::exchange(object_, match.object) != match.object) library_ = library_of(*match.object);
  const auto prototype = prototype_in(library_, match);
  const auto place = known_at(action, match);
  // Elsewhere it does not say where parameters are.
  const bool has_prototype = prototype && match.at_entry() && !action.tells_variables;
  const auto at_entry = has_prototype ? prototype : std::nullopt;
  if (action.tells_arguments) add_arguments(action, match, at_entry, place.get());
  note_types(action, at_entry);
  if (place != nullptr && !has_prototype) note_result(action, *place);
  std::optional<Failure> failure = resolve_types(action, place.get());
  for_each_expression(action, [&](action::Computed& one, Of of) {
    for (select::Node& node : one.expression.nodes) {
      if (!failure && node.value.is_error) {
        if (const auto& found = error()) {
          node.value.variable = found->offset_at;
          node.value.thread_offset = found->offset;
        } else {
          failure = Failure{plan::Reason::unknown_name, of, std::string(kError), one.text};
        }
      }
      if (failure || node.value.name.empty()) continue;
      const std::string name = node.value.name;
      if (name.starts_with('&')) {
        const auto address = find_address(image_, *match.object, name.substr(1));
        // As variables are, what is there is read at the return.
        if (address) node = {.at_return = action.times_call(), .number = *address};
        if (!address) failure = Failure{plan::Reason::unknown_name, of, name, one.text};
        continue;
      }
      if (const auto reason = resolve(node.value, match, prototype))
        failure = Failure{*reason, of, name, one.text};
    }
  });
  if (failure) return failure;
  std::vector<select::Expression> kept;
  action::add_kept(action, action::Entry::decides, kept);
  if (kept.size() > action::kMostKept) return Failure{plan::Reason::too_many_kept, {}, {}, {}};
  return std::nullopt;
}

std::vector<std::string> names_of(const select::Prototype& prototype) {
  std::vector<std::string> names;
  for (const select::Parameter& one : prototype.parameters)
    if (!one.name.empty() && one.argument != 0)
      names.push_back(fmt::format("{} ($arg{})", one.name, one.argument));
    else if (!one.name.empty())
      names.emplace_back(one.name);
  return names;
}

UnknownName error_of(const Names::Failure& failure, const Selection& selection,
                     const action::Action& action, const image::Match& match, Names& names) {
  UnknownName error;
  error.of = failure.of;
  error.point = selection.wanted[match.pattern].text() +
                std::string(action.at_return ? select::kReturnMark : "");
  error.text = failure.text;
  error.name = failure.name;
  error.reason = failure.reason;
  error.function = match.function_name;
  error.object = match.object->name();
  error.is_point = match.point != nullptr;
  error.why = failure.why;
  if (const auto place = names.known_at(action, match)) error.variables = names.names_at(*place);
  if (const auto prototype = prototype_of(match)) {
    error.has_prototype = true;
    error.parameters = names_of(*prototype);
  }
  return error;
}

}  // namespace

std::optional<select::Prototype> prototype_of(const image::Match& match) {
  return prototype_in(library_of(*match.object), match);
}

bool is_readable(const image::Object& object, Range addresses) {
  const auto& segments = object.elf().segments();
  return addresses.begin < addresses.end &&
         std::any_of(segments.begin(), segments.end(), [&](const image::Segment& segment) {
           return segment.readable && segment.range.contains(addresses);
         });
}

std::optional<UnknownName> resolve_names(const image::ProcessImage& image,
                                         const Selection& selection,
                                         std::vector<image::Match>& matches,
                                         action::Actions& actions,
                                         std::vector<placement::Skipped>& skipped) {
  const auto& all = selection.actions.all();
  if (std::none_of(all.begin(), all.end(), has_names)) return std::nullopt;
  Names names(image, selection.limits);
  std::vector<bool> is_resolved(all.size());
  std::map<uint32_t, UnknownName> errors;  // by action, those of the first match
  std::erase_if(matches, [&](const image::Match& match) {
    const uint32_t number = selection.actions.number_of(match.pattern);
    if (!has_names(all[number])) return false;
    action::Action here = all[number];
    const auto failure = names.resolve(here, match);
    if (!failure) {
      is_resolved[number] = true;
      actions.add_in(placement::scope_of(match), match.pattern, std::move(here));
      return false;
    }
    skipped.push_back({match, {failure->reason, match.site - match.object->bias()}});
    if (!errors.contains(number))
      errors.emplace(number, error_of(*failure, selection, all[number], match, names));
    return true;
  });
  for (auto& [number, error] : errors)
    if (!is_resolved[number]) return std::move(error);
  return std::nullopt;
}

}  // namespace pinprick::session
