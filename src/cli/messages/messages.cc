#include "cli/messages/messages.h"

#include <elf.h>
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "target/procfs.h"

namespace pinprick::cli {
namespace {

using target::AttachCause;

// "4242 (redis-server)".
std::string process(pid_t pid) {
  const auto status = target::read_status(pid);
  return status ? fmt::format("{} ({})", pid, status->command) : fmt::format("{}", pid);
}

std::string reason(int error) {
  return error != 0 ? fmt::format(": {}", std::strerror(error)) : "";
}

// The kernel knows the process, and /proc is mounted so that only its own user sees it.
bool is_hidden(pid_t pid) {
  return ::kill(pid, 0) != 0 && errno == EPERM && !target::read_status(pid);
}

// A process that has the file mapped may have the probes.
bool is_in_use(const std::string& path) {
  const auto file = ledger::SessionFile::open(path, ledger::SessionFile::Lock::none);
  return !file || file->has_other_users();
}

std::string describe(layout::ParseError error, const std::string& path) {
  const auto damaged = [&](std::string_view what) {
    return fmt::format("{}{}", what,
                       is_in_use(path) ? "; restart the process before you probe it again"
                                       : ", and no process has it mapped; remove it");
  };
  switch (error) {
    case layout::ParseError::not_a_session:
      return "it is not a session file, so remove it";
    case layout::ParseError::version:
      return "another version of pinprick wrote it; use that version";
    case layout::ParseError::truncated:
      return damaged("it is truncated");
    case layout::ParseError::inconsistent:
      return damaged("its contents contradict each other");
  }
  return "?";
}

std::string is_for(const image::Machine& machine) {
  const auto name = [&]() -> std::string {
    switch (machine.number) {
      case EM_NONE:
        return machine.is_32_bit ? "a 32-bit machine" : "another machine";
      case EM_386:
        return "32-bit x86 (i386)";
      case EM_X86_64:
        return machine.is_32_bit ? "x32, with pointers of 32 bits" : "another byte order";
      case EM_ARM:
        return "32-bit ARM";
      case EM_AARCH64:
        return "64-bit ARM (AArch64)";
      case EM_RISCV:
        return "RISC-V";
      case EM_PPC:
        return "32-bit POWER";
      case EM_PPC64:
        return "64-bit POWER";
      case EM_S390:
        return "IBM Z (s390)";
      case EM_MIPS:
        return "MIPS";
      case EM_SPARCV9:
        return "SPARC";
      default:
        return fmt::format("another machine (number {} of ELF)", machine.number);
    }
  };
  return "it is for " + name();
}

}  // namespace

Message message(const target::AttachError& error) {
  const std::string who = process(error.pid);
  const auto refuse = [&](std::string cause, std::string text) {
    return Message{std::move(cause), fmt::format("cannot attach to {}: {}", who, text),
                   kAttachRefused};
  };
  switch (error.cause) {
    case AttachCause::no_such_process:
      if (error.system_error == ENOSYS || error.system_error == EPERM)
        return refuse("old_kernel",
                      "the kernel has no pidfd_open, as before Linux 5.3, or a seccomp profile "
                      "forbids it; see `pinprick doctor`");
      if (is_hidden(error.pid))
        return refuse("not_permitted",
                      "/proc does not show it, as it is another user's (hidepid); run pinprick as "
                      "root or as that user");
      return refuse("no_such_process", "no such process");
    case AttachCause::not_permitted:
      return refuse("not_permitted",
                    "not permitted; run pinprick as root or as the user of the process, and see "
                    "`pinprick doctor` for kernel.yama.ptrace_scope; root may lack CAP_SYS_PTRACE, "
                    "in a container");
    case AttachCause::already_traced:
      return refuse("already_traced", fmt::format("it is being traced by {}; end that tracer first",
                                                  process(error.other)));
    case AttachCause::not_64_bit:
      return refuse("not_64_bit", "it is a 32-bit program; only x86-64 programs can be probed");
    case AttachCause::shadow_stack:
      return refuse("shadow_stack",
                    "it has a shadow stack, which probes would not keep up with; start it with "
                    "GLIBC_TUNABLES=glibc.cpu.x86_shstk=off");
    case AttachCause::is_ourselves:
      return refuse("is_ourselves", "that is pinprick itself; give the PID of another process");
    case AttachCause::kernel_thread:
      return refuse("no_memory",
                    "it has no memory of its own (a kernel thread, or a process that has ended)");
    case AttachCause::exited:
      return refuse("exited", "it ended meanwhile");
    case AttachCause::exec_during_attach:
      return refuse("exec_during_attach", "it started another program meanwhile; try again");
    case AttachCause::thread_unstoppable:
      return refuse("thread_unstoppable",
                    fmt::format("its thread {} does not stop: it is blocked in the kernel, or "
                                "waits for a child of vfork; nothing was changed, try again",
                                error.other));
    case AttachCause::seccomp:
      return refuse("seccomp",
                    "its seccomp filter would see the system calls that pinprick makes in it; run "
                    "pinprick as root, which may suspend the filter");
    case AttachCause::seccomp_deadly:
      return refuse(
          "seccomp_deadly",
          fmt::format(
              "its seccomp filter forbids {}, a system call that pinprick has to make in "
              "it, and may kill it; start it with `-- COMMAND`, so that it is probed before "
              "it installs the filter",
              error.detail));
    case AttachCause::shares_memory:
      return refuse("shares_memory",
                    "it runs in its parent's memory until it executes a program (vfork); try again "
                    "then");
    case AttachCause::user_dispatch:
      return refuse("user_dispatch",
                    fmt::format("its thread {} handles system calls itself "
                                "(PR_SET_SYSCALL_USER_DISPATCH), and would take those that "
                                "pinprick has to make in it for its own",
                                error.other));
    case AttachCause::frozen:
      return refuse("frozen",
                    "its control group is frozen, as `docker pause` does it; try again when it "
                    "runs");
    case AttachCause::no_room:
      return refuse("no_room",
                    "no unused bytes follow its code, its loader's or the vDSO's, and pinprick "
                    "needs some; it "
                    "cannot be probed");
    case AttachCause::no_address_space:
      return refuse("no_address_space",
                    "there is no free address range within 2 GB of the code to probe; probe fewer "
                    "functions");
    case AttachCause::call_refused:
      return refuse(
          "call_refused",
          fmt::format("the kernel refused it {}{}; the reason may be a security policy, or a "
                      "memory limit of the process",
                      error.detail, reason(error.system_error)));
    case AttachCause::memory_refused:
      return refuse("memory_refused",
                    fmt::format("its memory cannot be written{}; the kernel may forbid writing "
                                "through /proc/PID/mem (proc_mem.force_override)",
                                reason(error.system_error)));
    case AttachCause::handover_failed:
      if (error.system_error == ENOSYS)
        return refuse("old_kernel",
                      fmt::format("the kernel has no {}, as before Linux 5.6, or a seccomp profile "
                                  "forbids it; see `pinprick doctor`",
                                  error.detail));
      return refuse("handover_failed",
                    fmt::format("the shared file could not be handed to it: {} failed{}; the "
                                "reason may be its limit of open files, or a security policy",
                                error.detail, reason(error.system_error)));
    case AttachCause::no_thread_ids:
      return refuse("no_thread_ids",
                    "spans and $tid have to tell its threads apart, but their control blocks do "
                    "not hold their "
                    "TIDs; if it is a static program, attach with -p once it has started");
    case AttachCause::probes_itself:
      return refuse(
          "probes_itself",
          "it probes itself with another version of libpinprick, or with one that is a part of the "
          "program, and only one of the two can change its code; run it without its own probes");
    case AttachCause::probes_itself_now:
      return refuse("probes_itself_now",
                    "it has just placed its first own probe, with libpinprick; try again");
  }
  return refuse("unknown", "unknown cause");
}

Message message(const ledger::FileError& error) {
  using Cause = ledger::FileError::Cause;
  switch (error.cause) {
    case Cause::exists:
      return {"session_exists",
              fmt::format("{} exists already; `pinprick status` shows whose it is", error.path),
              kAttachRefused};
    case Cause::locked:
      return {
          "session_locked",
          fmt::format("{} is in use by another pinprick; end that one, or try again", error.path),
          kAttachRefused};
    case Cause::not_a_session:
      return {"session_unreadable",
              fmt::format("cannot use {}: {}", error.path, describe(error.parse_error, error.path)),
              kAttachRefused};
    case Cause::untrusted:
      return {"untrusted_session",
              fmt::format("{} is not used: its owner does not own the process; that user, or "
                          "root, may remove it",
                          error.path),
              kAttachRefused};
    case Cause::no_space:
      return {"no_space",
              fmt::format("cannot make {} of {} KiB{}; free space there, set XDG_RUNTIME_DIR to "
                          "another tmpfs, or probe less at a time",
                          error.path, error.size / 1024, reason(error.system_error)),
              kFailed};
    case Cause::system:
      break;
  }
  return {"session_file", fmt::format("cannot use {}{}", error.path, reason(error.system_error)),
          kFailed};
}

Message message(const ledger::SessionError& error) {
  if (const auto* attach = std::get_if<target::AttachError>(&error)) return message(*attach);
  if (const auto* file = std::get_if<ledger::FileError>(&error)) return message(*file);
  if (const auto* occupied = std::get_if<ledger::Occupied>(&error)) {
    return {
        "occupied",
        fmt::format(
            "{} has probes of pinprick {}, whose session file cannot be read: end that pinprick; "
            "if it is gone, `detach` as its user, or as root; if the file is, restart the process",
            process(occupied->pid), occupied->controller),
        kAttachRefused};
  }
  if (const auto* busy = std::get_if<ledger::Busy>(&error))
    return {"busy",
            fmt::format("another pinprick is still changing {}; try again", process(busy->pid)),
            kAttachRefused};
  if (const auto* unreadable = std::get_if<image::ElfError>(&error)) return message(*unreadable);
  const auto& folder = std::get<ledger::NoRuntimeDirectory>(error);
  return {
      "no_runtime_directory",
      fmt::format("there is no folder for session files{}; set XDG_RUNTIME_DIR to one of your own",
                  reason(folder.system_error)),
      kFailed};
}

Message message(const session::LaunchError& error) {
  using Cause = session::LaunchError::Cause;
  const auto refuse = [&](std::string cause, std::string text) {
    return Message{std::move(cause), fmt::format("cannot start {}: {}", error.program, text),
                   kFailedWithCommand};
  };
  switch (error.cause) {
    case Cause::cannot_start:
      return refuse("cannot_start", std::strerror(error.system_error));
    case Cause::cannot_exec:
      return refuse("cannot_exec", std::strerror(error.system_error));
    case Cause::unreadable:
      return refuse("unreadable",
                    fmt::format("its file can be executed, but not read{}; run pinprick as root",
                                reason(error.system_error)));
    case Cause::not_x86_64:
      return refuse("not_x86_64",
                    fmt::format("{}; only x86-64 programs can be probed", is_for(error.machine)));
    case Cause::ended_early:
      return refuse(
          "ended_early",
          "it ended before its libraries were loaded; run it without pinprick to see why");
    case Cause::interrupted:
      return message(session::Interrupted{});
    case Cause::cannot_hold:
      return refuse("cannot_hold", fmt::format("ptrace does not work here{}; see `pinprick doctor`",
                                               reason(error.system_error)));
  }
  return refuse("unknown", "unknown cause");
}

Message message(const image::ElfError& error) {
  const auto refuse = [&](std::string cause, std::string_view text) {
    return Message{std::move(cause), fmt::format("cannot read {}: {}", error.path, text), kFailed};
  };
  const auto cannot_probe = [&](std::string cause, std::string_view text) {
    return Message{std::move(cause), fmt::format("cannot probe {}: {}", error.path, text), kFailed};
  };
  switch (error.cause) {
    case image::ElfCause::unreadable:
      return refuse("unreadable", std::strerror(error.system_error));
    case image::ElfCause::not_elf:
      return refuse("not_elf", "it is not an ELF file");
    case image::ElfCause::truncated:
      return refuse("truncated", "the file ends before its headers say it does");
    case image::ElfCause::not_x86_64:
      return refuse(
          "not_x86_64",
          fmt::format("{}; only x86-64 programs and libraries can be probed",
                      is_for(image::machine_of_file(error.path).value_or(image::Machine{}))));
    case image::ElfCause::not_loadable:
      return refuse("not_loadable", "it is neither a program nor a shared library");
    case image::ElfCause::other_code:
      return cannot_probe("other_code",
                          "its code in memory is not that of its file; it may have been packed");
    case image::ElfCause::shared_code:
      return cannot_probe("shared_code",
                          "its code is in shared memory, which the kernel lets no debugger write");
    case image::ElfCause::huge_pages:
      return cannot_probe(
          "huge_pages",
          "its code is in reserved huge pages (hugetlbfs), which kernels before 6.14 "
          "let no debugger write; transparent huge pages can be probed");
  }
  return refuse("unknown", "unknown cause");
}

namespace {

Message message(const session::PointRefused& refused) {
  return {"nothing_armed",
          fmt::format("'{}': {} cannot be probed: {}", refused.span, refused.point,
                      plan::sentence(refused.refusal)),
          kNothingMatched};
}

Message message(const session::NothingArmed& nothing) {
  return {"nothing_armed",
          nothing.kind == placement::Kind::span
              ? "none of the spans can be measured; `pinprick list` says why"
              : "none of the functions can be probed; `pinprick "
                "list` says why",
          kNothingMatched};
}

Message message(const session::Interrupted&) {
  return {"interrupted", "interrupted before any probe was in; nothing was changed", kInterrupted};
}

}  // namespace

Message message(const session::MeasurementError& error) {
  return std::visit([](const auto& cause) { return message(cause); }, error);
}

Message message(pid_t pid, const control::ControlError& error) {
  std::string cause = control::error_name(error.number);
  std::transform(cause.begin(), cause.end(), cause.begin(),
                 [](char c) { return static_cast<char>(std::tolower(c)); });
  const auto exit = [&] {
    switch (error.number) {
      case EINVAL:
        return kUsage;
      case ENOENT:
        return kNothingMatched;
      case ESRCH:
      case EPERM:
      case EBUSY:
        return kAttachRefused;
      default:
        return kFailed;
    }
  };
  return {std::move(cause), fmt::format("process {}: {}", process(pid), error.reason), exit()};
}

Message message(const control::MountError& error) {
  using Cause = control::MountError::Cause;
  const auto refuse = [&](std::string cause, std::string_view text) {
    return Message{std::move(cause), fmt::format("cannot mount at {}: {}", error.folder, text),
                   kFailed};
  };
  constexpr std::string_view kInstead = "`pinprick kstats -p PID` does the same without a mount";
  switch (error.cause) {
    case Cause::no_folder:
      return refuse("no_folder", fmt::format("{}; give a folder of your own",
                                             std::strerror(error.system_error)));
    case Cause::stale:
      return refuse("stale_mount",
                    fmt::format("a pinprick was killed while it was mounted there; run "
                                "`fusermount3 -u {}` first",
                                error.folder));
    case Cause::mounted:
      return refuse("mounted",
                    "a FUSE file system is mounted there already; end its program first, or give "
                    "another folder");
    case Cause::own_folder:
      return refuse("own_folder", fmt::format("pinprick itself looks for sessions in {}, and would "
                                              "wait for itself; give another folder",
                                              error.detail));
    case Cause::no_fuse:
      return refuse("no_fuse", fmt::format("/dev/fuse cannot be opened{}; {}",
                                           reason(error.system_error), kInstead));
    case Cause::refused:
      return refuse(
          "mount_refused",
          fmt::format("{}; if you are not root, it needs fusermount3 (package fuse3); {}",
                      error.detail.empty() ? "FUSE does not work here" : error.detail, kInstead));
  }
  return refuse("unknown", "unknown cause");
}

std::string why_no_breakpoints(const SystemError& error) {
  switch (error.number) {
    case EPERM:
    case EACCES:
      return "the kernel lets only root place breakpoints (CAP_SYS_ADMIN), or no one here";
    case EINVAL:
    case ENOSYS:
    case EOPNOTSUPP:
      return "the kernel counts breakpoints of a whole process only from Linux 6.10 on";
    default:
      return fmt::format("the kernel refuses breakpoints: {}", std::strerror(error.number));
  }
}

}  // namespace pinprick::cli
