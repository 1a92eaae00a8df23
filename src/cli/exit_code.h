// What the shell sees.
#pragma once

namespace pinprick::cli {

enum ExitCode : int {
  kOk = 0,
  kFailed = 1,
  kUsage = 2,
  kNothingMatched = 3,
  kAttachRefused = 4,
  kLost = 5,                 // with --fail-on-loss
  kFailedWithCommand = 125,  // pinprick's own failure where the status belongs to a command
  kInterrupted = 130         // by SIGINT before any probe was in; by another signal 128 and that
};

}  // namespace pinprick::cli
