#include "kernel_probe.h"

#include <fmt/format.h>
#include <linux/bpf.h>
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

namespace pinprick::bench {
namespace {

const std::string kUnit = "/sys/bus/event_source/devices/uprobe";

Failure<cli::Message> unavailable(std::string why) {
  return fail(cli::Message{"no_uprobes", std::move(why)});
}

// The number in a file like `type` ("8") or `format/retprobe` ("config:0").
std::optional<uint32_t> read_number(const std::string& path, std::string_view prefix) {
  const auto text = read_file(path);
  if (!text || !text->starts_with(prefix)) return std::nullopt;
  uint32_t number = 0;
  const char* begin = text->data() + prefix.size();
  const auto parsed = std::from_chars(begin, text->data() + text->size(), number);
  return parsed.ptr != begin ? std::optional(number) : std::nullopt;
}

struct PlaceInFile {
  const image::Mapping* mapping;
  uint64_t offset;
};

std::optional<PlaceInFile> place_in_file(const std::vector<image::Mapping>& maps, Address address) {
  const auto mapping = std::find_if(
      maps.begin(), maps.end(), [&](const image::Mapping& m) { return m.range.contains(address); });
  if (mapping == maps.end() || mapping->inode == 0) return std::nullopt;
  return PlaceInFile{&*mapping, address - mapping->range.begin + mapping->offset};
}

// From <linux/bpf.h> of Linux 6.6; the header that we are built with may be older.
constexpr uint32_t kUprobeMulti = 48;  // BPF_TRACE_UPROBE_MULTI
struct UprobeMultiLink {
  uint32_t program = 0;
  uint32_t target = 0;
  uint32_t attach_type = kUprobeMulti;
  uint32_t link_flags = 0;
  uint64_t path = 0;
  uint64_t offsets = 0;
  uint64_t reference_counters = 0;
  uint64_t cookies = 0;
  uint32_t count = 0;
  uint32_t flags = 0;
  uint32_t pid = 0;
  uint32_t padding = 0;
};

Fd load_empty_program() {
  const bpf_insn instructions[] = {
      {BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0},  // return 0
      {BPF_JMP | BPF_EXIT, 0, 0, 0, 0},
  };
  bpf_attr attributes;
  std::memset(&attributes, 0, sizeof attributes);
  attributes.prog_type = BPF_PROG_TYPE_KPROBE;
  attributes.expected_attach_type = kUprobeMulti;
  attributes.insns = reinterpret_cast<uint64_t>(instructions);
  attributes.insn_cnt = std::size(instructions);
  attributes.license = reinterpret_cast<uint64_t>("");
  return Fd(static_cast<int>(::syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof attributes)));
}

}  // namespace

Result<KernelProbe, cli::Message> KernelProbe::place(pid_t pid, Address address,
                                                     KernelProbeKind kind) {
  const auto type = read_number(kUnit + "/type", "");
  const auto return_bit = read_number(kUnit + "/format/retprobe", "config:");
  if (!type || !return_bit) return unavailable("the kernel offers no uprobes to perf events");
  auto maps = image::read_maps(pid);
  if (!maps) return unavailable("the target has ended");
  const auto place = place_in_file(*maps, address);
  if (!place) return unavailable("the function is in no file");

  perf_event_attr attributes;
  std::memset(&attributes, 0, sizeof attributes);
  attributes.size = sizeof attributes;
  attributes.type = *type;
  if (kind == KernelProbeKind::at_return) attributes.config = uint64_t{1} << *return_bit;
  attributes.uprobe_path = reinterpret_cast<uint64_t>(place->mapping->path.c_str());
  attributes.probe_offset = place->offset;
  const auto event = ::syscall(SYS_perf_event_open, &attributes, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
  if (event < 0)
    return unavailable(fmt::format("the kernel refuses a uprobe: {}", std::strerror(errno)));
  return KernelProbe(Fd(static_cast<int>(event)));
}

Result<uint64_t, cli::Message> KernelProbe::hits() const {
  uint64_t count = 0;
  if (::read(event_.get(), &count, sizeof count) != sizeof count)
    return unavailable("the kernel's count cannot be read");
  return count;
}

Result<KernelProbeBatch, cli::Message> KernelProbeBatch::prepare(
    pid_t pid, const std::vector<Address>& addresses) {
  KernelProbeBatch batch;
  batch.pid_ = pid;
  const auto maps = image::read_maps(pid);
  if (!maps) return unavailable("the target has ended");
  for (Address address : addresses) {
    const auto place = place_in_file(*maps, address);
    if (!place) return unavailable("the function is in no file");
    if (!batch.path_.empty() && batch.path_ != place->mapping->path)
      return unavailable("the functions are in several files");
    batch.path_ = place->mapping->path;
    batch.offsets_.push_back(place->offset);
  }
  batch.program_ = load_empty_program();
  if (!batch.program_)
    return unavailable(
        fmt::format("the kernel refuses a BPF program for uprobes: {}", std::strerror(errno)));
  return batch;
}

Result<void, cli::Message> KernelProbeBatch::place() {
  UprobeMultiLink link;
  link.program = static_cast<uint32_t>(program_.get());
  link.path = reinterpret_cast<uint64_t>(path_.c_str());
  link.offsets = reinterpret_cast<uint64_t>(offsets_.data());
  link.count = static_cast<uint32_t>(offsets_.size());
  link.pid = static_cast<uint32_t>(pid_);
  link_ = Fd(static_cast<int>(::syscall(SYS_bpf, BPF_LINK_CREATE, &link, sizeof link)));
  if (!link_)
    return unavailable(
        fmt::format("the kernel refuses many uprobes at once: {}", std::strerror(errno)));
  return {};
}

}  // namespace pinprick::bench
