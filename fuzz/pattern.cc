// Patterns, against names. Input: a byte that chooses the syntax, the pattern, newline, the name.
#include "image/pattern.h"

#include <algorithm>

#include "fuzzer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pinprick;
  if (size == 0) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t newline = std::min(all.find('\n'), all.size());
  const std::string_view wanted = all.substr(0, newline);
  const std::string name(newline == all.size() ? wanted : all.substr(newline + 1));
  CHECK(image::without_version(name).size() <= name.size());

  const bool regex = data[0] & 1;
  // regcomp takes what time and memory a user asks it to: `((a{99}){99}){99}`,
  // `a+++++++++++++++++`.
  const auto repeats = std::count_if(wanted.begin(), wanted.end(),
                                     [](char c) { return c == '+' || c == '*' || c == '?'; });
  if (regex && (wanted.size() > 40 || repeats > 6 || wanted.find('{') != wanted.npos)) return 0;
  if (wanted.size() > 2000) return 0;
  const auto pattern = image::Pattern::parse(
      wanted, regex ? image::PatternSyntax::regex : image::PatternSyntax::glob);
  if (pattern) {
    CHECK(pattern->text() == wanted);
    pattern->matches_object({name, "libc.so.6"});
    pattern->matches_function(name);
    pattern->matches_point(name, name);
    CHECK(!pattern->names_points() || !pattern->matches_function(name));
    CHECK(!pattern->matches_function(name) || !pattern->matches_inlined(name));
  }
  CHECK(image::glob_matches("*", name));
  CHECK(image::glob_matches(std::string(name.size(), '?'), name));
  CHECK(image::glob_matches(name, name));  // a star matches a star, too
  return 0;
}

std::vector<Input> seeds() {
  std::vector<Input> all;
  for (const char* text :
       {"0run\nrun", "0libc:mall*\nmalloc", "0net::Conn::*\n_ZN3net4Conn4readEPcm",
        "0main+0x1f\nmain", "1^(get|set)[A-Z].*$\ngetCommand", "0operator+\n_ZplRK1AS1_",
        "0a:b:c+9\n", "1(a|b)*c\nababc", "0redis-server:call*+0x10\ncall",
        "0*a*b*c*d*\naaaabbbbccccdddd", "0f(char*, ?nt)\n_Z1fPci", "0usdt:a:b:c*\nc",
        "0a:__tracepoint_b__c\nb", "0a:b*%inline\n_Z3bcdi"})
    all.push_back(pinprick::fuzz::text(text));
  return all;
}
