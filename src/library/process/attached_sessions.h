// The sessions of pinprick that are attached to this program: which bytes of its text they take.
//
// A copy, as of the last look. The caller holds the registry's lock.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <vector>

#include "base/address.h"
#include "base/fd.h"
#include "base/result.h"
#include "layout/session_file.h"
#include "target/memory.h"

namespace pinprick::library {

class AttachedSessions {
 public:
  // Fails if the mappings of the process cannot be read.
  static Result<AttachedSessions, SystemError> look(const target::Memory& memory);

  // The controller of a session whose sites are unknown: its file cannot be read, or belongs to the
  // process from which this one was forked. 0 if the controller is unknown, too; nullopt if there
  // is no such session.
  std::optional<pid_t> unknown() const { return unknown_; }
  // The controller of any session that has changed the text, or may do so next.
  std::optional<pid_t> any() const;
  // The controller of a session that takes any of these bytes; nullopt if there is none. The nop of
  // a tracepoint that a session has turned on is taken from probes only: points are turned on by
  // all who want them.
  enum class Purpose : uint8_t { probe, point };
  std::optional<pid_t> owner_of(Range range, Purpose purpose) const;
  // The controller of a session that has displaced the instruction there and one before it.
  std::optional<pid_t> owner_around(Address instruction) const;
  // Replaces the sessions' jumps by the original bytes in `bytes`, text read at `address`.
  void put_back(Address address, std::span<uint8_t> bytes) const;

  // Are the same sessions there, in the same state?
  bool has_same_sessions(const AttachedSessions& other) const {
    return sessions_ == other.sessions_;
  }

 private:
  struct Taken {
    layout::SiteEntry site;
    pid_t controller = 0;
    bool is_point = false;  // a nop of a tracepoint
    Range range() const;
  };
  struct Session {  // a mapped one
    uint64_t created_ns = 0;
    pid_t controller = 0;
    layout::SessionState state{};
    bool operator==(const Session&) const = default;
  };

  static Result<AttachedSessions, SystemError> look_once(const target::Memory& memory);

  bool lacks_file_ = false;  // a session that was armed has none that can be read
  std::vector<Session> sessions_;
  std::optional<pid_t> unknown_;
  std::vector<Taken> taken_;  // by address
};

}  // namespace pinprick::library
