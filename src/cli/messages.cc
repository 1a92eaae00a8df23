#include "cli/messages.h"

#include <fmt/format.h>

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

std::string_view describe(layout::ParseError error) {
  switch (error) {
    case layout::ParseError::not_a_session:
      return "it is no session file";
    case layout::ParseError::version:
      return "another version of pinprick wrote it; use that one";
    case layout::ParseError::truncated:
      return "it is truncated";
    case layout::ParseError::inconsistent:
      return "its contents contradict each other";
  }
  return "?";
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
      return refuse("no_such_process", "no such process");
    case AttachCause::not_permitted:
      return refuse("not_permitted",
                    "not permitted; be the user it runs as, or root, and see `pinprick doctor` for "
                    "kernel.yama.ptrace_scope");
    case AttachCause::already_traced:
      return refuse("already_traced",
                    fmt::format("it is being traced by {}; end that first", process(error.other)));
    case AttachCause::not_64_bit:
      return refuse("not_64_bit", "it is a 32-bit program; only x86-64 programs can be probed");
    case AttachCause::is_ourselves:
      return refuse("is_ourselves", "that is pinprick itself");
    case AttachCause::kernel_thread:
      return refuse("no_memory",
                    "it has no memory of its own (a kernel thread, or a process that has ended)");
    case AttachCause::exited:
      return refuse("exited", "it ended meanwhile");
    case AttachCause::exec_during_attach:
      return refuse("exec_during_attach", "it started another program meanwhile; try again");
    case AttachCause::thread_unstoppable:
      return refuse("thread_unstoppable",
                    fmt::format("its thread {} does not stop (it hangs in the kernel, or waits for "
                                "a child of vfork); nothing was changed, try again",
                                error.other));
    case AttachCause::seccomp:
      return refuse("seccomp",
                    "its seccomp filter would judge our system calls; run as root, who may suspend "
                    "the filter");
    case AttachCause::seccomp_deadly:
      return refuse("seccomp_deadly",
                    fmt::format("its seccomp filter could end it at {}, which has to be called in "
                                "it; start it with `-- COMMAND`, before it has the filter",
                                error.detail));
    case AttachCause::no_room:
      return refuse("no_room", "none of its code pages has a few free bytes to work from");
    case AttachCause::no_address_space:
      return refuse("no_address_space", "no free address range within 2 GB of the code to probe");
    case AttachCause::call_refused:
      return refuse(
          "call_refused",
          fmt::format("the kernel refuses it {}{}; a security policy or a memory limit of "
                      "the process",
                      error.detail, reason(error.system_error)));
    case AttachCause::memory_refused:
      return refuse("memory_refused",
                    fmt::format("its memory cannot be written{}; the kernel may forbid writing "
                                "through /proc/PID/mem (proc_mem.force_override)",
                                reason(error.system_error)));
    case AttachCause::handover_failed:
      return refuse("handover_failed",
                    fmt::format("it could not be given the shared file, {} failed{}", error.detail,
                                reason(error.system_error)));
    case AttachCause::no_thread_ids:
      return refuse(
          "no_thread_ids",
          "its threads cannot be told apart, as spans need it: their control blocks do not "
          "hold their TIDs. A static program has them once it has begun: attach with -p");
    case AttachCause::no_thread_pointers:
      return refuse("no_thread_pointers",
                    "spans need Linux 5.9, and a processor on which programs can read the thread "
                    "pointer (fsgsbase in /proc/cpuinfo)");
    case AttachCause::probes_itself:
      return refuse("probes_itself",
                    "it has placed probes in itself with libpinprick, and only one of the two can "
                    "change its code; start it anew without them");
  }
  return refuse("unknown", "unknown cause");
}

Message message(const ledger::FileError& error) {
  using Cause = ledger::FileError::Cause;
  switch (error.cause) {
    case Cause::exists:
      return {"session_exists",
              fmt::format("{} is there already; `pinprick status` shows whose it is", error.path),
              kAttachRefused};
    case Cause::locked:
      return {"session_locked", fmt::format("{} is in use by another pinprick", error.path),
              kAttachRefused};
    case Cause::not_a_session:
      return {"session_unreadable",
              fmt::format("cannot use {}: {}", error.path, describe(error.parse_error)),
              kAttachRefused};
    case Cause::untrusted:
      return {"untrusted_session",
              fmt::format("{} belongs to somebody who does not own the process; it is not believed",
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
    return {"occupied",
            fmt::format("{} is being probed by pinprick {}, whose session file cannot be read, so "
                        "that nobody can add to it; end that one first",
                        process(occupied->pid), occupied->controller),
            kAttachRefused};
  }
  if (const auto* busy = std::get_if<ledger::Busy>(&error))
    return {"busy",
            fmt::format("another pinprick has been changing {} for too long; try again",
                        process(busy->pid)),
            kAttachRefused};
  if (const auto* unreadable = std::get_if<image::ElfError>(&error)) return message(*unreadable);
  const auto& folder = std::get<ledger::NoRuntimeDirectory>(error);
  return {"no_runtime_directory",
          fmt::format("no folder for session files{}; set XDG_RUNTIME_DIR to one of your own",
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
    case Cause::not_64_bit:
      return refuse("not_64_bit", "it is a 32-bit program; only x86-64 programs can be probed");
    case Cause::ended_early:
      return refuse("ended_early", "it ended before it reached its entry point");
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
  switch (error.cause) {
    case image::ElfCause::unreadable:
      return refuse("unreadable", std::strerror(error.system_error));
    case image::ElfCause::not_elf:
      return refuse("not_elf", "not an ELF file");
    case image::ElfCause::truncated:
      return refuse("truncated", "the file ends before its headers say");
    case image::ElfCause::not_x86_64:
      return refuse("not_x86_64", "not for x86-64");
    case image::ElfCause::not_loadable:
      return refuse("not_loadable", "neither a program nor a shared library");
  }
  return refuse("unknown", "unknown cause");
}

namespace {

Message message(const session::MeantTwice&) {
  return {"bad_value",
          "a function is meant by two of the patterns; `pinprick hist` records one value of "
          "a function at a time",
          kUsage};
}

Message message(const session::PointRefused& refused) {
  return {"nothing_armed",
          fmt::format("'{}': {} cannot be probed: {}", refused.span, refused.point,
                      plan::sentence(refused.refusal)),
          kNothingMatched};
}

Message message(const session::NothingArmed& nothing) {
  return {"nothing_armed",
          nothing.kind == placement::Kind::span ? "none of the spans can be measured"
                                                : "none of the functions can be probed",
          kNothingMatched};
}

Message message(const session::Interrupted&) {
  return {"interrupted", "interrupted before any probe was in; nothing was changed", kInterrupted};
}

}  // namespace

Message message(const session::MeasurementError& error) {
  return std::visit([](const auto& cause) { return message(cause); }, error);
}

std::string why_no_breakpoints(const SystemError& error) {
  switch (error.number) {
    case EPERM:
    case EACCES:
      return "the kernel keeps breakpoints for root only (CAP_SYS_ADMIN), or not at all here";
    case EINVAL:
    case ENOSYS:
    case EOPNOTSUPP:
      return "breakpoints that the kernel counts for a whole process need Linux 6.10";
    default:
      return fmt::format("the kernel refuses breakpoints: {}", std::strerror(error.number));
  }
}

}  // namespace pinprick::cli
