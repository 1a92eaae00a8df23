// Pattern: what users write to name functions, [object:]glob[+0xOFF], or SDT points. Pure.
//
//     processCommand            in every object of the process
//     libc:mall*                object by file name, without its version
//     net::Conn::*              C++ names, demangled; `::` never separates an object
//     net::Conn::read(char*, *  with a parenthesis: the whole signature
//     redis-server:call+0x1f    an instruction
//     gzip+0x3500, gzip:0x3500  a function by its address in the file
//     gzip+0x35*                functions by addresses
//     @server.c:42              where a line of source begins, as debug information says
//     libc:@malloc/malloc.c:42  that of one object, and of a file by the end of its path
//     @server.c:42-50           each of these lines
//     serve%inline              where the function was inlined, as debug information says
//     usdt:python:function__*   SDT points by provider and name, in every object
//     usdt:libc:libc:setjmp     those of one object; usdt:libc alone: all of a provider
//     __tracepoint_gc__start    as kstats has it: the SDT point of that name, of any provider
//     __tracepoint_shop__order  or of this provider
//
// A name also means the copies that compilers make of a function (without_copy_suffix()), but not
// with an offset, and Rust's names need no hash. Globs have * and ?. In a regular expression (POSIX
// extended), the part after the object must match the whole name, and there is no offset. Points
// are named by globs only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pinprick::image {

enum class PatternSyntax : uint8_t { glob, regex };

enum class PatternCause : uint8_t {
  empty,
  bad_offset,       // what follows + is not a number
  bad_regex,        // detail: the message of regcomp
  bad_line,         // @ is not followed by FILE:LINE or FILE:FIRST-LAST
  inlined_offset,   // %inline with an offset
  bad_point,        // usdt: is not followed by [OBJECT:]PROVIDER:NAME
  point_regex,      // usdt: in a regular expression
  not_implemented,  // point:
};

struct PatternError {
  PatternCause cause = PatternCause::empty;
  std::string pattern;
  std::string detail;
};
// Returns what is wrong with the pattern, for people: lower case, no full stop.
std::string explanation(const PatternError& error);

class Pattern {
 public:
  static Result<Pattern, PatternError> parse(std::string_view text, PatternSyntax syntax);

  const std::string& text() const { return text_; }
  const std::string& function() const { return function_; }
  bool names_object() const { return !object_.empty(); }
  // Returns whether the objects that it names may be more than one.
  bool names_objects() const { return object_.find_first_of("*?") != object_.npos; }
  uint64_t offset() const { return offset_; }
  bool has_offset() const { return has_offset_; }
  // Returns whether it names SDT points. Such a pattern matches no function.
  bool names_points() const { return !provider_.empty(); }
  // Returns whether it names lines of source. Such a pattern matches no function.
  struct Lines {
    std::string file;  // its name, or the end of its path
    uint32_t first = 0, last = 0;
  };
  bool names_lines() const { return lines_.last != 0; }
  const Lines& lines() const { return lines_; }
  // Returns whether it names the places where functions were inlined. Such a pattern matches no
  // function, either.
  bool names_inlined() const { return inlined_; }
  // Returns whether it names places that only debug information knows.
  bool names_source() const { return names_lines() || names_inlined(); }
  bool is_regex() const { return regex_ != nullptr; }
  // Returns whether it could match more than one name.
  bool has_wildcard() const;
  // Returns whether it may name a function by its address: 0x3500, gzip+0x3500 or gzip+0x35*.
  bool may_name_address() const;
  // Returns whether it names the function at this address of an object with these names, apart from
  // its offset: gzip+0x3500+0x4, 0x3500, gzip+0x35*.
  bool matches_address(const std::vector<std::string>& names, uint64_t address) const;
  // Returns whether it names such an object, so that its offset is an address there: gzip+0x3500.
  bool has_address_in(const std::vector<std::string>& names) const;
  // Excludes parts of functions, except those that the pattern names: by ".cold" or ".warm", or by
  // the whole name of a part without a symbol.
  void leave_out_parts() { with_parts_ = false; }
  bool means_part(bool has_symbol) const;
  // Limits it to functions that have an entry site (entry_sites.h). Points stay as they are.
  void mean_entry_sites() { entry_sites_ = true; }
  bool means_entry_sites() const { return entry_sites_; }

  // `names` are the object's names, e.g. redis-server and redis-check-rdb.
  bool matches_object(const std::vector<std::string>& names) const;
  // `name` is from the symbol table, mangled or not.
  enum class Copies : uint8_t { of_function, none };
  bool matches_function(std::string_view name, Copies copies = Copies::of_function) const;
  bool matches_point(std::string_view provider, std::string_view name) const;
  // `name` is that of an inlined function, mangled or not.
  bool matches_inlined(std::string_view name) const;

  static constexpr std::string_view kInlineMark = "%inline";
  static constexpr std::string_view kTracepoint = "__tracepoint_";

 private:
  struct Regex;
  Pattern() = default;
  Result<void, PatternCause> parse_point(std::string_view rest);
  bool parse_lines(std::string_view rest);
  bool matches_text(std::string_view text) const;
  bool matches_name(std::string_view name, Copies copies) const;

  std::string text_;
  std::string object_;    // glob; empty: any
  std::string provider_;  // glob; empty: the pattern names functions
  std::string function_;  // or the glob of a point's name
  Lines lines_;
  uint64_t offset_ = 0;
  // Every mangled name that matches contains this; empty if nothing is known.
  std::string in_mangled_;
  bool has_offset_ = false;
  bool is_tracepoint_ = false;  // `function_` is NAME or PROVIDER__NAME
  bool with_parts_ = true;
  bool entry_sites_ = false;
  bool inlined_ = false;
  std::shared_ptr<Regex> regex_;
};

bool glob_matches(std::string_view glob, std::string_view text);

// Returns libc for libc.so.6 and for libc-2.31.so, libstdc++ for libstdc++.so.6.0.30, libgcc_s for
// libgcc_s-8-20210514.so.1; the whole name if it is no library's.
std::string_view without_version(std::string_view file_name);
// Is it the file of this library, of whichever version?
bool is_library(std::string_view file_name, std::string_view library);

}  // namespace pinprick::image
