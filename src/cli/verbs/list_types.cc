// pinprick list --types: the layouts of structures, as debug information has them.
#include <optional>
#include <string>
#include <vector>

#include "cli/messages/type_messages.h"
#include "cli/object_store.h"
#include "cli/verbs/verbs.h"
#include "debug/type_layout.h"
#include "image/loader.h"
#include "session/debug_files.h"
#include "session/subject.h"

namespace pinprick::cli {
namespace {

// Adds the structures that have the name, of the first object that has any, or of all the objects
// that it names. Returns what is wrong if there are none.
std::optional<Message> add_layouts(image::ProcessImage& image, const std::string& text,
                                   std::vector<LayoutRow>& rows) {
  const auto pattern = image::Pattern::parse(text, image::PatternSyntax::glob);
  if (!pattern) return message(session::SelectionError(pattern.error()));
  const size_t before = rows.size();
  bool has_information = false;
  for (const auto& object : image.objects) {
    if (!pattern->matches_object(object->names())) continue;
    const auto info = session::debug_info_of(*object);
    if (info == nullptr) continue;
    has_information = true;
    for (const debug::Type& type : info->find_structures(pattern->function()))
      rows.push_back({object->name(), debug::layout_of(*info, type)});
    if (rows.size() != before && !pattern->names_object()) break;
  }
  if (rows.size() != before) return std::nullopt;
  return no_structure(text, has_information);
}

int list_layouts(image::ProcessImage& image, const Options& options, Renderer& renderer) {
  std::vector<LayoutRow> rows;
  for (const std::string& text : options.patterns)
    if (const auto wrong = add_layouts(image, text, rows)) return give_up(renderer, *wrong);
  renderer.layouts(rows);
  return renderer.is_broken() ? kFailed : kOk;
}

}  // namespace

int list_types(const Options& options, Renderer& renderer) {
  if (!options.file.empty()) {
    auto image = image::load_file(options.file, &object_store());
    if (!image) return give_up(renderer, message(image.error()));
    return list_layouts(*image, options, renderer);
  }
  int status = kOk;
  for (const pid_t pid : options.pids) {
    auto subject = session::look_at(pid, object_store());
    if (!subject) return give_up(renderer, message(subject.error()));
    if (const int result = list_layouts(*subject->image, options, renderer); result != kOk)
      status = result;
  }
  return status;
}

}  // namespace pinprick::cli
