// The base of all renderers that write a file for another tool (docs/exports.md). What they say to
// people is that of text.h.
#pragma once

#include <string>
#include <string_view>

#include "cli/render/text.h"
#include "export/format.h"

namespace pinprick::cli {

class ExportRenderer : public TextRenderer {
 public:
  // `path` is the file that data() writes.
  ExportRenderer(TextRenderer text, exports::Format format, std::string path)
      : TextRenderer(std::move(text)), format_(format), path_(std::move(path)) {}

  void armed(const ProcessName& process, const engine::ArmReport& report, uint64_t elapsed_ns,
             bool until_interrupt) override;
  void files_armed(const FilesFigures& figures, bool until_interrupt) override;
  void begin_dump(const Dump&) override { has_begun_ = true; }
  void replays(const recording::Header&) override { has_begun_ = true; }
  // Reports of intervals are for add_interval(); those of the whole time for add().
  void report(const Report& report) final;
  // Leaves the file as it was if nothing was armed. Otherwise its last line says what opens it.
  void conclude() override;
  bool shows_trees() const final { return false; }

 protected:
  const std::string& path() const { return path_; }
  // There are results.
  void begin() { has_begun_ = true; }

 private:
  virtual void add(const Report&) {}
  virtual void add_interval(const Report&) {}
  // Writes the rest.
  virtual void finish() {}

  exports::Format format_;
  std::string path_;
  bool has_begun_ = false;
};

// Returns a probe's name as text_of() does, and where and when it counts: `f%return if $retval==0`.
std::string point_text(ProbeName name);

}  // namespace pinprick::cli
