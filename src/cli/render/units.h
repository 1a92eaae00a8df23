// Formats numbers for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace pinprick::cli {

std::string with_commas(uint64_t value);  // 1,234,567
// "1 function", "1,234 functions", or with another word for several.
std::string plural(size_t n, const std::string& what, const std::string& several);
std::string plural(size_t n, const std::string& what);
std::string duration_ns(double ns);       // 85ns 20.3us 1.44ms 2.10s
std::string rate(double per_second);      // 24.1k
std::string magnitude(double value);      // 812 4,096 16.8M; for any number from 0 on
std::string byte_size(uint64_t bytes);    // 812 KB, 82.0 MB; in units of 1,024 bytes
std::string percentage(double fraction);  // 52.4%

}  // namespace pinprick::cli
