// A file that others read at any time: each of its states is written apart, and then takes the
// place of the one before.
#pragma once

#include <string>
#include <string_view>

namespace pinprick::cli {

// Returns 0, or the errno with which it failed: then the file is as it was before.
int replace_file(const std::string& path, std::string_view text);

// Returns 0, or the errno with which replace_file() would fail. Leaves the file as it is.
int why_not_replaceable(const std::string& path);

}  // namespace pinprick::cli
