// Random changes by several owners, while the program runs, against a model of what each of them
// should have counted: 2,000 steps, or MODEL_STEPS in the environment. A failure prints the seed,
// which SEED repeats.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "image/store/object_store.h"
#include "ledger/turn.h"
#include "session/matching.h"
#include "session/selection.h"
#include "session/subject.h"
#include "survive/footprint.h"
#include "survive/program.h"
#include "survive/runtime_folder.h"

namespace pinprick::survive {
namespace {

using placement::Kind;

constexpr std::array<const char*, 9> kFunctions = {"one",   "two",   "three", "roomy", "four",
                                                   "inner", "outer", "mixed", "stored"};

// What a probe has recorded, if nothing is wrong.
struct Modelled {
  std::string name;
  uint64_t calls_each = 1;  // a call of the program
  uint64_t recorded = 0;
  enum class State : uint8_t { on, off, removed } state = State::on;
  bool has_switch = false;
  // Changed while the program was calling: it has between none and all of these calls.
  bool is_open = false;
};

struct ModelledBatch {
  std::vector<Modelled> probes;
  bool is_over() const {
    return std::all_of(probes.begin(), probes.end(),
                       [](const Modelled& one) { return one.state == Modelled::State::removed; });
  }
};

// One owner: its engine, and what that should hold.
struct Owner {
  explicit Owner(target::RemoteTarget target) : engine(std::move(target)) {}
  engine::Engine engine;
  std::map<engine::BatchId, ModelledBatch> model;
};

class Model {
 public:
  Model(pid_t pid, Program& program, uint64_t seed) : pid_(pid), program_(program), random_(seed) {
    for (int i = 0; i < 3; ++i) owners_.emplace_back(*session::open_target(pid));
  }

  // One change by one owner. In half of the steps the program calls its functions at the same time.
  void step() {
    Owner& owner = owners_[below(owners_.size())];
    const bool at_once = below(2) == 0;
    const uint64_t calls = at_once ? 200 + below(2000) : below(50);
    if (at_once) program_.say("call " + std::to_string(calls));
    ASSERT_NO_FATAL_FAILURE(change(owner, at_once));
    if (!at_once) program_.say("call " + std::to_string(calls));
    ASSERT_EQ(program_.hear(), "called");
    for (Owner& one : owners_) ASSERT_NO_FATAL_FAILURE(check(one, 2 * calls));
  }

  void remove_all() {
    for (Owner& owner : owners_) {
      engine::Change change;
      for (const engine::Batch& batch : owner.engine.batches())
        for (const engine::ProbeId& id : engine::Engine::all_of(batch)) change.remove.push_back(id);
      const auto done = owner.engine.apply(std::move(change));
      ASSERT_TRUE(done);
      EXPECT_FALSE(done->ended.memory_left);
      EXPECT_EQ(done->ended.foreign, 0u);
      owner.engine.batches().clear();
      owner.model.clear();
    }
  }

  // Of all changes together.
  const engine::ChangeReport& sum() const { return sum_; }
  size_t added() const { return added_; }

 private:
  uint64_t below(uint64_t limit) { return random_() % limit; }

  // Some have a condition, which always holds.
  std::vector<std::string> some_functions() {
    constexpr const char* kConditions[] = {"", "", " if %rsp!=0", " if %rdi+%rsi==%rsi+%rdi"};
    const char* const condition = kConditions[below(std::size(kConditions))];
    std::vector<std::string> some;
    for (const char* function : kFunctions)
      if (below(3) == 0) some.push_back(std::string("called:") + function + condition);
    if (some.empty()) some.push_back("called:one");
    return some;
  }

  static std::vector<std::string> at_returns(std::vector<std::string> functions) {
    for (std::string& text : functions)
      text.insert(std::min(text.find(' '), text.size()), "%return");
    return functions;
  }

  // Some functions, or single instructions of them. They may be counted, also by keys, and timed at
  // once, and counted when they return.
  std::optional<engine::Addition> addition() {
    session::SelectionSpec texts;
    const uint64_t what = below(6);
    if (what < 4) texts.measures.push_back({{}, Kind::count, some_functions()});
    // What times one call has one switch, so there is one such measure.
    if (what == 0 || what == 4) texts.measures.push_back({{}, Kind::latency, some_functions()});
    if (what == 0) texts.measures.push_back({{}, Kind::count, some_functions()});
    if (what == 1) texts.sites = session::Sites::every_instruction;
    if (what == 5) texts.measures.push_back({{}, Kind::count, at_returns(some_functions())});
    if (what != 5 && below(2) == 0) texts.key = "%rsp>>4&63";
    if (what != 5 && below(3) == 0) texts.sum = "%rsp*3";
    const auto selection = session::parse_selection(texts);
    auto subject = session::look_at(pid_, store_);
    if (!selection || !subject) return std::nullopt;
    auto matches = session::match(*subject->image, *selection, session::Unmatched::refuse);
    if (!matches) return std::nullopt;
    if (texts.sites == session::Sites::every_instruction) {
      // Probes of one window come and go one by one.
      auto all = placement::instructions_of(*matches);
      std::shuffle(all.begin(), all.end(), random_);
      all.resize(std::min<size_t>(all.size(), 1 + below(12)));
      std::sort(all.begin(), all.end(),
                [](const image::Match& a, const image::Match& b) { return a.site < b.site; });
      *matches = std::move(all);
    }
    engine::Addition add;
    add.set = placement::plan_probes(*subject->image, *std::move(matches), selection->actions);
    add.image = std::move(subject->image);
    add.options.has_switches = below(4) != 0;
    return add;
  }

  // Each probe of this owner with a chance of one in `of`.
  std::vector<engine::ProbeId> some(Owner& owner, uint64_t of) {
    std::vector<engine::ProbeId> chosen;
    for (const engine::Batch& batch : owner.engine.batches())
      for (const engine::ProbeId& id : engine::Engine::all_of(batch))
        if (below(of) == 0) chosen.push_back(id);
    return chosen;
  }

  void change(Owner& owner, bool at_once) {
    const auto turn = ledger::Turn::take(pid_);
    ASSERT_TRUE(turn);
    engine::Change change;
    bool has_switches = false;
    if (owner.engine.batches().size() < 5 && below(2) == 0) {
      change.add = addition();
      has_switches = change.add && change.add->options.has_switches;
    }
    if (below(3) == 0) change.enable = some(owner, 2);
    if (below(3) == 0) change.disable = some(owner, 3);
    if (below(3) == 0) change.remove = some(owner, 1 + below(4));
    const engine::Change wanted = {
        .remove = change.remove, .enable = change.enable, .disable = change.disable};
    const auto done = owner.engine.apply(std::move(change));
    ASSERT_TRUE(done) << "a change fails";
    sum_.enabled += done->enabled;
    sum_.disabled += done->disabled;
    sum_.removed += done->removed;
    sum_.unchanged += done->unchanged;
    if (done->added != nullptr) note_added(owner, *done->added, has_switches, at_once);
    for (const engine::ProbeId& id : wanted.enable)
      note_turned(owner, id, Modelled::State::on, at_once);
    for (const engine::ProbeId& id : wanted.disable)
      note_turned(owner, id, Modelled::State::off, at_once);
    note_removed(owner, wanted.remove, *done, at_once);
    EXPECT_FALSE(done->ended.memory_left);
    EXPECT_EQ(done->ended.foreign, 0u);
    // Their figures stay as long as they are kept.
    if (below(4) == 0)
      std::erase_if(owner.engine.batches(), [&](const engine::Batch& batch) {
        return owner.model[batch.id].is_over() && owner.model.erase(batch.id) == 1;
      });
  }

  void note_added(Owner& owner, const engine::Batch& batch, bool has_switches, bool at_once) {
    ModelledBatch& model = owner.model[batch.id];
    added_ += batch.session.probes().size();
    for (const engine::ArmedProbe& probe : batch.session.probes()) {
      Modelled one;
      const std::string_view function = batch.session.name_of(probe).function;
      one.name = std::string(function) + "+" + std::to_string(batch.session.name_of(probe).offset);
      one.calls_each = function == "inner" ? 2 : 1;
      one.has_switch = has_switches;
      one.is_open = at_once;
      model.probes.push_back(one);
    }
  }

  static void note_turned(Owner& owner, const engine::ProbeId& id, Modelled::State to,
                          bool at_once) {
    Modelled& one = owner.model[id.batch].probes[id.probe];
    if (one.state == Modelled::State::removed || !one.has_switch || one.state == to) return;
    one.state = to;
    one.is_open = at_once;
  }

  // Without a switch, a probe stays if its jump has to stay for others: then the report counts it
  // among those that are unchanged, and only the session knows which.
  static void note_removed(Owner& owner, const std::vector<engine::ProbeId>& removed,
                           const engine::ChangeReport& report, bool at_once) {
    std::set<engine::BatchId> touched;
    for (const engine::ProbeId& id : removed) touched.insert(id.batch);
    for (const engine::Batch& batch : owner.engine.batches()) {
      if (!touched.contains(batch.id)) continue;
      ModelledBatch& model = owner.model[batch.id];
      for (const engine::ProbeId& id : removed) {
        if (id.batch != batch.id || !batch.session.is_removed(id.probe)) continue;
        Modelled& one = model.probes[id.probe];
        if (one.state != Modelled::State::removed) {
          if (one.state == Modelled::State::on) one.is_open = at_once;
          one.state = Modelled::State::removed;
        }
      }
      for (const engine::ProbeId& id : removed)
        if (id.batch == batch.id && !batch.session.is_removed(id.probe)) {
          EXPECT_FALSE(model.probes[id.probe].has_switch) << "it could be turned off";
          EXPECT_NE(report.unchanged, 0u);
        }
    }
  }

  void check(Owner& owner, uint64_t calls) {
    for (const engine::Batch& batch : owner.engine.batches()) {
      const engine::Session& session = batch.session;
      if (session.probes().empty()) continue;
      const auto hits = session.hits();
      ModelledBatch& model = owner.model[batch.id];
      for (size_t i = 0; i < model.probes.size(); ++i) {
        Modelled& one = model.probes[i];
        const uint64_t got = hits[i];
        const uint64_t all = calls * one.calls_each;
        if (std::exchange(one.is_open, false)) {
          ASSERT_GE(got, one.recorded) << one.name;
          ASSERT_LE(got, one.recorded + all) << one.name;
          one.recorded = got;
          continue;
        }
        if (one.state == Modelled::State::on) one.recorded += all;
        ASSERT_EQ(got, one.recorded)
            << one.name << ", kind " << static_cast<int>(session.kind_of(session.probes()[i]))
            << ", state " << static_cast<int>(one.state);
      }
    }
  }

  pid_t pid_;
  Program& program_;
  std::mt19937_64 random_;
  image::ObjectStore store_;
  std::vector<Owner> owners_;
  engine::ChangeReport sum_;
  size_t added_ = 0;  // probes
};

TEST(Changes, by_several_owners_count_what_a_model_counts) {
  const std::string wanted = environment("MODEL_STEPS"), given = environment("SEED");
  const int steps = wanted.empty() ? 2000 : std::stoi(wanted);
  const uint64_t seed = given.empty() ? std::random_device{}() : std::stoull(given);
  runtime_folder();
  Program program({TARGETS "called"});
  program.say("call 1");
  ASSERT_EQ(program.hear(), "called");
  const Footprint before = footprint_of(program.pid());
  {
    Model model(program.pid(), program, seed);
    for (int i = 0; i < steps; ++i) {
      model.step();
      if (testing::Test::HasFailure()) FAIL() << "SEED=" << seed << ", step " << i;
    }
    model.remove_all();
    // Otherwise nothing was tested.
    const engine::ChangeReport& sum = model.sum();
    std::cout << model.added() << " added, " << sum.removed << " removed, " << sum.enabled
              << " enabled, " << sum.disabled << " disabled, " << sum.unchanged
              << " that could not be changed\n";
    EXPECT_GT(std::min({sum.removed, sum.enabled, sum.disabled, sum.unchanged}), 0u);
  }
  program.say("call 10");
  EXPECT_EQ(program.hear(), "called");
  EXPECT_TRUE(session_files().empty());
  const Footprint after = footprint_of(program.pid());
  EXPECT_EQ(before.text, after.text) << "SEED=" << seed;
  EXPECT_EQ(differences(before, after), "") << "SEED=" << seed;
}

}  // namespace
}  // namespace pinprick::survive
