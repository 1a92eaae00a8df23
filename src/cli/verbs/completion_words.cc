#include "cli/verbs/completion_words.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <span>

#include "cli/options.h"

namespace pinprick::cli {
namespace {

using WordKind = NextWord::Kind;

bool is_option(std::string_view word) {
  return word.starts_with('-');
}

pid_t pid_of(std::string_view text) {
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
  return error == std::errc() && end == text.data() + text.size() && pid > 0 ? pid : 0;
}

// The command line as its words up to the last one mean it.
struct Line {
  std::string verb;
  std::vector<OptionDescription> options;  // of the verb
  std::vector<std::string> positionals;
  std::optional<OptionDescription> awaits;  // the option whose value the last word is
  std::string before;                       // of the last word: --option=
  std::string prefix;                       // the rest of the last word
  size_t command_start = 0;                 // 0: no command
  pid_t pid = 0;
  std::string file;

  const OptionDescription* option(std::string_view name) const {
    for (const OptionDescription& one : options)
      if (std::ranges::find(one.names, name) != one.names.end()) return &one;
    return nullptr;
  }
  void note_value(const OptionDescription& option, const std::string& value) {
    if (option.names.back() == "--pid") pid = pid_of(value);
    if (option.value == "ELF" || option.names.back() == "--all") file = value;
  }
};

Line parsed(const std::vector<std::string>& words) {
  Line line;
  const std::string& last = words.back();
  line.prefix = last;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") {
      line.command_start = i + 1;
      return line;
    }
    if (line.verb.empty()) {
      if (!is_option(word)) {
        line.verb = word;
        line.options = options_of(word);
      }
      continue;
    }
    const size_t equals = is_option(word) ? word.find('=') : word.npos;
    const OptionDescription* option =
        is_option(word) ? line.option(std::string_view(word).substr(0, equals)) : nullptr;
    if (!is_option(word)) {
      line.positionals.push_back(word);
    } else if (option != nullptr && !option->value.empty()) {
      if (equals != word.npos)
        line.note_value(*option, word.substr(equals + 1));
      else if (i + 2 < words.size())
        line.note_value(*option, words[++i]);
      else
        line.awaits = *option;
    }
  }
  if (const size_t equals = last.find('='); last.starts_with("--") && equals != last.npos) {
    const OptionDescription* option = line.option(std::string_view(last).substr(0, equals));
    if (option != nullptr && !option->value.empty()) {
      line.awaits = *option;
      line.before = last.substr(0, equals + 1);
      line.prefix = last.substr(equals + 1);
    }
  }
  return line;
}

std::vector<Candidate> plain(std::initializer_list<const char*> texts) {
  std::vector<Candidate> candidates;
  for (const char* text : texts) candidates.push_back({text, ""});
  return candidates;
}

NextWord words_of(std::vector<Candidate> candidates) {
  NextWord next;
  next.candidates = std::move(candidates);
  return next;
}

NextWord names_of(WordKind kind) {
  NextWord next;
  next.kind = kind;
  return next;
}

// Do probes have to be in the process, for this verb?
bool needs_probes(const std::string& verb) {
  return verb == "detach" || verb == "keep" || verb == "status" || verb == "calls";
}

NextWord option_value(const Line& line) {
  const std::string& name = line.awaits->names.back();
  const std::string& value = line.awaits->value;
  if (name == "--children")
    return words_of({{"count", "probes in children count, too (default)"},
                     {"ignore", "children are not measured"},
                     {"follow", "what children execute is measured, too"}});
  if (name == "--repeat") return words_of({{"all", "each hit is a dump, until Ctrl-C"}});
  if (name == "--by") return words_of({{"pid", "show each process"}});
  if (name == "--tracer")
    return words_of({{"function", "a line for each call (default)"},
                     {"function_graph", "which calls lie within which"},
                     {"nop", "an event for each call"}});
  if (name == "--format") return words_of(plain({"text", "json", "ftrace"}));
  if (name == "--color") return words_of(plain({"auto", "always", "never"}));
  if (name == "--bits") return words_of(plain({"0", "1", "2", "3", "4", "5"}));
  if (name == "--owner") return {};
  if (value == "PID")
    return names_of(needs_probes(line.verb) ? WordKind::probed : WordKind::processes);
  if (value == "FILE" || value == "ELF") return names_of(WordKind::files);
  if (value == "PATTERN" || value == "FUNCTION") return names_of(WordKind::functions);
  return {};
}

std::vector<Candidate> verb_names() {
  std::vector<Candidate> candidates;
  for (VerbDescription& verb : verbs())
    candidates.push_back({std::move(verb.name), std::move(verb.what)});
  return candidates;
}

std::vector<Candidate> option_names(const std::vector<OptionDescription>& options) {
  std::vector<Candidate> candidates;
  for (const OptionDescription& option : options)
    for (const std::string& name : option.names) candidates.push_back({name, option.what});
  return candidates;
}

// kstats: the words of its commands.
NextWord statistic_word(const std::vector<std::string>& before) {
  if (before.empty())
    return words_of({{"trace", "times of the calls of a function, or between two points"},
                     {"remove", "take a statistic out of the process"},
                     {"START", "resume it"},
                     {"STOP", "pause it; the figures stay"},
                     {"RESET", "clear its figures"},
                     {"list", "the names of all"},
                     {"show", "the distribution of one, or of all"}});
  if (before.front() != "trace")
    return before.size() == 1 && before.front() != "list" ? names_of(WordKind::statistics)
                                                          : NextWord();
  const std::string& last = before.back();
  if (before.size() == 1 || last == "start" || last == "end") return names_of(WordKind::functions);
  if (last == "gap") return words_of(plain({"cpu", "thread", "none"}));
  if (last == "bits") return words_of(plain({"0", "1", "2", "3", "4", "5"}));
  return words_of({{"start", "the point where a time begins"},
                   {"end", "the point where it ends"},
                   {"bits", "of the histogram"},
                   {"gap", "what a gap lies between"},
                   {"if", "which calls are timed"}});
}

bool takes_command(const std::string& verb) {
  return verb == "count" || verb == "latency" || verb == "hist" || verb == "measure" ||
         verb == "trace" || verb == "leaks" || verb == "locks";
}

NextWord guess(const Line& line) {
  if (line.command_start != 0) return names_of(WordKind::command);
  if (line.awaits) return option_value(line);
  if (line.verb.empty())
    return words_of(is_option(line.prefix) ? option_names(options_of("")) : verb_names());
  if (is_option(line.prefix)) {
    auto candidates = option_names(line.options);
    if (takes_command(line.verb))
      candidates.push_back({"--", "a command to start, and its arguments"});
    return words_of(std::move(candidates));
  }
  if (line.verb == "kstats") return statistic_word(line.positionals);
  if (line.verb == "mount" && line.positionals.empty()) return names_of(WordKind::folders);
  if (line.verb == "completion" && line.positionals.empty())
    return words_of(plain({"bash", "zsh", "fish"}));
  if (line.verb == "help" && line.positionals.empty()) {
    auto topics = verb_names();
    topics.push_back({"agents", "a page for scripts and coding agents"});
    return words_of(std::move(topics));
  }
  if (line.verb == "serve" && line.positionals.empty())
    return words_of({{"127.0.0.1:9467", "for this machine alone"},
                     {"0.0.0.0:9467", "for all who reach this machine"},
                     {"unix:", "a socket in a folder"}});
  if (line.verb == "diff" || line.verb == "report") return names_of(WordKind::files);
  // A measure is one word with blanks, and leaks and locks have no patterns.
  if (line.verb == "measure" || line.verb == "leaks" || line.verb == "locks") return {};
  if (takes_command(line.verb) || line.verb == "list" || line.verb == "top" || line.verb == "calls")
    return names_of(WordKind::functions);
  return {};
}

}  // namespace

NextWord next_word(const std::vector<std::string>& words) {
  if (words.empty()) return {};
  const Line line = parsed(words);
  NextWord next = guess(line);
  next.command_start = line.command_start;
  next.pid = line.pid;
  next.file = line.file;
  next.prefix = line.prefix;
  next.before = line.before;
  std::erase_if(next.candidates,
                [&](const Candidate& one) { return !one.text.starts_with(line.prefix); });
  return next;
}

}  // namespace pinprick::cli
