// Which formats for other tools go with which command.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/options.h"
#include "cli/render/text.h"

namespace pinprick::cli {

// Returns the message if the format that the output's name means does not go with the options.
std::optional<std::string> contradiction_of_format(const Options& options);

// Returns the message if a part of a tree is wanted, and the format has all of it. Whether a
// recording is of a tree is known once it was opened (with_recording()).
std::optional<std::string> contradiction_of_part(const Options& options);

// Returns what writes the output's format, and otherwise does as `text` does. Returns null if the
// output's name means no format. There must be no contradiction.
std::unique_ptr<Renderer> export_renderer(const Options& options, const TextRenderer& text);

}  // namespace pinprick::cli
