// remover PID: a controller that adds probes on the functions of tests/targets/called.c, removes
// some of them, switches others off, removes the rest, and ends. Exits with 0 if all of that went
// well.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "engine/engine.h"
#include "image/store/object_store.h"
#include "session/matching.h"
#include "session/selection.h"
#include "session/subject.h"

namespace {

using namespace pinprick;

std::optional<engine::Addition> addition(pid_t pid, image::ObjectStore& store) {
  session::MeasureSpec measure;
  for (const char* name : {"one", "two", "three", "roomy", "four", "inner", "outer", "mixed"})
    measure.wanted.push_back(std::string("called:") + name);
  const auto selection = session::parse_selection({.measures = {measure}, .excluded = {}});
  auto subject = session::look_at(pid, store);
  if (!selection || !subject) return std::nullopt;
  auto matches = session::match(*subject->image, *selection, session::Unmatched::refuse);
  if (!matches) return std::nullopt;
  engine::Addition add;
  add.set = placement::plan_probes(*subject->image, *std::move(matches), placement::Kind::count);
  add.image = std::move(subject->image);
  add.options.has_switches = true;
  return add;
}

bool run(pid_t pid) {
  image::ObjectStore store;
  auto target = session::open_target(pid);
  if (!target) return false;
  engine::Engine engine(*std::move(target));
  auto add = addition(pid, store);
  if (!add) return false;
  const auto added = engine.apply({.add = std::move(add)});
  if (!added) return false;
  const auto all = engine::Engine::all_of(*added->added);
  std::vector<engine::ProbeId> some, others;
  for (size_t i = 0; i < all.size(); ++i) (i % 2 == 0 ? some : others).push_back(all[i]);
  const auto removed = engine.apply({.remove = some, .disable = others});
  if (!removed || removed->removed != some.size()) return false;
  const auto ended = engine.apply({.remove = others});
  return ended && ended->removed == others.size() && !ended->ended.memory_left;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const bool went = run(static_cast<pid_t>(std::strtol(argv[1], nullptr, 10)));
  std::puts(went ? "done" : "failed");
  return went ? 0 : 1;
}
