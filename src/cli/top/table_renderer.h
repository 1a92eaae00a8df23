// Prints what `top` shows as tables, one after the other, where there is no terminal.
#pragma once

#include <map>

#include "cli/options.h"
#include "cli/render/text.h"
#include "cli/top/model.h"

namespace pinprick::cli::top {

class TableRenderer : public TextRenderer {
 public:
  TableRenderer(Output data, Output notes, const Options& options);

  bool shows_idle(size_t) const override { return true; }
  void report(const Report& report) override;

 private:
  void print(const Model& model, bool with_history);

  bool all_;
  RowKind kind_;
  bool unicode_;
  std::map<pid_t, Model> models_;  // with the last minute of each process
};

}  // namespace pinprick::cli::top
