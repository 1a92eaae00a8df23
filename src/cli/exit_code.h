// The exit status of pinprick.
#pragma once

namespace pinprick::cli {

enum ExitCode : int {
  kOk = 0,
  kFailed = 1,
  kUsage = 2,
  kNothingMatched = 3,
  kAttachRefused = 4,
  kLost = 5,  // with --fail-on-loss
  kFailedWithCommand =
      125,            // pinprick's own failure with -- COMMAND, whose status is used otherwise
  kInterrupted = 130  // by SIGINT before any probe was placed; by signal n: 128 + n
};

}  // namespace pinprick::cli
