// A stream for sentences that are printed while a screen is shown: they are kept, and go to stderr
// once the screen is gone. One thread uses it.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

namespace pinprick::cli::top {

class Notes {
 public:
  Notes();
  Notes(const Notes&) = delete;
  Notes& operator=(const Notes&) = delete;
  // Prints what is still kept.
  ~Notes();

  // What is written to it goes to stderr, or is kept.
  std::FILE* stream() { return stream_.get(); }
  void keep() { keeps_ = true; }
  // Prints what was kept, and no longer keeps what comes.
  void release();
  // Returns the last line that was written since the last call; empty if there is none.
  std::string take_last_line();

 private:
  static ssize_t write(void* notes, const char* bytes, size_t size);

  bool keeps_ = false;
  std::string kept_;
  size_t taken_ = 0;  // of kept_, by take_last_line()
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream_;
};

}  // namespace pinprick::cli::top
