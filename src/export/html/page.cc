#include "export/html/page.h"

#include <fmt/format.h>

#include "export/html/json_text.h"

extern "C" {
extern const char pinprick_page_html[], pinprick_page_html_end[];
extern const char pinprick_page_css[], pinprick_page_css_end[];
extern const char pinprick_page_js[], pinprick_page_js_end[];
}

namespace pinprick::exports {
namespace {

void append(std::string& list, std::string_view element) {
  if (!list.empty()) list += ",\n";
  list += element;
}

}  // namespace

void Page::add_fact(std::string_view name, std::string_view text) {
  append(facts_, fmt::format("[{},{}]", json_text(name), json_text(text)));
}

void Page::add_warning(std::string_view text) {
  append(warnings_, json_text(text));
}

uint32_t Page::add_function(std::string_view name, std::string_view object) {
  append(names_, json_text(name));
  append(objects_, json_text(object));
  return functions_++;
}

void Page::add(const Table& table) {
  append(tables_, table.json());
}

void Page::add(const FlameGraph& paths, std::string_view title, std::string_view unit,
               std::string_view note) {
  append(flames_,
         fmt::format(R"({{"title":{},"unit":{},"note":{},"left_out":{},{}}})", json_text(title),
                     json_text(unit), json_text(note), paths.left_out(), paths.json()));
}

void Page::add(Timeline& timeline) {
  timeline_ = timeline.json();
}

// Each mark of page.html is replaced by what it names.
void Page::write(const std::function<void(std::string_view)>& write) const {
  std::string_view rest(pinprick_page_html, pinprick_page_html_end);
  const auto up_to = [&](std::string_view mark) {
    const size_t at = rest.find(mark);
    write(rest.substr(0, at));
    rest.remove_prefix(at + mark.size());
  };
  up_to("@style@");
  write({pinprick_page_css, pinprick_page_css_end});
  up_to("@data@");
  write(fmt::format(R"({{"start_ns":{},"facts":[{}],"warnings":[{}],)", start_ns_, facts_,
                    warnings_));
  const std::pair<std::string_view, const std::string&> lists[] = {
      {"names", names_}, {"objects", objects_}, {"tables", tables_}, {"flames", flames_}};
  for (const auto& [name, list] : lists) {
    write(fmt::format("\"{}\":[", name));
    write(list);
    write("],\n");
  }
  write("\"timeline\":{");
  write(timeline_);
  write("}}");
  up_to("@script@");
  write({pinprick_page_js, pinprick_page_js_end});
  write(rest);
}

}  // namespace pinprick::exports
