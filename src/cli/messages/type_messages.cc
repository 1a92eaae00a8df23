#include "cli/messages/type_messages.h"

#include <fmt/format.h>

namespace pinprick::cli {

Message no_structure(std::string_view name, bool has_information) {
  return {"nothing_matched",
          has_information
              ? fmt::format("no structure is called '{}' in the debug information", name)
              : fmt::format(
                    "'{}': there is no debug information, which alone knows structures; compile "
                    "with -g, or install it",
                    name),
          kNothingMatched};
}

}  // namespace pinprick::cli
