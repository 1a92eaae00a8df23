#include "library/process/own_image.h"

#include <unistd.h>

#include "base/process_folder.h"
#include "library/api/error.h"
#include "target/memory.h"
#include "target/self_target.h"

namespace pinprick::library {

Result<bool, SystemError> OwnImage::refresh() {
  const auto memory = target::Memory::open(::getpid());
  if (!memory) return fail(memory.error());
  auto sessions = AttachedSessions::look(*memory);
  if (!sessions) return fail(sessions.error());
  if (!sessions->has_same_sessions(sessions_)) forget();
  std::string folder = process_folder(::getpid());
  if (folder != folder_) forget();
  const LoaderState now = LoaderState::now();
  if (loaded_ && loaded_->holds(now)) return false;
  sessions_ = *std::move(sessions);
  const auto reader = [this](Address at, std::span<uint8_t> out) {
    if (!target::read_own_memory(at, out)) return false;
    restore_(at, out);
    sessions_.put_back(at, out);
    return true;
  };
  auto loaded = image::load_process(::getpid(), reader, nullptr, image::ElfFile::Descriptor::none);
  if (!loaded) return fail(loaded.error());
  image_ = *std::move(loaded);
  loaded_ = now;
  folder_ = std::move(folder);
  return true;
}

std::optional<image::Match> OwnImage::at(Address address) const {
  image::Object* const object = image_.object_at(address);
  if (object == nullptr) return std::nullopt;
  const image::Function* const function = object->functions().find(address - object->bias());
  if (function == nullptr) return std::nullopt;
  image::Match match;
  match.object = object;
  match.function = function;
  match.site = address;
  const auto names = object->functions().names(*function);
  match.function_name =
      object->function_name(*function, names.empty() ? std::string_view() : names.front());
  return match;
}

Result<std::vector<image::Match>, Error> OwnImage::matching(std::string_view text) {
  const auto error = [&](Cause cause, std::string_view detail = {}) {
    return fail(error_of(cause, std::string(text), detail));
  };
  auto pattern = image::Pattern::parse(text, image::PatternSyntax::glob);
  if (!pattern) return error(Cause::bad_pattern, image::explanation(pattern.error()));
  if (pattern->names_points())
    return error(Cause::bad_pattern, "the library has no probes at SDT points");
  if (pattern->names_lines())
    return error(Cause::bad_pattern, "the library does not know lines of source");
  if (pattern->names_inlined())
    return error(Cause::bad_pattern, "the library does not know inlined functions");
  auto matches = image::match_patterns(image_, {*std::move(pattern)}, {});
  if (matches.matches.empty()) return error(Cause::not_found);
  return std::move(matches.matches);
}

Result<image::Match, Error> OwnImage::find(const Where& where) {
  if (where.address() != nullptr) {
    const auto match = at(reinterpret_cast<Address>(*where.address()));
    if (!match) return fail(error_of(Cause::not_found, text_of(where)));
    return *match;
  }
  const auto matches = matching(*where.name());
  if (!matches) return fail(matches.error());
  if (matches->size() > 1) return fail(error_of(Cause::ambiguous, *where.name()));
  return matches->front();
}

}  // namespace pinprick::library
