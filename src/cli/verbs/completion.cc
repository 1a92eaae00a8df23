// pinprick completion: the files for shells, and the names that they offer.
//
// Names are for a user who waits with a finger on the key: what takes longer than a second is not
// worth it, and no error is worth a message in the midst of a command line.
#include <fmt/format.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/messages/verb_messages.h"
#include "cli/object_store.h"
#include "cli/render/text_width.h"
#include "cli/verbs/completion_words.h"
#include "cli/verbs/probeable.h"
#include "cli/verbs/verbs.h"
#include "image/match.h"
#include "ledger/discovery.h"
#include "session/statistics.h"
#include "session/subject.h"
#include "target/procfs.h"

extern "C" {
extern const char pinprick_bash_completion[], pinprick_bash_completion_end[];
extern const char pinprick_zsh_completion[], pinprick_zsh_completion_end[];
extern const char pinprick_fish_completion[], pinprick_fish_completion_end[];
}

namespace pinprick::cli {
namespace {

std::string_view file_of(const std::string& shell) {
  if (shell == "bash") return {pinprick_bash_completion, pinprick_bash_completion_end};
  if (shell == "zsh") return {pinprick_zsh_completion, pinprick_zsh_completion_end};
  if (shell == "fish") return {pinprick_fish_completion, pinprick_fish_completion_end};
  return {};
}

// Ends this process after a second, without a word. Nothing is changed or held by then that another
// process would miss: names are only read, and files of the cache get their names when they are
// complete.
void end_within_a_second() {
  struct sigaction action = {};
  action.sa_handler = [](int) { ::_exit(kOk); };
  ::sigaction(SIGALRM, &action, nullptr);
  const itimerval second = {{}, {1, 0}};
  ::setitimer(ITIMER_REAL, &second, nullptr);
}

// A name with a character that no terminal shows cannot be typed, or could forge a line.
bool can_be_typed(std::string_view name) {
  return !name.empty() && printable(name, true) == name;
}

std::vector<Candidate> probeable_processes() {
  std::vector<Candidate> candidates;
  for (const ProbeableProcess& process : visible_processes().probeable)
    candidates.push_back({std::to_string(process.pid), process.command});
  return candidates;
}

std::vector<Candidate> probed_processes() {
  std::set<pid_t> probed;
  for (const auto& found : ledger::find_sessions().sessions)
    if (found.target_lives) probed.insert(found.journal.header.pid);
  std::vector<Candidate> candidates;
  for (const pid_t pid : probed)
    if (const auto status = target::read_status(pid))
      candidates.push_back({std::to_string(pid), status->command});
  return candidates;
}

// The program's own functions come first, then those of its libraries. With OBJECT: in front, only
// those of the object.
std::vector<Candidate> functions_in(image::ProcessImage& image, const std::string& prefix) {
  constexpr size_t kMost = 300;
  // What a wildcard stands for cannot be completed; nor can an offset, a value or a span.
  if (prefix.find_first_of("*?+ ") != prefix.npos || prefix.starts_with("usdt:")) return {};
  auto pattern = image::Pattern::parse(prefix + "*", image::PatternSyntax::glob);
  if (!pattern) return {};
  pattern->leave_out_parts();
  const size_t start = pattern->names_object() ? prefix.size() - pattern->function().size() + 1 : 0;
  const std::string object = prefix.substr(0, start);
  const std::string_view name = std::string_view(prefix).substr(start);
  std::set<std::string_view> seen;
  std::vector<Candidate> candidates;
  for (const image::Match& match : image::match_patterns(image, {*pattern}, {}).matches) {
    if (candidates.size() == kMost) break;
    // An alias or a mangled name may have matched.
    if (match.function_name.starts_with(name) && seen.insert(match.function_name).second)
      candidates.push_back({object + std::string(match.function_name), ""});
  }
  return candidates;
}

std::vector<Candidate> functions(const NextWord& next) {
  if (!next.file.empty()) {
    auto image = image::load_file(next.file, &object_store());
    return image ? functions_in(*image, next.prefix) : std::vector<Candidate>();
  }
  if (next.pid == 0) return {};
  const auto subject = session::look_at(next.pid, object_store());
  return subject ? functions_in(*subject->image, next.prefix) : std::vector<Candidate>();
}

std::vector<Candidate> statistics(pid_t pid) {
  std::vector<Candidate> candidates;
  if (pid == 0) return candidates;
  for (const auto& one : session::Statistics(pid, object_store()).list())
    candidates.push_back({one.name, ""});
  return candidates;
}

std::vector<Candidate> candidates_of(const NextWord& next) {
  using Kind = NextWord::Kind;
  switch (next.kind) {
    case Kind::processes:
      return probeable_processes();
    case Kind::probed:
      return probed_processes();
    case Kind::functions:
      return functions(next);
    case Kind::statistics:
      return statistics(next.pid);
    default:
      return next.candidates;
  }
}

// The first line says how the shell completes the word: by the `names` of the following lines, each
// with a tab and a description if it has one; by `files` or `folders`; or as a `command`, which
// starts at the word of that number.
std::string answer(const std::vector<std::string>& words) {
  using Kind = NextWord::Kind;
  const NextWord next = next_word(words);
  if (next.kind == Kind::files) return "files\n";
  if (next.kind == Kind::folders) return "folders\n";
  if (next.kind == Kind::command) return fmt::format("command {}\n", next.command_start);
  std::string lines = "names\n";
  for (const auto& [text, what] : candidates_of(next)) {
    if (!text.starts_with(next.prefix) || !can_be_typed(text)) continue;
    lines += next.before + text;
    if (!what.empty()) lines += "\t" + printable(what, true);
    lines += "\n";
  }
  return lines;
}

}  // namespace

int run_completion(const Options& options, Renderer& renderer) {
  std::string found;
  if (options.shell == "words") {
    end_within_a_second();
    found = answer(options.command);
  }
  const std::string_view text = options.shell == "words" ? found : file_of(options.shell);
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return kOk;
  return errno == EPIPE ? kFailed : give_up(renderer, cannot_write("the completions", errno));
}

}  // namespace pinprick::cli
