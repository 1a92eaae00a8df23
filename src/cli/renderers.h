// Makes the renderer that an invocation has asked for, and opens the file that it writes.
#pragma once

#include <cstdio>
#include <memory>

#include "base/result.h"
#include "cli/options.h"
#include "cli/render/renderer.h"

namespace pinprick::cli {

struct OpenRenderer {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file = {nullptr, &std::fclose};
  std::unique_ptr<Renderer> renderer = nullptr;  // which writes it
};

// What is said to people, besides results.
enum class Notes : bool { left_out, printed };

// Fails with the errno if the file cannot be written. `options` must outlive the renderer.
Result<OpenRenderer, int> open_renderer(const Options& options, Notes notes = Notes::printed);

}  // namespace pinprick::cli
