#include "session/typed_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "debug/calling.h"
#include "image/elf/frame_rows.h"
#include "select/value.h"
#include "session/debug_files.h"
#include "session/whole_value.h"

namespace pinprick::session {
namespace {

using debug::Type;
using select::Expression;
using When = TypedPlace::When;

constexpr uint64_t kFrameUnit = 8;
constexpr uint8_t kStackRegister = 4, kFrameRegister = 5;

// How a number of that type is shown.
action::Field::Shown shown_as(debug::DebugInfo& info, const Type& type) {
  if (type.kind != Type::Kind::pointer) return action::Field::Shown::as_it_is;
  const auto target = info.target_of(type);
  return target && target->kind == Type::Kind::function ? action::Field::Shown::symbol
                                                        : action::Field::Shown::hexadecimal;
}

// A compiler that makes a copy of a function for some callers leaves parameters out.
bool is_copy(image::Object& object, const image::Function& function) {
  const auto names = object.functions().names(function);
  return std::ranges::any_of(names, [](std::string_view name) {
    return name.find(".constprop") != name.npos || name.find(".isra") != name.npos ||
           name.find(".part") != name.npos;
  });
}

std::optional<TypedPlace::Frame> frame_at(std::span<const layout::FrameRow> rows,
                                          uint64_t from_start) {
  const auto after =
      std::ranges::upper_bound(rows, from_start, {}, [](const auto& row) { return row.from; });
  if (after == rows.begin()) return std::nullopt;
  const uint32_t rule = std::prev(after)->rule;
  if ((rule & PP_FRAME_KIND) != PP_FRAME_NORMAL) return std::nullopt;
  return TypedPlace::Frame{(rule & PP_FRAME_BY_RBP) != 0 ? kFrameRegister : kStackRegister,
                           kFrameUnit * (rule >> PP_FRAME_SIZE_SHIFT)};
}

}  // namespace

const std::vector<layout::FrameRow>& TypedNames::frames_of(const image::Object& object,
                                                           Address begin) {
  const auto [found, is_new] = frames_.try_emplace({&object, begin});
  if (!is_new) return found->second;
  for (const image::Segment& segment : object.elf().segments())
    if (segment.range.begin == begin)
      if (const auto table = object.elf().eh_frame())
        found->second = image::frame_rows(table->data, table->address, segment.range);
  return found->second;
}

std::shared_ptr<const TypedPlace> TypedNames::known_at(
    const image::Match& match, When when, std::vector<TypedPlace::Parameter> parameters,
    bool needs_types) {
  auto info = debug_info_of(*match.object);
  const bool has_own = info != nullptr;
  if (!has_own && needs_types && program_ != nullptr) info = debug_info_of(*program_);
  if (info == nullptr) return nullptr;
  auto place = std::make_shared<TypedPlace>();
  place->has_types_alone = !has_own;
  place->info = std::move(info);
  place->object = match.object;
  place->program = program_;
  place->owners = &owners_;
  place->parameters = std::move(parameters);
  place->address = match.address();
  place->when = when;
  if (!has_own) return place;
  const bool may_be_entry = match.point == nullptr && match.at_entry() && !match.each_instruction;
  if (may_be_entry) place->function = place->info->function_at(place->address);
  place->is_entry = place->function.has_value();
  place->variables = place->info->variables_at(
      place->address,
      {.of_function = place->is_entry, .line = match.line, .inlined = match.inlined});
  // The others are elsewhere at each instruction.
  if (match.each_instruction)
    std::erase_if(place->variables, [](const debug::Variable& one) { return !is_static(one); });
  if (place->is_entry) {
    place->frame = TypedPlace::Frame{kStackRegister, kFrameUnit};
    // Go has a convention of its own.
    if (!is_copy(*match.object, *match.function) && !match.object->elf().is_go())
      place->passed = debug::passed_parameters(*place->info, *place->function);
    return place;
  }
  for (const image::Segment& segment : match.object->elf().segments())
    if (segment.executable && segment.range.contains(place->address))
      place->frame = frame_at(frames_of(*match.object, segment.range.begin),
                              place->address - segment.range.begin);
  return place;
}

std::optional<UntypedName> TypedNames::resolve(const TypedPlace& place, Expression& expression) {
  if (expression.empty()) return std::nullopt;
  TypedExpression resolver(place, expression);
  auto result = resolver.resolve(expression.nodes.back());
  if (!result || !resolver.number_of(*std::move(result))) return resolver.error();
  expression = resolver.result();
  return std::nullopt;
}

std::optional<UntypedName> TypedNames::resolve(const TypedPlace& place, action::Field& field,
                                               size_t room, std::vector<Expression>& rest) {
  using Shown = action::Field::Shown;
  Expression& expression = field.value.expression;
  const bool is_raw = field.shown == Shown::raw;
  if (expression.empty() || (field.shown != Shown::as_it_is && !is_raw))
    return resolve(place, expression);
  TypedExpression resolver(place, expression);
  auto result = resolver.resolve(expression.nodes.back());
  if (!result) return resolver.error();
  if (!is_raw && resolver.is_text(*result)) {
    if (!resolver.text_of(*std::move(result), limits_.text)) return resolver.error();
    expression = resolver.result();
    action::tell_null(expression);
    return std::nullopt;
  }
  if (has_parts(place, *result)) {
    if (auto whole = whole_value(place, expression, limits_, room + 1, is_raw)) {
      expression = std::move(whole->parts.front());
      rest.assign(std::make_move_iterator(whole->parts.begin() + 1),
                  std::make_move_iterator(whole->parts.end()));
      field.layout = std::move(whole->layout);
      return std::nullopt;
    }
  }
  if (result->type) note_type(place, *result->type, field);
  if (!resolver.number_of(*std::move(result))) return resolver.error();
  expression = resolver.result();
  return std::nullopt;
}

namespace {

enum class Told : bool { parameters, all };

std::vector<std::string> shown_by_themselves(const TypedPlace& place, Told told) {
  std::vector<std::string> all;
  for (const debug::Variable& one : place.variables) {
    if ((!one.is_parameter && told == Told::parameters) || one.is_external) continue;
    const auto arguments = place.when == When::at_return ? select::Arguments::of_return
                                                         : select::Arguments::of_function;
    const auto expression = select::parse_expression(one.name, arguments);
    if (!expression || !select::has_name(*expression)) continue;
    TypedExpression resolver(place, *expression);
    const auto found = resolver.resolve(expression->nodes.back());
    if (!found || !found->type) continue;
    const bool is_text = resolver.is_text(*found), is_whole = has_parts(place, *found);
    if (!is_text && !is_whole && !debug::is_number(*found->type)) continue;
    // A call keeps few values.
    if (is_whole && place.when == When::at_return &&
        found->type->kind != Type::Kind::floating_point)
      continue;
    const bool has_place = is_text    ? resolver.text_of(*found, select::kMostText).has_value()
                           : is_whole ? whole_value(place, *expression, {}, 1, false).has_value()
                                      : resolver.number_of(*found).has_value();
    if (has_place) all.push_back(one.name);
  }
  return all;
}

}  // namespace

std::vector<std::string> TypedNames::parameters(const TypedPlace& place) {
  return shown_by_themselves(place, Told::parameters);
}

std::vector<std::string> TypedNames::variables(const TypedPlace& place) {
  return shown_by_themselves(place, Told::all);
}

std::vector<TypedNames::Described> TypedNames::described(const TypedPlace& place) {
  std::vector<Described> all;
  const auto where = [&](const debug::Variable& one) {
    using In = debug::PassedParameter::Place;
    const bool is_passed =
        place.is_entry && one.parameter != 0 && debug::is_stored_later(one.location);
    if (!is_passed) return debug::text_of(one.location);
    const auto passed =
        place.passed.empty() ? debug::PassedParameter{} : place.passed[one.parameter - 1];
    const char* const address = passed.is_address ? ", by its address" : "";
    if (passed.place == In::registers) return debug::text_of(debug::location_of(passed)) + address;
    if (passed.place == In::stack) return fmt::format("at {}(CFA){}", passed.offset, address);
    return std::string("passed in a way that is not known");
  };
  for (const debug::Variable& one : place.variables)
    all.push_back({one.type.name, one.name, where(one), one.is_parameter});
  return all;
}

std::vector<std::string> TypedNames::names(const TypedPlace& place) {
  std::vector<std::string> names;
  for (const debug::Variable& one : place.variables) names.push_back(one.name);
  return names;
}

bool TypedNames::is_text(const TypedPlace& place, const Type& type) {
  const auto target = type.kind == Type::Kind::pointer ? place.info->target_of(type) : std::nullopt;
  return target && target->kind == Type::Kind::character && target->bytes == 1;
}

void TypedNames::note_type(const TypedPlace& place, const Type& type, action::Field& field) {
  field.shown = shown_as(*place.info, type);
  for (debug::DebugInfo::Enumerator& one : place.info->enumerators_of(type))
    field.names.push_back({one.value, std::move(one.name)});
}

std::optional<Type> TypedNames::result(const TypedPlace& place) {
  return place.function ? std::optional(place.function->result) : std::nullopt;
}

}  // namespace pinprick::session
