#include "control/file_tree.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/clock.h"

namespace pinprick::control {
namespace {

// What a path says, whether or not it is there.
struct Path {
  std::optional<pid_t> pid;  // none: the root
  std::string name;          // empty: a folder
};

std::optional<pid_t> parse_pid(std::string_view text) {
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
  // One process has one name: 042 is none.
  if (error != std::errc() || end != text.data() + text.size() || pid <= 0 || text.front() == '0')
    return std::nullopt;
  return pid;
}

std::optional<Path> parse_path(std::string_view path) {
  if (!path.starts_with('/')) return std::nullopt;
  path.remove_prefix(1);
  if (path.empty()) return Path{};
  const size_t slash = path.find('/');
  const auto pid = parse_pid(path.substr(0, slash));
  if (!pid) return std::nullopt;
  if (slash == path.npos) return Path{pid, ""};
  const std::string_view name = path.substr(slash + 1);
  if (name.empty() || name.find('/') != name.npos) return std::nullopt;
  return Path{pid, std::string(name)};
}

// An implementation that fails without a number must not look like a success.
int errno_of(const ControlError& error) {
  return error.number > 0 ? -error.number : -EIO;
}

// Of a process that is not there, a file is not there either.
int errno_of_look(const ControlError& error) {
  return error.number == ESRCH ? -ENOENT : errno_of(error);
}

timespec time_of(uint64_t ns) {
  constexpr uint64_t kSecond = 1'000'000'000;
  return {static_cast<time_t>(ns / kSecond), static_cast<long>(ns % kSecond)};
}

bool is_thread_of(pid_t pid, pid_t thread) {
  return ::access(fmt::format("/proc/{}/task/{}", pid, thread).c_str(), F_OK) == 0;
}

// Does the command stop all threads of the process? What the process records itself is changed in a
// file alone.
bool stops_threads(Statistics& statistics, const Command& command) {
  if (command.verb == Verb::trace || command.verb == Verb::remove) return true;
  std::string_view name = command.name;
  if (name.starts_with(kGapPrefix)) name.remove_prefix(kGapPrefix.size());
  const auto all = statistics.list();
  return all && std::any_of(all->begin(), all->end(), [&](const StatisticInfo& one) {
           return one.name == name && !one.is_recorded;
         });
}

Result<std::string, ControlError> names_text(Statistics& statistics) {
  const auto all = statistics.list();
  if (!all) return fail(all.error());
  std::string text;
  for (const StatisticInfo& one : *all) text += (text.empty() ? "" : " ") + one.name;
  return text + '\n';
}

}  // namespace

// A path that is there.
struct FileTree::Node {
  pid_t pid = 0;     // 0: the root
  std::string name;  // empty: a folder
  std::unique_ptr<Statistics> statistics;
  StatisticInfo info;  // of a statistic

  bool is_folder() const { return name.empty(); }
  bool is_control() const { return name == kControlFile; }

  Result<std::string, ControlError> text() const {
    return is_control() ? names_text(*statistics) : statistics->text(name);
  }
};

struct FileTree::OpenFile {
  Node node;
  std::optional<std::string> text;  // if it was opened for reading
  std::string unfinished;           // a line without its newline
};

FileTree::FileTree(Processes& processes, std::vector<pid_t> only, Complain complain)
    : processes_(processes),
      only_(std::move(only)),
      complain_(std::move(complain)),
      mounted_ns_(realtime_ns()) {}

FileTree::~FileTree() = default;

Result<std::unique_ptr<Statistics>, ControlError> FileTree::open_process(pid_t pid) {
  if (!only_.empty() && std::find(only_.begin(), only_.end(), pid) == only_.end())
    return fail(ControlError{ESRCH, "it is not one of the processes that were named"});
  return processes_.open(pid);
}

Result<FileTree::Node, int> FileTree::find(std::string_view path) {
  const auto parsed = parse_path(path);
  if (!parsed) return fail(-ENOENT);
  Node node;
  if (!parsed->pid) return node;
  auto statistics = open_process(*parsed->pid);
  if (!statistics) return fail(errno_of_look(statistics.error()));
  node.pid = *parsed->pid;
  node.name = parsed->name;
  node.statistics = *std::move(statistics);
  if (node.is_folder() || node.is_control()) return node;
  auto all = node.statistics->list();
  if (!all) return fail(errno_of_look(all.error()));
  const auto info = std::find_if(all->begin(), all->end(),
                                 [&](const StatisticInfo& one) { return one.name == node.name; });
  if (info == all->end()) return fail(-ENOENT);
  node.info = std::move(*info);
  return node;
}

const FileTree::OpenFile* FileTree::opened_last(pid_t pid, std::string_view name) const {
  const auto found = std::find_if(open_files_.rbegin(), open_files_.rend(), [&](const auto& entry) {
    const OpenFile& file = *entry.second;
    return file.text && file.node.pid == pid && file.node.name == name;
  });
  return found == open_files_.rend() ? nullptr : found->second.get();
}

void FileTree::fill_in(const Node& node, size_t size, struct stat& out) const {
  out = {};
  out.st_mode = node.is_folder() ? S_IFDIR | 0700 : S_IFREG | 0600;
  out.st_nlink = node.is_folder() ? 2 : 1;
  out.st_uid = ::geteuid();
  out.st_gid = ::getegid();
  // `cp` looks for holes in a file that has fewer blocks than its size.
  constexpr size_t kBlock = 512;
  out.st_size = static_cast<off_t>(size);
  out.st_blocks = static_cast<blkcnt_t>((size + kBlock - 1) / kBlock);
  out.st_atim = out.st_mtim = out.st_ctim = time_of(mounted_ns_);
  if (node.is_folder() || node.is_control()) return;
  out.st_mtim = time_of(node.info.changed_ns);
  out.st_atim = out.st_ctim = time_of(node.info.created_ns);
}

int FileTree::attributes(std::string_view path, struct stat& out) {
  const auto node = find(path);
  if (!node) return node.error();
  size_t size = 0;
  if (const OpenFile* file = opened_last(node->pid, node->name)) {
    // A program that has opened the file takes this for the size of what it will read: `tail`
    // begins near its end.
    size = file->text->size();
  } else if (!node->is_folder()) {
    const auto text = node->text();
    if (!text) return errno_of_look(text.error());
    size = text->size();
  }
  fill_in(*node, size, out);
  return 0;
}

int FileTree::attributes(Handle handle, struct stat& out) {
  const auto found = open_files_.find(handle);
  if (found == open_files_.end()) return -EBADF;
  const OpenFile& file = *found->second;
  fill_in(file.node, file.text ? file.text->size() : 0, out);
  return 0;
}

int FileTree::list(std::string_view path, std::vector<std::string>& names) {
  const auto node = find(path);
  if (!node) return node.error();
  if (!node->is_folder()) return -ENOTDIR;
  if (node->pid != 0) {
    const auto all = node->statistics->list();
    if (!all) return errno_of_look(all.error());
    names.emplace_back(kControlFile);
    for (const StatisticInfo& one : *all) names.push_back(one.name);
    return 0;
  }
  for (pid_t pid : only_.empty() ? processes_.all() : only_) {
    // Of the named ones, some may have ended.
    if (only_.empty() || processes_.open(pid)) names.push_back(std::to_string(pid));
  }
  return 0;
}

int FileTree::open(std::string_view path, int flags, Handle& handle) {
  auto node = find(path);
  if (!node) return node.error();
  if (node->is_folder()) return -EISDIR;
  auto file = std::make_unique<OpenFile>();
  if ((flags & O_ACCMODE) != O_WRONLY) {
    auto text = node->text();
    if (!text) return errno_of_look(text.error());
    file->text = *std::move(text);
  }
  file->node = *std::move(node);
  handle = next_handle_++;
  open_files_.emplace(handle, std::move(file));
  return 0;
}

int FileTree::read(Handle handle, std::span<char> out, uint64_t offset) {
  const auto found = open_files_.find(handle);
  if (found == open_files_.end() || !found->second->text) return -EBADF;
  const std::string& text = *found->second->text;
  if (offset >= text.size()) return 0;
  const size_t size = std::min(out.size(), text.size() - static_cast<size_t>(offset));
  std::memcpy(out.data(), text.data() + offset, size);
  return static_cast<int>(size);
}

int FileTree::write(Handle handle, std::string_view bytes, pid_t caller) {
  const auto found = open_files_.find(handle);
  if (found == open_files_.end()) return -EBADF;
  OpenFile& file = *found->second;
  const size_t newline = bytes.find('\n');
  const std::string line = std::exchange(file.unfinished, {}) +
                           std::string(bytes.substr(0, std::min(newline, kMaxLine + 1)));
  if (line.size() > kMaxLine)
    return refuse(file.node.pid, file.node.name,
                  {EINVAL, fmt::format("a command has at most {} bytes", kMaxLine)});
  if (newline == bytes.npos) {
    file.unfinished = line;
    return static_cast<int>(bytes.size());
  }
  const int error = run_line(file, line, caller);
  return error < 0 ? error : static_cast<int>(newline + 1);
}

int FileTree::flush(Handle handle, pid_t caller) {
  const auto found = open_files_.find(handle);
  if (found == open_files_.end()) return -EBADF;
  OpenFile& file = *found->second;
  if (file.unfinished.empty()) return 0;
  return run_line(file, std::exchange(file.unfinished, {}), caller);
}

void FileTree::release(Handle handle) {
  open_files_.erase(handle);
}

int FileTree::remove(std::string_view path, pid_t caller) {
  const auto node = find(path);
  if (!node) return node.error();
  if (node->is_folder()) return -EISDIR;
  if (node->is_control()) return -EPERM;
  const std::string words[] = {"remove", node->name};
  const auto command = parse_command(words);
  if (!command) return refuse(node->pid, node->name, {EPERM, command.error().reason});
  return run(*node->statistics, node->pid, *command, caller);
}

int FileTree::truncate(std::string_view path) {
  const auto node = find(path);
  if (!node) return node.error();
  return node->is_folder() ? -EISDIR : 0;
}

int FileTree::run_line(OpenFile& file, std::string_view line, pid_t caller) {
  const Node& node = file.node;
  const auto command = node.is_control() ? parse_command(line) : parse_state(line, node.name);
  if (!command) return refuse(node.pid, node.name, command.error());
  if (command->verb == Verb::list || command->verb == Verb::show)
    return refuse(node.pid, node.name, {EINVAL, "a file cannot answer a write; read it instead"});
  return run(*node.statistics, node.pid, *command, caller);
}

// A thread waits in the kernel until its write is done, and cannot be stopped there.
int FileTree::run(Statistics& statistics, pid_t pid, const Command& command, pid_t caller) {
  if (caller > 0 && is_thread_of(pid, caller) && stops_threads(statistics, command))
    return refuse(pid, kControlFile,
                  {EDEADLK, fmt::format("{}: a process cannot do this to itself through a file, as "
                                        "it would wait for itself; do it from another process",
                                        to_text(command))});
  const auto done = statistics.run(command);
  if (done) return 0;
  return refuse(pid, kControlFile,
                {done.error().number, to_text(command) + ": " + done.error().reason});
}

int FileTree::refuse(pid_t pid, std::string_view file, const ControlError& error) {
  complain_(fmt::format("{}/{}: {} ({})", pid, file, error.reason, error_name(-errno_of(error))));
  return errno_of(error);
}

}  // namespace pinprick::control
