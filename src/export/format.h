// The formats that `-o FILE` writes for other tools, by the end of the file's name. Pure.
//
// The module's folder is `export`, but its namespace is `exports`: `export` is a keyword of C++.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pinprick::exports {

// Only pinprick itself reads a recording.
enum class Format : uint8_t { folded, perfetto, ctf, csv, prometheus, pprof, recording, page };

// Returns nullopt if the name means no format: the file is then for people, or JSON.
std::optional<Format> format_of(std::string_view path);

// Returns one sentence for people, without a period: what the file is, and what opens it.
std::string how_to_open(Format format, std::string_view path);

// The same of a file with two numbers for each stack, before and after.
std::string how_to_open_difference(std::string_view path);

// Returns the text as UTF-8. Each byte that is none becomes U+FFFD: readers of these formats refuse
// a file with wrong bytes, and names come from other programs.
std::string as_utf8(std::string_view text);

}  // namespace pinprick::exports
