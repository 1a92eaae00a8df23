// Completes a command line of pinprick: finds which words may come next.
//
// Pure: says what kind of names may come next, and leaves to the caller to find those of processes.
// Words may be anything, also what pinprick would refuse: the result is then a guess, or nothing.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pinprick::cli {

struct Candidate {
  std::string text;
  std::string what;  // empty if there is nothing to say about it
};

struct NextWord {
  enum class Kind : uint8_t {
    words,       // one of `candidates`
    files,       // a path
    folders,     // the path of a folder
    command,     // a command of its own starts at `command_start`
    processes,   // the PID of one that this user may probe
    probed,      // the PID of one that has probes
    functions,   // of the process `pid`, or of the ELF `file`
    statistics,  // of the process `pid`
  } kind = Kind::words;
  std::vector<Candidate> candidates;
  size_t command_start = 0;  // an index of the words
  pid_t pid = 0;             // 0: none was given
  std::string file;          // empty: none was given
  std::string prefix;        // what is typed of it
  std::string before;        // what stands before it in the same word: --option=, or nothing
};

// `words` are those after `pinprick`. The last one is being typed, and may be empty. Candidates are
// those that begin with it.
NextWord next_word(const std::vector<std::string>& words);

}  // namespace pinprick::cli
