#include "base/machine.h"

#include <sys/utsname.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "base/fd.h"

namespace pinprick {

const std::string& boot_id() {
  static const std::string id = [] {
    auto text = read_file("/proc/sys/kernel/random/boot_id");
    if (!text) return std::string();
    std::erase_if(*text, [](char c) { return c == '-' || c == '\n'; });
    return *text;
  }();
  return id;
}

namespace {

// Takes the next line off the text.
bool next_line(std::string_view& text, std::string_view& line) {
  if (text.empty()) return false;
  const size_t end = std::min(text.find('\n'), text.size());
  line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return true;
}

uint32_t read_possible_cpus() {
  auto text = read_file("/sys/devices/system/cpu/possible");  // 0-7 or 0,2-5
  if (text) {
    const size_t last = text->find_last_of("-,");
    const char* number = text->c_str() + (last == text->npos ? 0 : last + 1);
    if (*number >= '0' && *number <= '9')
      return static_cast<uint32_t>(std::strtoul(number, nullptr, 10)) + 1;
  }
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace

uint32_t possible_cpus() {
  static const uint32_t cpus = read_possible_cpus();
  return cpus;
}

KernelVersion kernel_version() {
  static const KernelVersion version = [] {
    utsname system = {};
    return ::uname(&system) == 0 ? parse_kernel_version(system.release) : KernelVersion();
  }();
  return version;
}

KernelVersion parse_kernel_version(std::string_view release) {
  KernelVersion version;
  const char* const end = release.data() + release.size();
  const char* const after = std::from_chars(release.data(), end, version.major).ptr;
  if (after == end || *after != '.' ||
      std::from_chars(after + 1, end, version.minor).ec != std::errc())
    return {};
  return version;
}

std::string parse_cpu_name(std::string_view cpuinfo) {
  constexpr std::string_view kName = "model name";
  for (std::string_view line; next_line(cpuinfo, line);) {
    if (!line.starts_with(kName)) continue;
    line.remove_prefix(std::min(line.find_first_not_of(" \t:", kName.size()), line.size()));
    if (!line.empty()) return std::string(line);
  }
  return "unknown CPU";
}

std::string cpu_name() {
  const auto text = read_file("/proc/cpuinfo");
  return parse_cpu_name(text ? *text : "");
}

// Lines are NAME=VALUE as a shell reads them, mostly in quotes.
std::string parse_system_name(std::string_view os_release) {
  constexpr std::string_view kName = "PRETTY_NAME=";
  for (std::string_view line; next_line(os_release, line);) {
    if (!line.starts_with(kName)) continue;
    line.remove_prefix(kName.size());
    const bool is_quoted = line.size() >= 2 && (line.front() == '"' || line.front() == '\'') &&
                           line.back() == line.front();
    if (is_quoted) line = line.substr(1, line.size() - 2);
    if (!line.empty()) return std::string(line);
  }
  return "unknown system";
}

std::string system_name() {
  const auto text = read_file("/etc/os-release");
  return parse_system_name(text ? *text : "");
}

bool kernel_checks_rseq() {
  static const bool checks = [] {
    const auto text = read_file("/proc/cmdline");
    return text && checks_rseq(*text);
  }();
  return checks;
}

bool checks_rseq(std::string_view kernel_command_line) {
  constexpr std::string_view kOption = "rseq_debug=";
  bool checks = false;
  for (size_t at = 0; (at = kernel_command_line.find(kOption, at)) != std::string_view::npos;) {
    const bool is_whole = at == 0 || kernel_command_line[at - 1] == ' ';
    at += kOption.size();
    const std::string_view value = kernel_command_line.substr(at);
    if (is_whole)
      checks = !value.starts_with("0") && !value.starts_with("n") && !value.starts_with("of");
  }
  return checks;
}

}  // namespace pinprick
