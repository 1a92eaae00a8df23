// Reads a recording. It may be damaged, or another program may have written it: all is checked.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/result.h"
#include "recording/header.h"
#include "session/events.h"
#include "session/report.h"

namespace pinprick::recording {

struct ReadError {
  enum class Cause : uint8_t {
    system,         // `system_error`
    not_recording,  // it is another kind of file
    other_version,  // of another version of the format
    damaged,        // what follows is not what a pinprick has written
  } cause = Cause::system;
  int system_error = 0;
};

// Takes what a recording has, in its order.
class Sink : public session::EventSink {
 public:
  // As Writer::told_until().
  virtual void told_until(uint64_t tsc) = 0;
  virtual void report(const session::Report& report) = 0;
};

class Reader {
 public:
  // Reads the header.
  static Result<Reader, ReadError> open(const std::string& path);
  // The same of bytes that are there already.
  static Result<Reader, ReadError> of(std::string bytes);

  const Header& header() const { return header_; }
  // Hands over what the next chunk has. Returns false at the end of the file. After an error there
  // is nothing more to read.
  Result<bool, ReadError> read_chunk(Sink& sink);
  // Was the recording ended, and not only left? Known at the end of the file.
  bool is_complete() const { return is_complete_; }
  // Is all of it there, of a program that pinprick started and that ended by itself? Known at the
  // end, too.
  bool is_whole_program() const { return is_whole_program_; }

 private:
  struct Thread {
    session::ProcessName process;
    pid_t tid = 0;
    std::string_view command;
  };
  struct Probe {
    engine::ProbeName name;
    bool has_return_event = false, triggers_end = false;
    std::optional<action::Action::SpanPart> span_part;
    struct Value {
      std::string_view name, text;
      std::optional<action::Field::Words> words;
    };
    std::vector<Value> values;
  };

  Reader() = default;
  static Result<Reader, ReadError> begin(Reader reader);
  Result<std::string, ReadError> next_bytes(size_t size);
  Result<std::string, ReadError> next_chunk();
  bool read_header(ByteReader& in);
  bool read_record(ByteReader& in, Sink& sink);
  // A text is valid as long as the chunk is read, or always.
  enum class Lasts : bool { in_chunk, always };
  std::string_view text(ByteReader& in, Lasts lasts = Lasts::in_chunk);
  bool has_room_for(uint64_t size) const;
  bool read_thread(ByteReader& in);
  bool read_probe(ByteReader& in);
  bool read_event(uint8_t tag, ByteReader& in, Sink& sink);
  bool read_report(ByteReader& in, Sink& sink);
  bool read_value(ByteReader& in, unsigned depth, session::EventValue& value);

  Fd file_;
  std::string bytes_;  // if there is no file
  size_t position_ = 0;
  Header header_;
  bool is_complete_ = false, is_whole_program_ = false;
  // Events refer to the elements of these, which never move.
  std::deque<std::string> texts_, long_texts_;
  std::deque<std::string> texts_of_chunk_;
  uint64_t bytes_of_texts_ = 0;  // of those that stay
  std::deque<Thread> threads_;
  std::deque<Probe> probes_;
  std::vector<session::EventValue> values_;
  uint64_t rows_ = 0;           // of all figures
  size_t values_of_event_ = 0;  // those in others, too
  uint64_t tsc_ = 0, time_ns_ = 0, stack_pointer_ = 0;
  size_t thread_ = SIZE_MAX, probe_ = SIZE_MAX;
  std::optional<uint32_t> cpu_;
};

}  // namespace pinprick::recording
