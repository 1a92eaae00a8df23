#include "select/span.h"

#include <algorithm>

#include "select/spec.h"

namespace pinprick::select {
namespace {

// Returns the position of the next two dots that are not part of more.
size_t find_dots(std::string_view spec, size_t from) {
  while (true) {
    const size_t at = spec.find("..", from);
    if (at == spec.npos) return at;
    const size_t end = std::min(spec.find_first_not_of('.', at), spec.size());
    if (end == at + 2) return at;
    from = end;
  }
}

std::string_view trimmed(std::string_view text) {
  while (text.ends_with(' ')) text.remove_suffix(1);
  while (text.starts_with(' ')) text.remove_prefix(1);
  return text;
}

}  // namespace

// A condition may have dots of its own: `in {1..5}`.
bool is_span(std::string_view spec) {
  return find_dots(split_spec(spec).point, 0) != spec.npos;
}

Result<SpanPoints, SpanError> parse_span(std::string_view spec) {
  const size_t dots = find_dots(spec, 0);
  if (dots == spec.npos) return fail(SpanError::no_end);
  if (find_dots(spec, dots + 2) != spec.npos) return fail(SpanError::several);
  const SpanPoints points = {trimmed(spec.substr(0, dots)), trimmed(spec.substr(dots + 2))};
  if (points.start.empty()) return fail(SpanError::no_start);
  if (points.end.empty()) return fail(SpanError::no_end);
  return points;
}

}  // namespace pinprick::select
