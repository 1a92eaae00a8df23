#include "export/format.h"

#include <utility>

namespace pinprick::exports {
namespace {

constexpr std::pair<std::string_view, Format> kSuffixes[] = {
    {".folded", Format::folded}, {".pftrace", Format::perfetto}, {".ctf", Format::ctf},
    {".csv", Format::csv},       {".prom", Format::prometheus},  {".pb.gz", Format::pprof},
    {".rec", Format::recording}, {".html", Format::page}};

bool is_continuation(unsigned char byte) {
  return (byte & 0xc0) == 0x80;
}

// Returns the length of the character at the start of the text, which is not empty; 0 if there is
// none: overlong forms, surrogates and numbers above U+10FFFF are no characters.
size_t length_of_character(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if (!is_continuation(at(i))) return 0;
  const bool is_overlong = (first == 0xe0 && at(1) < 0xa0) || (first == 0xf0 && at(1) < 0x90);
  const bool is_surrogate = first == 0xed && at(1) >= 0xa0;
  const bool is_above = first == 0xf4 && at(1) >= 0x90;
  return is_overlong || is_surrogate || is_above ? 0 : length;
}

}  // namespace

std::optional<Format> format_of(std::string_view path) {
  for (const auto& [suffix, format] : kSuffixes)
    if (path.ends_with(suffix)) return format;
  return std::nullopt;
}

std::string how_to_open(Format format, std::string_view path) {
  const std::string name(path);
  switch (format) {
    case Format::folded:
      return name + " has stacks for flame graphs: open it at https://www.speedscope.app";
    case Format::perfetto:
      return name + " is a trace for Perfetto: open it at https://ui.perfetto.dev";
    case Format::ctf:
      return name + " is a trace in the Common Trace Format: `babeltrace2 " + name + "` prints it";
    case Format::csv:
      return name + " is a table: open it in a spreadsheet";
    case Format::prometheus:
      return name +
             " has metrics for Prometheus: move it to the folder that node_exporter reads "
             "(--collector.textfile.directory), or write it there";
    case Format::pprof:
      return name + " is a profile: open it with `go tool pprof -http=: " + name + "`";
    case Format::recording:
      return name + " is a recording: `pinprick report " + name + "` shows it";
    case Format::page:
      return name + " is a page: open it in a browser";
  }
  return name;
}

std::string how_to_open_difference(std::string_view path) {
  const std::string name(path);
  return name + " has stacks for a differential flame graph: draw it with `flamegraph.pl " + name +
         " > diff.svg` (https://github.com/brendangregg/FlameGraph)";
}

std::string as_utf8(std::string_view text) {
  constexpr std::string_view kReplacement = "\xef\xbf\xbd";
  std::string utf8;
  utf8.reserve(text.size());
  while (!text.empty()) {
    const size_t length = length_of_character(text);
    utf8 += length == 0 ? kReplacement : text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return utf8;
}

}  // namespace pinprick::exports
