#include "target/kernel_uprobes.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>
#include <system_error>
#include <thread>

#include "base/clock.h"

namespace pinprick::target {
namespace {

// From <linux/bpf.h> of Linux 6.6; the header here may be older.
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

// ENOTSUPP, the kernel's error for an instruction that cannot have a breakpoint; not in <errno.h>.
constexpr int kNotSupported = 524;

template <class Attributes>
Result<Fd, SystemError> bpf(int command, Attributes& attributes) {
  Fd fd(static_cast<int>(::syscall(SYS_bpf, command, &attributes, sizeof attributes)));
  if (!fd) return fail(SystemError{errno});
  return fd;
}

bpf_attr no_attributes() {
  bpf_attr attributes;
  std::memset(&attributes, 0, sizeof attributes);
  return attributes;
}

Result<Fd, SystemError> make_counters(size_t count) {
  bpf_attr attributes = no_attributes();
  attributes.map_type = BPF_MAP_TYPE_ARRAY;
  attributes.key_size = sizeof(uint32_t);
  attributes.value_size = sizeof(uint64_t);
  attributes.max_entries = static_cast<uint32_t>(count);
  return bpf(BPF_MAP_CREATE, attributes);
}

// counters[cookie] += 1
Result<Fd, SystemError> load_counting_program(const Fd& counters) {
  constexpr int kMapLookup = 1, kGetAttachCookie = 174;
  constexpr uint8_t kAtomic = 0xc0;
  // NOLINTBEGIN(misc-redundant-expression): some of what is added up is 0
  const bpf_insn instructions[] = {
      {BPF_JMP | BPF_CALL, 0, 0, 0, kGetAttachCookie},
      {BPF_STX | BPF_W | BPF_MEM, BPF_REG_10, BPF_REG_0, -4, 0},
      {BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_2, BPF_REG_10, 0, 0},
      {BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_2, 0, 0, -4},
      {BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, counters.get()},
      {0, 0, 0, 0, 0},
      {BPF_JMP | BPF_CALL, 0, 0, 0, kMapLookup},
      {BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, 2, 0},
      {BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_1, 0, 0, 1},
      {BPF_STX | BPF_DW | kAtomic, BPF_REG_0, BPF_REG_1, 0, BPF_ADD},
      {BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0},
      {BPF_JMP | BPF_EXIT, 0, 0, 0, 0},
  };
  // NOLINTEND(misc-redundant-expression)
  return load_uprobe_program(instructions);
}

// Kernels before 6.10 accept any thread's number for the process, and count the hits of that thread
// only; later ones accept only a process's.
bool counts_all_threads(const Fd& program) {
  const auto maps = image::read_maps(::getpid());
  if (!maps) return false;
  const auto here = position_in_file(*maps, reinterpret_cast<Address>(&counts_all_threads));
  if (!here) return false;
  const uint64_t offset = here->offset;
  int error = 0;
  try {
    std::thread([&] {
      const auto link = link_uprobes(program, ::gettid(), "/proc/self/exe", {&offset, 1}, {});
      if (!link) error = link.error().number;
    }).join();
  } catch (const std::system_error&) {
    return false;  // there is no thread to try it with
  }
  return error == ESRCH;
}

}  // namespace

std::optional<FilePosition> position_in_file(const std::vector<image::Mapping>& maps,
                                             Address address) {
  const auto mapping = std::find_if(
      maps.begin(), maps.end(), [&](const image::Mapping& m) { return m.range.contains(address); });
  if (mapping == maps.end() || mapping->inode == 0) return std::nullopt;
  return FilePosition{&*mapping, address - mapping->range.begin + mapping->offset};
}

Result<Fd, SystemError> load_uprobe_program(std::span<const bpf_insn> instructions) {
  bpf_attr attributes = no_attributes();
  attributes.prog_type = BPF_PROG_TYPE_KPROBE;
  attributes.expected_attach_type = static_cast<bpf_attach_type>(kUprobeMulti);
  attributes.insns = reinterpret_cast<uint64_t>(instructions.data());
  attributes.insn_cnt = static_cast<uint32_t>(instructions.size());
  attributes.license = reinterpret_cast<uint64_t>("");
  return bpf(BPF_PROG_LOAD, attributes);
}

Result<Fd, SystemError> link_uprobes(const Fd& program, pid_t pid, const std::string& path,
                                     std::span<const uint64_t> offsets,
                                     std::span<const uint64_t> cookies,
                                     std::span<const uint64_t> semaphores) {
  UprobeMultiLink link;
  link.program = static_cast<uint32_t>(program.get());
  link.path = reinterpret_cast<uint64_t>(path.c_str());
  link.offsets = reinterpret_cast<uint64_t>(offsets.data());
  if (!semaphores.empty()) link.reference_counters = reinterpret_cast<uint64_t>(semaphores.data());
  if (!cookies.empty()) link.cookies = reinterpret_cast<uint64_t>(cookies.data());
  link.count = static_cast<uint32_t>(offsets.size());
  link.pid = static_cast<uint32_t>(pid);
  return bpf(BPF_LINK_CREATE, link);
}

Result<void, SystemError> KernelUprobes::available() {
  return KernelUprobes().load(1);
}

Result<void, SystemError> KernelUprobes::load(size_t count) {
  auto counters = make_counters(count);
  if (!counters) return fail(counters.error());
  counters_ = *std::move(counters);
  auto program = load_counting_program(counters_);
  if (!program) return fail(program.error());
  program_ = *std::move(program);
  if (!counts_all_threads(program_)) return fail(SystemError{EOPNOTSUPP});
  return {};
}

Result<KernelUprobes, SystemError> KernelUprobes::place(pid_t pid, const Memory& memory,
                                                        std::span<const Request> wanted) {
  KernelUprobes probes;
  probes.placed_.resize(wanted.size());
  for (const Request& one : wanted)
    if (uint8_t byte = 0; memory.read_value(one.address, byte))
      probes.originals_.push_back({one.address, byte});
  if (auto loaded = probes.load(wanted.size()); !loaded) return fail(loaded.error());
  const auto maps = image::read_maps(pid);
  if (!maps) return fail(maps.error());
  // By map_files, which leads to the mapped file itself, whatever its name means by now, or here.
  std::map<std::string, std::vector<Site>> files;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto position = position_in_file(*maps, wanted[i].address);
    if (!position) continue;
    Site site = {position->offset, i};
    if (wanted[i].semaphore != 0) {
      const auto semaphore = position_in_file(*maps, wanted[i].semaphore);
      // Without it the program may skip the point, and there would be no hits.
      if (!semaphore || semaphore->mapping->inode != position->mapping->inode) continue;
      site.semaphore = semaphore->offset;
    }
    files[fmt::format("/proc/{}/map_files/{:x}-{:x}", pid, position->mapping->range.begin,
                      position->mapping->range.end)]
        .push_back(site);
  }
  for (const auto& [path, sites] : files)
    if (auto placed = probes.place(pid, path, sites); !placed) return fail(placed.error());
  return probes;
}

// The kernel places all uprobes of a link or none, so halving finds those that it refuses.
Result<void, SystemError> KernelUprobes::place(pid_t pid, const std::string& path,
                                               std::span<const Site> sites) {
  std::vector<uint64_t> offsets, cookies, semaphores;
  for (const Site& site : sites) {
    offsets.push_back(site.offset);
    cookies.push_back(site.index);
    semaphores.push_back(site.semaphore);
  }
  auto link = link_uprobes(program_, pid, path, offsets, cookies, semaphores);
  if (link) {
    links_.push_back(*std::move(link));
    for (const Site& site : sites) placed_[site.index] = true;
    return {};
  }
  const int error = link.error().number;
  if (error != kNotSupported && error != EOPNOTSUPP && error != EINVAL) return fail(link.error());
  if (sites.size() == 1) return {};
  const size_t half = sites.size() / 2;
  if (auto first = place(pid, path, sites.first(half)); !first) return first;
  return place(pid, path, sites.subspan(half));
}

void KernelUprobes::remove(const Memory& memory) {
  links_.clear();
  constexpr uint64_t kTimeoutNs = 10'000'000'000;
  const uint64_t start_ns = monotonic_ns();
  for (const Original& original : originals_)
    for (uint8_t byte = 0; memory.read_value(original.address, byte) && byte != original.byte &&
                           monotonic_ns() - start_ns < kTimeoutNs;)
      sleep_ns(1'000'000);
}

std::vector<uint64_t> KernelUprobes::hits() const {
  std::vector<uint64_t> hits(placed_.size());
  for (uint32_t i = 0; i < hits.size(); ++i) {
    bpf_attr attributes = no_attributes();
    attributes.map_fd = static_cast<uint32_t>(counters_.get());
    attributes.key = reinterpret_cast<uint64_t>(&i);
    attributes.value = reinterpret_cast<uint64_t>(&hits[i]);
    static_cast<void>(::syscall(SYS_bpf, BPF_MAP_LOOKUP_ELEM, &attributes, sizeof attributes));
  }
  return hits;
}

}  // namespace pinprick::target
