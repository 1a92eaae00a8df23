#include "kernel_probe.h"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>

#include "image/maps.h"
#include "target/kernel_uprobes.h"

namespace pinprick::bench {
namespace {

const std::string kUnit = "/sys/bus/event_source/devices/uprobe";

Failure<cli::Message> unavailable(std::string why) {
  return fail(cli::Message{"no_uprobes", std::move(why)});
}

// Returns the number in a file like `type` ("8") or `format/retprobe` ("config:0").
std::optional<uint32_t> read_number(const std::string& path, std::string_view prefix) {
  const auto text = read_file(path);
  if (!text || !text->starts_with(prefix)) return std::nullopt;
  uint32_t number = 0;
  const char* begin = text->data() + prefix.size();
  const auto parsed = std::from_chars(begin, text->data() + text->size(), number);
  return parsed.ptr != begin ? std::optional(number) : std::nullopt;
}

}  // namespace

Result<KernelProbe, cli::Message> KernelProbe::place(pid_t pid, Address address,
                                                     KernelProbeKind kind) {
  const auto type = read_number(kUnit + "/type", "");
  const auto return_bit = read_number(kUnit + "/format/retprobe", "config:");
  if (!type || !return_bit) return unavailable("the kernel offers no uprobes to perf events");
  auto maps = image::read_maps(pid);
  if (!maps) return unavailable("the target has ended");
  const auto position = target::position_in_file(*maps, address);
  if (!position) return unavailable("the function is in no file");

  perf_event_attr attributes;
  std::memset(&attributes, 0, sizeof attributes);
  attributes.size = sizeof attributes;
  attributes.type = *type;
  if (kind == KernelProbeKind::at_return) attributes.config = uint64_t{1} << *return_bit;
  attributes.uprobe_path = reinterpret_cast<uint64_t>(position->mapping->path.c_str());
  attributes.probe_offset = position->offset;
  const auto event = ::syscall(SYS_perf_event_open, &attributes, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
  if (event < 0)
    return unavailable(fmt::format("the kernel refuses a uprobe: {}", std::strerror(errno)));
  KernelProbe probe;
  probe.events_.emplace_back(static_cast<int>(event));
  return probe;
}

Result<KernelProbe, cli::Message> KernelProbe::position_in_file(const std::string& path,
                                                                uint64_t offset) {
  const auto type = read_number(kUnit + "/type", "");
  if (!type) return unavailable("the kernel offers no uprobes to perf events");
  perf_event_attr attributes;
  std::memset(&attributes, 0, sizeof attributes);
  attributes.size = sizeof attributes;
  attributes.type = *type;
  attributes.uprobe_path = reinterpret_cast<uint64_t>(path.c_str());
  attributes.probe_offset = offset;
  KernelProbe probe;
  const long cpus = ::sysconf(_SC_NPROCESSORS_CONF);
  for (int cpu = 0; cpu < cpus; ++cpu) {
    const auto event =
        ::syscall(SYS_perf_event_open, &attributes, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    if (event < 0 && errno == ENODEV) continue;  // it is off
    if (event < 0)
      return unavailable(fmt::format("the kernel refuses a uprobe: {}", std::strerror(errno)));
    probe.events_.emplace_back(static_cast<int>(event));
  }
  return probe;
}

Result<uint64_t, cli::Message> KernelProbe::hits() const {
  uint64_t sum = 0;
  for (const Fd& event : events_) {
    uint64_t count = 0;
    if (::read(event.get(), &count, sizeof count) != sizeof count)
      return unavailable("the kernel's count cannot be read");
    sum += count;
  }
  return sum;
}

Result<KernelProbeBatch, cli::Message> KernelProbeBatch::prepare(
    pid_t pid, const std::vector<Address>& addresses) {
  KernelProbeBatch batch;
  batch.pid_ = pid;
  const auto maps = image::read_maps(pid);
  if (!maps) return unavailable("the target has ended");
  for (Address address : addresses) {
    const auto position = target::position_in_file(*maps, address);
    if (!position) return unavailable("the function is in no file");
    if (!batch.path_.empty() && batch.path_ != position->mapping->path)
      return unavailable("the functions are in several files");
    batch.path_ = position->mapping->path;
    batch.offsets_.push_back(position->offset);
  }
  const bpf_insn instructions[] = {
      {BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0},  // return 0
      {BPF_JMP | BPF_EXIT, 0, 0, 0, 0},
  };
  auto program = target::load_uprobe_program(instructions);
  if (!program)
    return unavailable(fmt::format("the kernel refuses a BPF program for uprobes: {}",
                                   std::strerror(program.error().number)));
  batch.program_ = *std::move(program);
  return batch;
}

Result<void, cli::Message> KernelProbeBatch::place() {
  auto link = target::link_uprobes(program_, pid_, path_, offsets_, {});
  if (!link)
    return unavailable(fmt::format("the kernel refuses many uprobes at once: {}",
                                   std::strerror(link.error().number)));
  link_ = *std::move(link);
  return {};
}

}  // namespace pinprick::bench
