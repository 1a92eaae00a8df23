// `pinprick ftrace`: the kernel's words for tracing functions, and what they mean in those of trace
// and latency (docs/ftrace.md).
//
// For options.cc, while the command line is parsed.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/options.h"

namespace pinprick::cli {

void add_ftrace(CLI::App& app, Options& options);

// Makes the options those of `trace`, or with --profile of `latency`.
void become_traced_functions(Options& options);

}  // namespace pinprick::cli
